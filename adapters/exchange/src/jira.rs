//! Resolves parents in CSV exports of Jira, which name them by issue ID or key.

use std::collections::{BTreeMap, HashMap};

use reqlore_domain::backlog::Reference;
use reqlore_domain::ports::exchange::{ImportedItem, ImportedItems};
use reqlore_domain::records::kinds::find_kind;
use serde_json::json;

/// The extra key of a parent that is not imported.
const EXTRA_KEY: &str = "Parent key";

/// The issues of a source, and the summaries of parents that it may lack.
#[derive(Default)]
pub(crate) struct JiraParents {
    /// Sources of items by issue ID and by key.
    sources: HashMap<String, String>,
    /// The positions of items with a parent, and the summary of the parent.
    children: Vec<(usize, String)>,
}

/// Positions of the columns that name an issue and its parent.
#[derive(Clone, Copy)]
pub(crate) struct JiraColumns {
    names: [Option<usize>; 2],
    summary: Option<usize>,
}

impl JiraColumns {
    /// `None` for headings that are not those of Jira.
    pub(crate) fn find(headings: &[String]) -> Option<Self> {
        let position = |name| headings.iter().position(|heading| heading == name);
        let id = position("Issue id")?;
        let names = [Some(id), position("Issue key")];
        Some(Self { names, summary: position("Parent summary") })
    }
}

impl JiraParents {
    /// Adds the row of the last item. `is_child` is true if a cell names its parent.
    pub(crate) fn add(
        &mut self,
        columns: JiraColumns,
        row: &[String],
        imported: &ImportedItems,
        is_child: bool,
    ) {
        let cell =
            |index: Option<usize>| index.and_then(|index| row.get(index)).map(|one| one.trim());
        let Some(item) = imported.items.last() else { return };
        for name in columns.names.into_iter().filter_map(&cell) {
            self.sources.entry(name.to_owned()).or_insert_with(|| item.source.clone());
        }
        if is_child {
            let summary = cell(columns.summary).unwrap_or_default();
            self.children.push((imported.items.len() - 1, summary.to_owned()));
        }
    }

    /// Sets the parents after the last row. A parent that the source lacks is made from its
    /// summary, or kept as an extra key.
    pub(crate) fn resolve(mut self, imported: &mut ImportedItems) -> Result<(), String> {
        self.add_missing(imported)?;
        for (index, _) in self.children {
            let item = &mut imported.items[index];
            let Some(parent) = item.parent.take() else { continue };
            let (mut extra, is_child) = (String::new(), parent_kind(item).is_some());
            match self.sources.get(&parent) {
                Some(source) if is_child => item.parent = Some(source.clone()),
                None if is_child && Reference::parse(&parent).is_some() => {
                    item.parent = Some(parent);
                }
                _ => extra = parent,
            }
            // An empty value removes that of an earlier import.
            item.values.insert(EXTRA_KEY.to_owned(), json!(extra));
        }
        Ok(())
    }

    /// Makes the parents that the source lacks and that have a summary.
    fn add_missing(&mut self, imported: &mut ImportedItems) -> Result<(), String> {
        let mut missing: BTreeMap<String, ImportedItem> = BTreeMap::new();
        for (index, summary) in &self.children {
            let item = &imported.items[*index];
            let (Some(parent), Some(kind)) = (&item.parent, parent_kind(item)) else { continue };
            if summary.is_empty() || self.sources.contains_key(parent) {
                continue;
            }
            let path = item.source.split_once('#').map_or("", |(path, _)| path);
            let made = missing.entry(parent.clone()).or_insert_with(|| ImportedItem {
                source: format!("{path}#{parent}"),
                kind: kind.to_owned(),
                title: summary.clone(),
                ..ImportedItem::default()
            });
            // A story's parent is an epic, and a requirement may be in an epic too.
            if kind == "epic" {
                kind.clone_into(&mut made.kind);
            }
        }
        for (parent, item) in missing {
            self.sources.insert(parent, item.source.clone());
            imported.push(item)?;
        }
        Ok(())
    }
}

/// The kind of the parent of an item; `None` for kinds without one.
fn parent_kind(item: &ImportedItem) -> Option<&'static str> {
    Some(find_kind(&item.kind)?.parent?.name())
}
