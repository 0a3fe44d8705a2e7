//! Compares the waits of random projects with a model.

use proptest::prelude::*;

use super::*;
use crate::timestamp::Timestamp;

const STATUSES: [&str; 5] = ["Backlog", "Draft", "In Progress", "Done", "Cancelled"];

/// Requirement `n` belongs to story `n % stories`.
#[derive(Debug, Clone)]
struct Project {
    /// Indexes of [`STATUSES`].
    stories: Vec<usize>,
    /// True for obsolete ones.
    requirements: Vec<bool>,
    /// `depends_on` or `blocks`, between two stories or two requirements.
    links: Vec<(bool, bool, usize, usize)>,
}

fn projects() -> impl Strategy<Value = Project> {
    let stories = prop::collection::vec(0..STATUSES.len(), 1..9);
    let requirements = prop::collection::vec(prop::bool::weighted(0.2), 0..12);
    let link = (any::<bool>(), any::<bool>(), 0..12_usize, 0..12_usize);
    (stories, requirements, prop::collection::vec(link, 0..14))
        .prop_map(|(stories, requirements, links)| Project { stories, requirements, links })
}

fn reference(kind: ItemKind, index: usize) -> Reference {
    Reference { kind, number: u32::try_from(index).unwrap() + 1 }
}

impl Project {
    /// The links between items that exist, as kind, relation, source and target.
    fn valid_links(&self) -> impl Iterator<Item = (ItemKind, &'static str, usize, usize)> {
        self.links.iter().filter_map(|&(is_story, depends, source, target)| {
            let (kind, count) = if is_story {
                (ItemKind::UserStory, self.stories.len())
            } else {
                (ItemKind::Requirement, self.requirements.len())
            };
            let relation = if depends { "depends_on" } else { "blocks" };
            (source < count && target < count).then_some((kind, relation, source, target))
        })
    }

    fn items(&self) -> Vec<ItemMeta> {
        let item = |kind: ItemKind, index: usize, fields: String| {
            let mut text = format!("---\ntitle: A\n{fields}");
            for relation in ["depends_on", "blocks"] {
                let own = self
                    .valid_links()
                    .filter(|link| (link.0, link.1, link.2) == (kind, relation, index));
                let targets: Vec<_> = own.map(|link| reference(kind, link.3).to_string()).collect();
                if !targets.is_empty() {
                    text += &[relation, ": [", &targets.join(", "), "]\n"].concat();
                }
            }
            text += "---\n";
            let name = reference(kind, index).to_string();
            ItemMeta::parse(kind, &name, &text, Timestamp(0)).0
        };
        let mut items = Vec::new();
        for (index, status) in self.stories.iter().enumerate() {
            let fields = format!("status: {}\n", STATUSES[*status]);
            items.push(item(ItemKind::UserStory, index, fields));
        }
        for (index, is_obsolete) in self.requirements.iter().enumerate() {
            let status = if *is_obsolete { "Obsolete" } else { "Draft" };
            let story = reference(ItemKind::UserStory, index % self.stories.len());
            items.push(item(
                ItemKind::Requirement,
                index,
                format!("status: {status}\nuser_story: {story}\n"),
            ));
        }
        items
    }

    /// `matrix[a][b]` if story `a` depends on story `b`, with any statuses.
    fn dependencies(&self) -> Vec<Vec<bool>> {
        let count = self.stories.len();
        let mut matrix = vec![vec![false; count]; count];
        for (kind, relation, source, target) in self.valid_links() {
            let is_requirement = kind == ItemKind::Requirement;
            if is_requirement && (self.requirements[source] || self.requirements[target]) {
                continue;
            }
            let (a, b) = (source % count, target % count);
            if a != b {
                let (a, b) = if relation == "blocks" { (b, a) } else { (a, b) };
                matrix[a][b] = true;
            }
        }
        matrix
    }

    fn is_finished(&self, story: usize) -> bool {
        ["Done", "Cancelled"].contains(&STATUSES[self.stories[story]])
    }
}

/// True for each pair with a path of one or more steps.
fn closure(mut matrix: Vec<Vec<bool>>) -> Vec<Vec<bool>> {
    for middle in 0..matrix.len() {
        let through = matrix[middle].clone();
        for row in matrix.iter_mut().filter(|row| row[middle]) {
            for (is_reached, is_next) in row.iter_mut().zip(&through) {
                *is_reached |= is_next;
            }
        }
    }
    matrix
}

proptest! {
    #[test]
    fn waits_match_a_model_without_shared_code(project in projects()) {
        let items = project.items();
        let waits = StoryWaits::of_items(&items, &RecordSchema::default());
        let story = |index| reference(ItemKind::UserStory, index);
        let count = project.stories.len();
        let (all, mut open) = (project.dependencies(), project.dependencies());
        for (a, row) in open.iter_mut().enumerate() {
            for (b, is_open) in row.iter_mut().enumerate() {
                *is_open &= !project.is_finished(a) && !project.is_finished(b);
            }
        }
        let reachable = closure(open.clone());
        let mut dropped = Vec::new();
        for a in 0..count {
            let expected: Vec<_> = (0..count).filter(|b| open[a][*b]).map(story).collect();
            prop_assert_eq!(waits.waits_for(story(a)).collect::<Vec<_>>(), expected);
            let waiting = (0..count).filter(|b| *b != a && reachable[*b][a]).count();
            prop_assert_eq!(waits.waiting_count(story(a)), waiting);
            for b in 0..count {
                let is_dropped = STATUSES[project.stories[b]] == "Cancelled";
                if all[a][b] && is_dropped && !project.is_finished(a) {
                    dropped.push((story(a), story(b)));
                }
            }
        }
        prop_assert_eq!(waits.dropped().collect::<Vec<_>>(), dropped);
        let cycles = waits.cycles();
        for cycle in &cycles {
            prop_assert!(cycle.iter().all(|one| cycle[0] <= *one));
            for (index, one) in cycle.iter().enumerate() {
                let next = cycle[(index + 1) % cycle.len()];
                prop_assert!(waits.waits_for(*one).any(|other| other == next), "{:?}", cycle);
            }
        }
        let listed: BTreeSet<_> = cycles.into_iter().flatten().collect();
        let expected: BTreeSet<_> = (0..count).filter(|a| reachable[*a][*a]).map(story).collect();
        prop_assert_eq!(listed, expected);
    }
}

#[test]
fn long_chains_and_cycles_need_no_stack() {
    const STORIES: usize = 20_000;
    let mut items = Vec::with_capacity(STORIES);
    for index in 0..STORIES {
        let next = reference(ItemKind::UserStory, (index + 1) % STORIES);
        let text = format!("---\ntitle: A\ndepends_on: [{next}]\n---\n");
        let name = reference(ItemKind::UserStory, index).to_string();
        items.push(ItemMeta::parse(ItemKind::UserStory, &name, &text, Timestamp(0)).0);
    }
    let waits = StoryWaits::of_items(&items, &RecordSchema::default());
    assert_eq!(waits.cycles().iter().map(Vec::len).collect::<Vec<_>>(), [STORIES]);
    assert_eq!(waits.waiting_count(reference(ItemKind::UserStory, 0)), STORIES - 1);
}
