//! Tables: one item a row, one field a column.

use std::collections::{BTreeMap, HashMap};

use reqlore_domain::backlog::Reference;
use reqlore_domain::link_values::is_known_relation;
use reqlore_domain::ports::exchange::{ImportMapping, ImportedItem, ImportedItems};
use reqlore_domain::records::answers::csv::{split_list, unmark};
use serde_json::{Value, json};

use crate::columns::{TableRow, find_columns, is_own_export, kind_of};
use crate::jira::{JiraColumns, JiraParents};
use crate::names::{MAX_NAME_BYTES, title_of, unique_id};

/// Fields that are not values of an item. The last one keeps its spaces.
const ITEM_FIELDS: [&str; 7] = ["id", "kind", "title", "parent", "epic", "story", "text"];
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
    /// True for a table of our own CSV export.
    is_own: bool,
    /// The position of the first item of the file.
    first: usize,
    /// Positions of items with the epic and the story that their rows name.
    named: Vec<(usize, [String; 2])>,
    /// Sources of epics and stories by kind and ID.
    ids: HashMap<(&'static str, String), String>,
    /// Sources by kind, epic and title. Those of rows have an entry without an epic too.
    titles: HashMap<(&'static str, String, String), String>,
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
            first: imported.items.len(),
            imported,
            jira,
            jira_columns: None,
            is_own: false,
            named: Vec::new(),
            ids: HashMap::new(),
            titles: HashMap::new(),
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
        self.is_own = is_own_export(headings);
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
        let mut item = ImportedItem::default();
        let mut cells = [""; ITEM_FIELDS.len()];
        let mut tags: Option<Vec<String>> = None;
        for ((heading, field), cell) in self.columns.iter().zip(row) {
            let text = unmark(cell);
            // In our own export, these are a relation and extra keys.
            let is_own = self.is_own && heading == field;
            let is_key = is_own && matches!(&**field, "epic" | "story" | "tag");
            let place = ITEM_FIELDS.iter().position(|one| one == field).filter(|_| !is_key);
            match (&**field, place) {
                ("", _) => {}
                (_, Some(place)) if cells[place].trim().is_empty() => cells[place] = text,
                // Jira has several columns for it.
                ("parent", _) if self.jira_columns.is_some() => {}
                (_, Some(_)) => add_value(&mut item, [heading; 2], text),
                ("tag" | "tags", _) if !is_key => {
                    tags.get_or_insert_default().extend(split_list(text));
                }
                (relation, _) if is_known_relation(relation) => {
                    let targets = item.links.entry(relation.to_owned()).or_default();
                    targets.extend(split_list(text));
                }
                _ => add_value(&mut item, [field, heading], text),
            }
        }
        item.values.extend(tags.map(|tags| ("tags".to_owned(), json!(tags))));
        item.links.retain(|_, targets| !targets.is_empty());
        let [.., text] = cells;
        text.clone_into(&mut item.text);
        item.lacks_text = !self.columns.iter().any(|(_, field)| field == "text");
        let [id, kind, title, parent, epic, story, _] = cells.map(str::trim);
        item.id = Some(id.to_owned()).filter(|id| !id.is_empty());
        item.parent = Some(parent.to_owned()).filter(|parent| !parent.is_empty());
        let mapped = self.kinds.get(kind).filter(|kind| !kind.is_empty());
        let word = mapped.map_or(kind, |kind| kind.trim());
        let word = if word.is_empty() { "requirement" } else { word };
        kind_of(word).unwrap_or(word).clone_into(&mut item.kind);
        item.title = if title.is_empty() { title_of(&item.text) } else { title.to_owned() };
        let id = item.id.clone().unwrap_or_else(|| unique_id(&mut self.used, &item.title));
        item.source = format!("{}#{id}", self.path);
        let is_child = item.parent.is_some();
        let names = take_names(&mut item, [("epic", epic), ("story", story)]);
        if names.iter().any(|name| !name.is_empty()) {
            self.named.push((self.imported.items.len(), names));
        }
        self.imported.push(item)?;
        if let Some(columns) = self.jira_columns {
            self.jira.add(columns, row, self.imported, is_child);
        }
        Ok(())
    }

    /// Sets the parents that rows name, after the last row of the file. The error begins with a
    /// colon.
    pub(crate) fn finish(mut self) -> Result<(), String> {
        let named = std::mem::take(&mut self.named);
        if named.is_empty() {
            return Ok(());
        }
        let problem = |error: String| format!(": {error}");
        self.add_names("epic");
        for (index, [epic, _]) in &named {
            let parent = self.find("epic", epic, None).map_err(problem)?;
            self.imported.items[*index].parent = parent;
        }
        // A title of a story is found in its epic.
        self.add_names("user_story");
        for (index, [_, story]) in &named {
            let epic = self.imported.items[*index].parent.take();
            let parent = self.find("user_story", story, epic.as_deref()).map_err(problem)?;
            self.imported.items[*index].parent = parent.or(epic);
        }
        Ok(())
    }

    /// Adds the rows of a kind, without long IDs, which each child would copy.
    fn add_names(&mut self, kind: &'static str) {
        for item in &self.imported.items[self.first..] {
            if item.kind != kind || item.source.len() > MAX_NAME_BYTES {
                continue;
            }
            if let Some(id) = &item.id {
                self.ids.entry((kind, id.clone())).or_insert_with(|| item.source.clone());
            }
            let parent = item.parent.clone().unwrap_or_default();
            let epic = self.ids.get(&("epic", parent.clone())).cloned().unwrap_or(parent);
            for epic in [String::new(), epic] {
                let title = (kind, epic, item.title.clone());
                self.titles.entry(title).or_insert_with(|| item.source.clone());
            }
        }
    }

    /// The reference or source of the item that a cell names: another row, or one that is made.
    fn find(
        &mut self,
        kind: &'static str,
        name: &str,
        epic: Option<&str>,
    ) -> Result<Option<String>, String> {
        if name.is_empty() {
            return Ok(None);
        }
        let title = (kind, epic.unwrap_or_default().to_owned(), name.to_owned());
        if let Some(source) = self.ids.get(&(kind, name.to_owned())) {
            return Ok(Some(source.clone()));
        } else if Reference::parse(name).is_some() {
            return Ok(Some(name.to_owned()));
        } else if let Some(source) = self.titles.get(&title) {
            return Ok(Some(source.clone()));
        }
        let mut id = format!("{kind}:{name}");
        if let Some(epic) = epic {
            let epic = epic.split_once('#').map_or(epic, |(_, id)| id);
            id = format!("{epic}/{id}");
        }
        let source = format!("{}#{id}", self.path);
        self.imported.push(ImportedItem {
            source: source.clone(),
            kind: kind.to_owned(),
            title: name.to_owned(),
            parent: epic.map(str::to_owned),
            ..ImportedItem::default()
        })?;
        self.titles.insert(title, source.clone());
        Ok(Some(source))
    }
}

/// The epic and the story that are the parent of an item. Other names become values, except that
/// of the item itself.
fn take_names(item: &mut ImportedItem, names: [(&str, &str); 2]) -> [String; 2] {
    let has_story = matches!(&*item.kind, "requirement" | "acceptance_criteria");
    names.map(|(field, name)| {
        let is_kind = has_story || field == "epic" && item.kind == "user_story";
        if is_kind && item.parent.is_none() {
            return name.to_owned();
        }
        if !name.is_empty() && name != item.title && item.id.as_deref() != Some(name) {
            item.values.insert(field.to_owned(), json!(name));
        }
        String::new()
    })
}

/// Sets the value of the first free name. The first value of a field that is not empty stays.
fn add_value(item: &mut ImportedItem, [field, heading]: [&str; 2], text: &str) {
    let is_free = |name: &&str| {
        let value = item.values.get(*name).and_then(Value::as_str);
        value.is_none_or(|value| value.trim().is_empty())
    };
    let name = [field, heading].into_iter().find(is_free).map(str::to_owned);
    item.values.insert(name.unwrap_or_else(|| format!("{heading} 2")), json!(text));
}

fn is_blank(row: &[String]) -> bool {
    row.iter().all(|cell| cell.trim().is_empty())
}
