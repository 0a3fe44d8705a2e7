//! CSV with any separator: one item a row, one field a column.

use std::collections::{BTreeMap, HashMap};
use std::io::BufRead;

use ::csv::{ReaderBuilder, StringRecord};
use reqlore_domain::link_values::is_known_relation;
use reqlore_domain::ports::exchange::{
    ExchangeFormat, ExportedFiles, ImportMapping, ImportedItem, ImportedItems, SourceFile, is_utf16,
};
use reqlore_domain::records::answers::csv::{split_list, unmark, whole_items_csv};
use reqlore_domain::records::answers::lists::ListedItem;
use serde_json::json;

use crate::columns::{find_columns, kind_of};
use crate::names::{title_of, unique_id};

pub(crate) struct Csv;

/// The rows in which the meaning of a column is guessed.
const SAMPLE_ROWS: usize = 50;

impl ExchangeFormat for Csv {
    fn name(&self) -> &'static str {
        "csv"
    }

    fn recognizes(&self, path: &str, _: &str) -> bool {
        let path = path.to_ascii_lowercase();
        [".csv", ".tsv"].iter().any(|end| path.ends_with(end))
    }

    fn read(
        &self,
        files: Vec<SourceFile>,
        mapping: &mut ImportMapping,
    ) -> Result<ImportedItems, String> {
        let mut imported = ImportedItems::default();
        for file in files.into_iter().filter(|file| self.recognizes(&file.path, "")) {
            let path = file.path.clone();
            let read = read_file(file, mapping, &mut imported);
            read.map_err(|problem| format!("{path}{problem}"))?;
        }
        Ok(imported)
    }

    fn write(&self, records: Vec<ListedItem>) -> Option<ExportedFiles> {
        Some(vec![("items.csv".to_owned(), whole_items_csv(&records))])
    }
}

/// The separator that the first line has most often outside of quotes.
fn find_separator(line: &[u8]) -> u8 {
    let mut counts = [(b',', 0), (b';', 0), (b'\t', 0), (b'|', 0)];
    let mut is_quoted = false;
    for byte in line.iter().take_while(|byte| **byte != b'\n') {
        is_quoted ^= *byte == b'"';
        if let Some((_, count)) = counts.iter_mut().find(|(one, _)| one == byte && !is_quoted) {
            *count += 1;
        }
    }
    counts.iter().rev().max_by_key(|(_, count)| *count).map_or(b',', |(byte, _)| *byte)
}

/// The error begins with the row.
fn read_file(
    mut file: SourceFile,
    mapping: &mut ImportMapping,
    imported: &mut ImportedItems,
) -> Result<(), String> {
    let beginning = file.content.fill_buf().map_err(|error| format!(": {error}"))?;
    if is_utf16(beginning) {
        return Err(": it is UTF-16; save it as CSV UTF-8".to_owned());
    }
    let separator = find_separator(beginning);
    let mut builder = ReaderBuilder::new();
    let mut reader = builder.delimiter(separator).flexible(true).from_reader(file.content);
    let headings = reader.headers().map_err(|error| describe(&error))?.clone();
    let mut rows = reader.into_records();
    let mut sample = Vec::new();
    while sample.len() < SAMPLE_ROWS
        && let Some(row) = rows.next()
    {
        sample.push(row.map_err(|error| describe(&error))?);
    }
    let columns = find_columns(&headings, &sample, mapping)?;
    let kinds = mapping.values.get("kind").cloned().unwrap_or_default();
    let mut table = TableReader {
        path: file.path,
        columns,
        kinds,
        used: HashMap::new(),
        imported,
        made: HashMap::new(),
    };
    for row in sample.into_iter().map(Ok).chain(rows) {
        let row = row.map_err(|error| describe(&error))?;
        let number = row.position().map_or(0, row_number);
        table.read_row(&row).map_err(|problem| format!(": row {number}: {problem}"))?;
    }
    Ok(())
}

/// The number of a row as spreadsheets show it: the headings are row 1.
fn row_number(position: &::csv::Position) -> u64 {
    position.record() + 1
}

fn describe(error: &::csv::Error) -> String {
    let row = error.position().map_or(1, row_number);
    match error.kind() {
        ::csv::ErrorKind::Utf8 { .. } => {
            format!(": row {row}: it is not UTF-8; save it as CSV UTF-8")
        }
        _ => format!(": row {row}: {error}"),
    }
}

struct TableReader<'a> {
    path: String,
    columns: Vec<(String, String)>,
    /// Kinds by their word in the file.
    kinds: BTreeMap<String, String>,
    used: HashMap<String, usize>,
    imported: &'a mut ImportedItems,
    /// Epics and stories that rows name by a title.
    made: HashMap<(String, String), String>,
}

impl TableReader<'_> {
    fn read_row(&mut self, row: &StringRecord) -> Result<(), String> {
        if row.iter().all(|cell| cell.trim().is_empty()) {
            return Ok(());
        }
        if row.len() > self.columns.len() {
            let (cells, columns) = (row.len(), self.columns.len());
            return Err(format!("it has {cells} cells, but the table has {columns} columns"));
        }
        let mut item = ImportedItem { kind: "requirement".to_owned(), ..ImportedItem::default() };
        let [mut epic, mut story] = [String::new(), String::new()];
        let mut tags: Option<Vec<String>> = None;
        for ((heading, field), cell) in self.columns.iter().zip(row) {
            let text = unmark(cell);
            match &**field {
                "" => {}
                "id" => item.id = Some(text.trim().to_owned()).filter(|id| !id.is_empty()),
                "kind" if text.trim().is_empty() => {}
                "kind" => {
                    let word = self.kinds.get(text.trim()).map_or(text, |kind| kind).trim();
                    let kind = kind_of(word).ok_or_else(|| {
                        format!("{heading}: {word:?} is not a kind of items; map it to one")
                    })?;
                    kind.clone_into(&mut item.kind);
                }
                "title" => text.trim().clone_into(&mut item.title),
                "text" => text.clone_into(&mut item.text),
                "parent" => item.parent = Some(text.trim().to_owned()).filter(|id| !id.is_empty()),
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
        self.find_parent(&mut item, &epic, &story)?;
        self.imported.push(item)
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
