//! Parents in the CSV export of Jira, which names them by internal numbers.

use std::collections::HashMap;

use reqlore_domain::ports::exchange::ImportedItem;

/// The issues of an export, and the titles of parents that it may lack.
#[derive(Default)]
pub(crate) struct JiraParents {
    /// Keys by internal number and by key.
    keys: HashMap<String, String>,
    titles: HashMap<String, String>,
}

impl JiraParents {
    /// True for the headings of such an export.
    pub(crate) fn is_export(headings: &[String]) -> bool {
        headings.iter().any(|heading| heading == "Issue id")
    }

    /// Reads a row of the export.
    pub(crate) fn add(&mut self, headings: &[String], cells: &[String]) {
        let cell = |name: &str| {
            let index = headings.iter().position(|heading| heading == name);
            let cell = index.and_then(|index| cells.get(index)).map(|cell| cell.trim());
            cell.filter(|cell| !cell.is_empty())
        };
        if let (Some(id), Some(key)) = (cell("Issue id"), cell("Issue key")) {
            self.keys.insert(id.to_owned(), key.to_owned());
            self.keys.insert(key.to_owned(), key.to_owned());
        }
        let parent = cell("Parent key").or(cell("Parent")).or(cell("Parent id"));
        if let (Some(parent), Some(title)) = (parent, cell("Parent summary")) {
            self.titles.entry(parent.to_owned()).or_insert_with(|| title.to_owned());
        }
    }

    /// Names the parent of an item by its key. Returns the title of an epic that the export lacks.
    pub(crate) fn resolve(&self, item: &mut ImportedItem) -> Option<&str> {
        let parent = item.parent.as_mut()?;
        if let Some(key) = self.keys.get(parent) {
            parent.clone_from(key);
            return None;
        }
        let title = self.titles.get(parent)?;
        (item.kind == "user_story").then_some(title)
    }
}
