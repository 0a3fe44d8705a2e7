//! Resolves parents in CSV exports of Jira, which name them by issue ID or key.

use std::collections::HashMap;

use reqlore_domain::ports::exchange::{ImportedItem, ImportedItems};
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
    /// Adds the row of an item.
    pub(crate) fn add(&mut self, columns: JiraColumns, row: &[String], imported: &ImportedItems) {
        let cell =
            |index: Option<usize>| index.and_then(|index| row.get(index)).map(|one| one.trim());
        let Some(item) = imported.items.last() else { return };
        for name in columns.names.into_iter().filter_map(&cell) {
            self.sources.entry(name.to_owned()).or_insert_with(|| item.source.clone());
        }
        if item.parent.is_some() {
            let summary = cell(columns.summary).unwrap_or_default();
            self.children.push((imported.items.len() - 1, summary.to_owned()));
        }
    }

    /// Sets the parents after the last row. A parent that the source lacks is made from its
    /// summary, or kept as an extra key.
    pub(crate) fn resolve(mut self, imported: &mut ImportedItems) -> Result<(), String> {
        for (index, summary) in self.children {
            let item = &mut imported.items[index];
            let Some(parent) = item.parent.take() else { continue };
            let kind = match &*item.kind {
                "user_story" => "epic",
                "requirement" | "acceptance_criteria" => "user_story",
                _ => "",
            };
            let source = self.sources.get(&parent).cloned();
            if kind.is_empty() || source.is_none() && summary.is_empty() {
                item.values.insert(EXTRA_KEY.to_owned(), json!(parent));
                continue;
            }
            if source.is_some() {
                item.parent = source;
                continue;
            }
            let path = item.source.split_once('#').map_or("", |(path, _)| path);
            let source = format!("{path}#{parent}");
            item.parent = Some(source.clone());
            self.sources.insert(parent, source.clone());
            let kind = kind.to_owned();
            imported.push(ImportedItem {
                source,
                kind,
                title: summary,
                ..ImportedItem::default()
            })?;
        }
        Ok(())
    }
}
