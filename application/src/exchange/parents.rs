//! The parents of imported items: named ones, and epics and stories that the source lacks.

use std::collections::{HashMap, HashSet};

use reqlore_domain::backlog::{ItemKind, Reference, RelationshipType};
use reqlore_domain::ports::exchange::{ImportedItem, file_title};

use super::plan::{ImportPlan, PlannedItem, STORY_MARK, Target};

impl ImportPlan<'_> {
    /// Finds or adds the parents of all items. A requirement below another one derives from it and
    /// has the same parent.
    pub(super) fn add_parents(&mut self) {
        let is_requirement = |one: &PlannedItem| one.kind.name == ItemKind::Requirement.name();
        let mut above: HashMap<usize, usize> = HashMap::new();
        for index in 0..self.items.len() {
            let PlannedItem { item, .. } = &self.items[index];
            let name = item.parent.clone().filter(|_| is_requirement(&self.items[index]));
            let name = name.unwrap_or_default();
            match self.find(index, name.trim()) {
                Target::Item(other) if !name.is_empty() && is_requirement(&self.items[other]) => {
                    above.insert(index, other);
                    let relation = RelationshipType::DerivesFrom.name().to_owned();
                    self.items[index].item.links.entry(relation).or_default().push(name);
                }
                _ => self.add_parent(index),
            }
        }
        if above.is_empty() || !self.report.problems.is_empty() {
            return;
        }
        self.report.notes.push(format!(
            "{} requirements are below another one: they derive from it and have its parent",
            above.len()
        ));
        for index in above.keys() {
            let (mut path, mut first) = (Vec::new(), *index);
            while let (None, Some(next)) = (&self.items[first].parent, above.get(&first)) {
                path.push(first);
                first = *next;
            }
            let (parent, keeps_parent) =
                (self.items[first].parent.clone(), self.items[first].keeps_parent);
            for index in path {
                self.items[index].parent.clone_from(&parent);
                self.items[index].keeps_parent = keeps_parent;
            }
        }
    }

    /// Finds the parent of an item, or adds it.
    fn add_parent(&mut self, index: usize) {
        let kind = self.items[index].kind;
        let Some(parent_kind) = kind.parent else { return };
        let named = self.items[index].item.parent.clone().filter(|name| !name.trim().is_empty());
        self.items[index].keeps_parent = named.is_none() && self.options.into.is_none();
        let target = named.map(|name| self.find(index, name.trim()));
        let parent = match target {
            Some(Target::Item(parent)) if self.items[parent].kind.name == parent_kind.name() => {
                Some(Target::Item(parent))
            }
            // The story between an epic and its requirements.
            Some(Target::Item(epic)) if self.items[epic].kind.name == ItemKind::Epic.name() => {
                self.story_of(Target::Item(epic), index)
            }
            Some(Target::Item(other)) => {
                let (own, other) = (&self.items[index].item.source, &self.items[other]);
                let (noun, wanted) = (other.kind.words[0], parent_kind.row().words[0]);
                self.report.problem(format!(
                    "{own}: its parent {} is a {noun}; it must be a {wanted}",
                    other.item.source
                ));
                None
            }
            Some(Target::Stored(name)) => match Reference::parse(&name.to_uppercase()) {
                Some(found) if found.kind == parent_kind => Some(Target::Stored(found.to_string())),
                Some(found) if found.kind == ItemKind::Epic => {
                    self.story_of(Target::Stored(found.to_string()), index)
                }
                found => {
                    let own = &self.items[index].item.source;
                    let noun = parent_kind.row().words[0];
                    let problem = match found {
                        Some(_) => format!("is outside of the source; it must be a {noun}"),
                        None => "is neither in the source nor a reference".to_owned(),
                    };
                    self.report.problem(format!("{own}: its parent {name:?} {problem}"));
                    None
                }
            },
            None if parent_kind == ItemKind::Epic => self.default_epic(index),
            None => {
                let epic = self.default_epic(index);
                epic.and_then(|epic| self.story_of(epic, index))
            }
        };
        self.items[index].parent = parent;
    }

    /// The epic of all items of a file without one.
    fn default_epic(&mut self, index: usize) -> Option<Target> {
        if let Some(epic) = &self.options.into {
            return Some(Target::Stored(epic.clone()));
        }
        let path = self.path_of(index);
        let title = file_title(&path).to_owned();
        self.generate(ItemKind::Epic, format!("{path}#"), title)
    }

    /// The story of an epic that holds what the source has directly below the epic.
    fn story_of(&mut self, epic: Target, index: usize) -> Option<Target> {
        let (path, id, title) = match &epic {
            Target::Item(epic) => {
                let ImportedItem { source, title, .. } = &self.items[*epic].item;
                let id = source.split_once('#').map_or("", |(_, id)| id);
                (self.path_of(*epic), id.to_owned(), title.clone())
            }
            Target::Stored(epic) => {
                let path = self.path_of(index);
                let title = file_title(&path).to_owned();
                (path, epic.clone(), title)
            }
        };
        let story =
            self.generate(ItemKind::UserStory, format!("{path}#{id}{STORY_MARK}"), title)?;
        if let Target::Item(story) = story {
            self.items[story].parent = Some(epic);
            self.items[story].keeps_parent = true;
        }
        Some(story)
    }

    /// The path of an item's file in its source.
    fn path_of(&self, index: usize) -> String {
        let source = &self.items[index].item.source;
        let path = source.split_once('#').map_or(&**source, |(path, _)| path);
        path.split_once(':').map_or(path, |(_, path)| path).to_owned()
    }

    /// An epic or story that the source lacks, once.
    fn generate(&mut self, kind: ItemKind, source: String, title: String) -> Option<Target> {
        if let Some(index) = self.by_source.get(&self.bounded_source(&source)) {
            return Some(Target::Item(*index));
        }
        let kind = kind.name().to_owned();
        let item =
            ImportedItem { source, kind, title, lacks_text: true, ..ImportedItem::default() };
        let index = self.add(item)?;
        self.items[index].is_generated = true;
        Some(Target::Item(index))
    }

    /// Each parent has a higher kind than its child, so the only cycles are among named parents of
    /// a wrong kind. They get an error of their own.
    pub(super) fn check_cycles(&mut self) {
        let mut checked = HashSet::new();
        for start in 0..self.items.len() {
            let (mut path, mut index) = (HashSet::new(), start);
            while checked.insert(index) && path.insert(index) {
                let Some(name) = &self.items[index].item.parent else { break };
                let Target::Item(parent) = self.find(index, name.trim()) else { break };
                index = parent;
                if path.contains(&index) {
                    let source = &self.items[index].item.source;
                    self.report.problem(format!("{source}: it is its own ancestor"));
                }
            }
        }
    }
}
