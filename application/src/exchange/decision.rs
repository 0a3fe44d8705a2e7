//! The action for each item: compares its values with those of its record and of the last import.

use std::cmp::Reverse;
use std::collections::HashSet;

use serde_json::json;

use super::item_values::{ItemValues, values_hash};
use super::plan::{IDENTITY_KEY, ImportPlan, ItemAction, PlannedItem, StoredMatch, Target};
use super::report::{ImportReport, ReportedItem};

/// Begins the extra keys of values that their fields refused.
const UNMAPPED_PREFIX: &str = "extra.source_";
/// Values that every record has.
const OTHER_VALUES: [&str; 5] = ["parent", "priority", "status", "text", "type"];

impl ImportPlan<'_> {
    /// Decides on the action for each item, after all records were added.
    pub fn decide(&mut self) {
        for index in 0..self.items.len() {
            self.find_links(index);
            self.check_parent(index);
        }
        self.keep_stored_parents();
        for index in 0..self.items.len() {
            self.clear_outdated(index);
            let mut given = self.items[index].values.clone();
            let parent =
                self.items[index].parent.as_ref().filter(|_| !self.items[index].keeps_parent);
            let parent = parent.map(|parent| self.identity(parent));
            given.extend(parent.map(|parent| ("parent".to_owned(), json!(parent))));
            let hash = values_hash(&given, &given);
            let action = match &self.items[index].stored {
                None if self.items[index].action == ItemAction::Omit => ItemAction::Omit,
                None => ItemAction::Create,
                Some(stored) => {
                    let current = self.stored_values(stored);
                    let is_same = values_hash(&current, &given) == hash;
                    match &stored.hash {
                        _ if is_same => ItemAction::Keep,
                        Some(last) if self.is_unchanged(stored, &current, &given, last) => {
                            ItemAction::Update
                        }
                        Some(last) if *last == hash => ItemAction::KeepEdited,
                        _ if self.options.update => ItemAction::Update,
                        _ => ItemAction::Conflict,
                    }
                }
            };
            (self.items[index].hash, self.items[index].action) = (hash, action);
        }
        self.check_required();
        self.find_missing_links();
        for item in &self.items {
            report_item(&mut self.report, item);
        }
    }

    /// True if a record has the values of its last import, which may have given more than this one.
    /// More values with the same hash are those of the last import too.
    fn is_unchanged(
        &self,
        stored: &StoredMatch,
        current: &ItemValues,
        given: &ItemValues,
        last: &str,
    ) -> bool {
        let mut given = given.clone();
        // The source names a parent for the first time.
        if stored.parent.as_ref().is_some_and(|parent| self.generated.contains(parent))
            && values_hash(current, &given) != last
        {
            given.remove("parent");
        }
        let is_optional = |key: &str| {
            matches!(key, "assignee" | "rank" | "tags") || key.contains('.') && key != IDENTITY_KEY
        };
        (0..1 << (OTHER_VALUES.len() + 1)).any(|set: usize| {
            let mut keys = given.clone();
            for (key, value) in current {
                let position = OTHER_VALUES.iter().position(|one| one == key);
                let bit = position.unwrap_or(OTHER_VALUES.len());
                if (position.is_some() || is_optional(key)) && set & 1 << bit != 0 {
                    keys.insert(key.clone(), value.clone());
                }
            }
            values_hash(current, &keys) == last
        })
    }

    /// Leaves records where the project has them if their source names no parent, and omits the
    /// epics and stories that were made for them only.
    fn keep_stored_parents(&mut self) {
        let mut needed = HashSet::new();
        let mut order: Vec<usize> = (0..self.items.len()).collect();
        // Children come before what was made for them, and stories before their epics.
        order.sort_by_key(|index| (self.items[*index].is_generated, Reverse(*index)));
        for index in order {
            let item = &mut self.items[index];
            if item.stored.is_some() && item.keeps_parent {
                item.parent = None;
            } else if item.stored.is_none() && item.is_generated && !needed.contains(&index) {
                (item.parent, item.action) = (None, ItemAction::Omit);
            }
            if let Some(Target::Item(parent)) = item.parent {
                needed.insert(parent);
            }
        }
    }

    /// Removes the extra keys that earlier imports kept for values that now have a field or link.
    fn clear_outdated(&mut self, index: usize) {
        let PlannedItem { values, stored: Some(stored), links, .. } = &mut self.items[index] else {
            return;
        };
        for key in stored.values.keys() {
            let Some(name) = key.strip_prefix(UNMAPPED_PREFIX) else { continue };
            if matches!(name, "title" | "text") {
                continue;
            }
            let is_given = values.contains_key(name)
                || values.contains_key(&format!("fields.{name}"))
                || links.iter().any(|(relation, _)| relation == name);
            if is_given && !values.contains_key(key) {
                values.insert(key.clone(), json!(""));
            }
        }
    }

    fn stored_values(&self, stored: &StoredMatch) -> ItemValues {
        let mut values = stored.values.clone();
        let parent = stored.parent.clone().map(|id| self.identity(&Target::Stored(id)));
        values.extend(parent.map(|parent| ("parent".to_owned(), json!(parent))));
        values
    }

    /// The source of an item or of its record, or the ID of another record.
    fn identity(&self, target: &Target) -> String {
        let index = match target {
            Target::Item(index) => Some(*index),
            Target::Stored(id) => self.stored.get(id).copied().flatten(),
        };
        match (index, target) {
            (Some(index), _) => self.items[index].item.source.clone(),
            (None, Target::Stored(id)) => id.clone(),
            (None, Target::Item(_)) => String::new(),
        }
    }
}

fn report_item(report: &mut ImportReport, planned: &PlannedItem) {
    let PlannedItem { kind, item, stored, action, .. } = planned;
    let title = if item.title.is_empty() { item.text.lines().next() } else { Some(&*item.title) };
    let reported = ReportedItem {
        kind: kind.name,
        id: stored.as_ref().map(|stored| stored.id.clone()).unwrap_or_default(),
        title: title.unwrap_or_default().to_owned(),
        source: item.source.clone(),
    };
    match action {
        ItemAction::Create => report.created.push(reported),
        ItemAction::Update => report.updated.push(reported),
        ItemAction::Keep => report.unchanged += 1,
        ItemAction::KeepEdited => report.edited_here.push(reported),
        ItemAction::Conflict => report.conflicts.push(reported),
        ItemAction::Omit => {}
    }
}
