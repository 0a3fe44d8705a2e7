//! Tables: one item a row, one field a column.

use std::collections::{BTreeMap, HashMap};

use reqlore_domain::link_values::is_known_relation;
use reqlore_domain::ports::exchange::{ImportMapping, ImportedItem, ImportedItems};
use reqlore_domain::records::answers::csv::{split_list, unmark};
use serde_json::json;

use crate::columns::{TableRow, find_columns, kind_of};
use crate::jira::{JiraColumns, JiraParents};
use crate::names::{title_of, unique_id};

/// The rows in which the meaning of a column is guessed.
const SAMPLE_ROWS: usize = 50;

/// Reads the tables of a file, whose rows may name the same epics and stories.
pub(crate) struct TableReader<'a> {
    path: String,
    columns: Vec<(String, String)>,
    /// Kinds by their word in the file.
    kinds: BTreeMap<String, String>,
    used: HashMap<String, usize>,
    pub(crate) imported: &'a mut ImportedItems,
    jira: &'a mut JiraParents,
    jira_columns: Option<JiraColumns>,
    /// Epics and stories that rows name by a title.
    made: HashMap<(String, String), String>,
}

impl<'a> TableReader<'a> {
    pub(crate) fn new(
        path: String,
        imported: &'a mut ImportedItems,
        jira: &'a mut JiraParents,
    ) -> Self {
        Self {
            path,
            columns: Vec::new(),
            kinds: BTreeMap::new(),
            used: HashMap::new(),
            imported,
            jira,
            jira_columns: None,
            made: HashMap::new(),
        }
    }

    /// True before the first table.
    pub(crate) fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// Reads a table. The error begins with the row.
    pub(crate) fn read(
        &mut self,
        headings: &[String],
        mut rows: impl Iterator<Item = Result<TableRow, String>>,
        mapping: &mut ImportMapping,
    ) -> Result<(), String> {
        let sample: Vec<TableRow> = rows.by_ref().take(SAMPLE_ROWS).collect::<Result<_, _>>()?;
        self.columns = find_columns(headings, &sample, mapping)?;
        let is_text = |(_, field): &(String, String)| matches!(&**field, "title" | "text");
        let has_items = sample.iter().any(|row| !is_blank(&row.cells));
        if has_items && !self.columns.iter().any(is_text) {
            return Err(": no title or text column was found; map one with --map".to_owned());
        }
        self.kinds = mapping.values.get("kind").cloned().unwrap_or_default();
        self.jira_columns = JiraColumns::find(headings);
        for row in sample.into_iter().map(Ok).chain(rows) {
            let TableRow { number, cells } = row?;
            self.read_row(&cells).map_err(|problem| format!(": row {number}: {problem}"))?;
        }
        Ok(())
    }

    fn read_row(&mut self, row: &[String]) -> Result<(), String> {
        if is_blank(row) {
            return Ok(());
        }
        if row.len() > self.columns.len() {
            let (cells, columns) = (row.len(), self.columns.len());
            return Err(format!("it has {cells} cells, but the table has {columns} columns"));
        }
        let mut item = ImportedItem { kind: "requirement".to_owned(), ..ImportedItem::default() };
        let [mut epic, mut story] = [String::new(), String::new()];
        let mut tags: Option<Vec<String>> = None;
        for ((_, field), cell) in self.columns.iter().zip(row) {
            let text = unmark(cell);
            match &**field {
                "" => {}
                "id" => item.id = Some(text.trim().to_owned()).filter(|id| !id.is_empty()),
                "kind" if text.trim().is_empty() => {}
                "kind" => {
                    let mapped = self.kinds.get(text.trim()).filter(|kind| !kind.is_empty());
                    let word = mapped.map_or(text, |kind| kind).trim();
                    kind_of(word).unwrap_or(word).clone_into(&mut item.kind);
                }
                "title" => text.trim().clone_into(&mut item.title),
                "text" => text.clone_into(&mut item.text),
                "parent" if item.parent.is_some() || text.trim().is_empty() => {}
                "parent" => item.parent = Some(text.trim().to_owned()),
                "epic" => text.trim().clone_into(&mut epic),
                "story" => text.trim().clone_into(&mut story),
                "tag" | "tags" => tags.get_or_insert_default().extend(split_list(text)),
                relation if is_known_relation(relation) => {
                    let targets = item.links.entry(relation.to_owned()).or_default();
                    targets.extend(split_list(text));
                }
                field => _ = item.values.insert(field.to_owned(), json!(text)),
            }
        }
        item.values.extend(tags.map(|tags| ("tags".to_owned(), json!(tags))));
        // An empty extra key or link is no value.
        item.links.retain(|_, targets| !targets.is_empty());
        if item.title.is_empty() {
            item.title = title_of(&item.text);
        }
        let id = item.id.clone().unwrap_or_else(|| unique_id(&mut self.used, &item.title));
        item.source = format!("{}#{id}", self.path);
        let is_child = item.parent.is_some();
        self.find_parent(&mut item, &epic, &story)?;
        self.imported.push(item)?;
        if let Some(columns) = self.jira_columns {
            self.jira.add(columns, row, self.imported, is_child);
        }
        Ok(())
    }

    /// Makes the epic and the story that a row names by their titles.
    fn find_parent(
        &mut self,
        item: &mut ImportedItem,
        epic: &str,
        story: &str,
    ) -> Result<(), String> {
        let has_story = matches!(&*item.kind, "requirement" | "acceptance_criteria");
        if item.parent.is_some() || !has_story && item.kind != "user_story" {
            return Ok(());
        }
        let epic = if epic.is_empty() { None } else { Some(self.make("epic", epic, None)?) };
        item.parent = epic;
        if has_story && !story.is_empty() {
            let epic = item.parent.take();
            item.parent = Some(self.make("user_story", story, epic)?);
        }
        Ok(())
    }

    /// The ID or source of the item that a cell names: another row, or one that is made for it.
    fn make(&mut self, kind: &str, name: &str, parent: Option<String>) -> Result<String, String> {
        let prefix = if kind == "epic" { "EP-" } else { "US-" };
        if name.starts_with(prefix) {
            return Ok(name.to_owned());
        }
        let key = (kind.to_owned(), format!("{}/{name}", parent.as_deref().unwrap_or_default()));
        if let Some(source) = self.made.get(&key) {
            return Ok(source.clone());
        }
        let mut id = format!("{kind}:{name}");
        if let Some(parent) = &parent {
            let parent = parent.split_once('#').map_or(&**parent, |(_, id)| id);
            id = format!("{parent}/{id}");
        }
        let source = format!("{}#{id}", self.path);
        self.imported.push(ImportedItem {
            source: source.clone(),
            kind: kind.to_owned(),
            title: name.to_owned(),
            parent,
            ..ImportedItem::default()
        })?;
        self.made.insert(key, source.clone());
        Ok(source)
    }
}

fn is_blank(row: &[String]) -> bool {
    row.iter().all(|cell| cell.trim().is_empty())
}
