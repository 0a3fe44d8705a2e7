//! Which user stories wait for which others, by the relationships of stories and their
//! requirements.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::backlog::{ItemKind, ItemMeta, Reference, RelationshipType};
use crate::records::schema::{RecordSchema, StatusCategory};

type Edges = BTreeMap<Reference, BTreeSet<Reference>>;

/// The dependencies of the stories that are neither done nor dropped. Story A depends on story B if
/// A or a requirement of A `depends_on` B or a requirement of B, or if one of these `blocks` one of
/// those. Dropped requirements do not count, nor do links inside one story.
#[derive(Debug, Default)]
pub struct StoryWaits {
    /// The stories that a story waits for: neither done nor dropped.
    waits_for: Edges,
    /// The same in the other direction.
    needed_by: Edges,
    /// The dropped stories that a story depends on. It does not wait for them.
    dropped: Edges,
}

impl StoryWaits {
    /// `items` are all stories and requirements of a project.
    pub fn of_items<'a>(
        items: impl IntoIterator<Item = &'a ItemMeta> + Clone,
        schema: &RecordSchema,
    ) -> Self {
        let mut categories = BTreeMap::new();
        // The story of each item that counts.
        let mut stories = BTreeMap::new();
        for item in items.clone() {
            let Some(reference) = item.reference else { continue };
            let status = item.status.map(|status| schema.category(item.kind, status));
            match item.kind {
                ItemKind::UserStory => {
                    categories.insert(reference, status.unwrap_or(StatusCategory::Open));
                    stories.insert(reference, reference);
                }
                ItemKind::Requirement if status != Some(StatusCategory::Dropped) => {
                    stories.extend(item.parent.map(|story| (reference, story)));
                }
                _ => {}
            }
        }
        let mut waits = Self::default();
        for item in items {
            let Some(own) = item.reference.and_then(|own| stories.get(&own)) else { continue };
            for link in &item.relationships {
                let Some(other) = stories.get(&link.target) else { continue };
                match link.kind {
                    RelationshipType::DependsOn => waits.add(*own, *other, &categories),
                    RelationshipType::Blocks => waits.add(*other, *own, &categories),
                    _ => {}
                }
            }
        }
        waits
    }

    fn add(
        &mut self,
        story: Reference,
        other: Reference,
        categories: &BTreeMap<Reference, StatusCategory>,
    ) {
        use StatusCategory::{Active, Done, Dropped, Open};
        let (Some(own), Some(category)) = (categories.get(&story), categories.get(&other)) else {
            return;
        };
        match (own, category) {
            _ if story == other => {}
            (Done | Dropped, _) | (_, Done) => {}
            (_, Dropped) => {
                self.dropped.entry(story).or_default().insert(other);
            }
            (_, Open | Active) => {
                self.waits_for.entry(story).or_default().insert(other);
                self.needed_by.entry(other).or_default().insert(story);
            }
        }
    }

    /// The stories that a story waits for, not those that these wait for.
    pub fn waits_for(&self, story: Reference) -> impl Iterator<Item = Reference> {
        self.waits_for.get(&story).into_iter().flatten().copied()
    }

    /// The number of stories that wait for a story, directly or not.
    pub fn waiting_count(&self, story: Reference) -> usize {
        distances(&self.needed_by, story).keys().filter(|other| **other != story).count()
    }

    /// Each story that depends on a dropped one, with it.
    pub fn dropped(&self) -> impl Iterator<Item = (Reference, Reference)> {
        let of_story = |(story, others): (&Reference, &'_ BTreeSet<Reference>)| {
            let story = *story;
            others.iter().map(move |other| (story, *other)).collect::<Vec<_>>()
        };
        self.dropped.iter().flat_map(of_story)
    }

    /// Cycles of stories that wait for each other, each beginning with its lowest reference. Every
    /// story of any cycle is in one of them.
    pub fn cycles(&self) -> Vec<Vec<Reference>> {
        let mut cycles: Vec<Vec<Reference>> = Vec::new();
        let mut listed = BTreeSet::<Reference>::new();
        for story in self.in_or_before_cycles() {
            if listed.contains(&story) {
                continue;
            }
            if let Some(cycle) = self.shortest_cycle(story) {
                listed.extend(cycle.iter().copied());
                cycles.push(cycle);
            }
        }
        cycles
    }

    /// The stories from which a cycle can be reached: those that stay when stories that wait for
    /// nothing are removed repeatedly.
    fn in_or_before_cycles(&self) -> BTreeSet<Reference> {
        let mut rest: BTreeMap<Reference, usize> =
            self.waits_for.iter().map(|(story, others)| (*story, others.len())).collect();
        let mut free: Vec<Reference> =
            self.needed_by.keys().filter(|story| !rest.contains_key(story)).copied().collect();
        while let Some(story) = free.pop() {
            for waiting in self.needed_by.get(&story).into_iter().flatten() {
                let Some(count) = rest.get_mut(waiting) else { continue };
                *count -= 1;
                if *count == 0 {
                    rest.remove(waiting);
                    free.push(*waiting);
                }
            }
        }
        rest.into_keys().collect()
    }

    /// The shortest cycle through a story.
    fn shortest_cycle(&self, story: Reference) -> Option<Vec<Reference>> {
        let distances = distances(&self.waits_for, story);
        let mut at = *distances.get(&story)?;
        // Back from the story, each time to one that is one step nearer to the start.
        let mut cycle = vec![story];
        while at > 1 {
            at -= 1;
            let next = cycle.last().and_then(|last| self.needed_by.get(last))?;
            cycle.push(*next.iter().find(|one| distances.get(one) == Some(&at))?);
        }
        cycle.reverse();
        let lowest = cycle.iter().enumerate().min_by_key(|(_, one)| **one)?.0;
        cycle.rotate_left(lowest);
        Some(cycle)
    }
}

/// The number of steps to each story that can be reached in one or more.
fn distances(edges: &Edges, start: Reference) -> BTreeMap<Reference, usize> {
    let mut distances = BTreeMap::new();
    let mut queue = VecDeque::from([(start, 0)]);
    while let Some((story, distance)) = queue.pop_front() {
        for next in edges.get(&story).into_iter().flatten() {
            distances.entry(*next).or_insert_with(|| {
                queue.push_back((*next, distance + 1));
                distance + 1
            });
        }
    }
    distances
}

#[cfg(test)]
mod tests;
