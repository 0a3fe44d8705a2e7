//! JSON of our own records: those of `list_items` with texts, links and extra keys.

use std::fmt::Display;
use std::io::BufRead as _;

use reqlore_domain::ports::exchange::{
    ExchangeFormat, ExportedFiles, ImportMapping, ImportedItem, ImportedItems, SourceFile, is_utf16,
};
use reqlore_domain::records::answers::csv::BYTE_ORDER_MARK;
use reqlore_domain::records::answers::lists::{LISTED_KEYS, ListedItem};
use reqlore_domain::records::fields::fields_of;
use reqlore_domain::records::kinds::find_kind;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

use crate::names::has_extension;

pub(crate) struct Json;

const FORMAT: &str = "reqlore-items";
/// The keys of a record that are not in [`LISTED_KEYS`].
const OTHER_KEYS: [&str; 3] = ["reference_id", "review_overdue", "claim"];
/// Fields that a record lacks if they are empty.
const OPTIONAL_FIELDS: [&str; 3] = ["assignee", "rank", "tags"];

#[derive(Deserialize, Serialize)]
struct ItemFile<T> {
    #[serde(default)]
    format: String,
    items: Vec<T>,
}

/// An item without the path of its file.
#[derive(Deserialize)]
#[serde(transparent)]
struct FileItem(#[serde(deserialize_with = "read_item")] ImportedItem);

/// Reads a record, which may lack what every answer has.
fn read_item<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ImportedItem, D::Error> {
    let mut record: Map<String, Value> = Map::deserialize(deserializer)?;
    for (key, default) in [("tags", json!([])), ("version", json!(""))] {
        record.entry(key).or_insert(default);
    }
    let mut others = Map::new();
    record.retain(|key, value| {
        let is_known = LISTED_KEYS.contains(&&**key) || OTHER_KEYS.contains(&&**key);
        if !is_known {
            others.insert(key.clone(), value.take());
        }
        is_known
    });
    let mut item =
        serde_json::from_value(record.into()).map(record_item).map_err(D::Error::custom)?;
    item.values.extend(others);
    Ok(item)
}

pub(crate) fn is_json(path: &str) -> bool {
    has_extension(path, &["json"])
}

/// The text after the byte order mark and spaces.
pub(crate) fn json_start(beginning: &str) -> &str {
    beginning.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}')
}

/// Reads a file. The error ends with the advice.
pub(crate) fn read_json<T: DeserializeOwned>(
    file: &mut SourceFile,
    advice: &str,
) -> Result<T, String> {
    let problem = |error: &dyn Display| format!("{}: {error}; {advice}", file.path);
    let beginning = file.content.fill_buf().map_err(|error| problem(&error))?;
    if is_utf16(beginning) {
        return Err(format!("{}: it is UTF-16; save it as UTF-8", file.path));
    }
    if beginning.starts_with(BYTE_ORDER_MARK.as_bytes()) {
        file.content.consume(BYTE_ORDER_MARK.len());
    }
    // The whole text would double the memory of a large file.
    serde_json::from_reader(&mut file.content).map_err(|error| problem(&error))
}

impl ExchangeFormat for Json {
    fn name(&self) -> &'static str {
        "json"
    }

    fn recognizes(&self, path: &str, beginning: &str) -> bool {
        // The import of a file that is not UTF-8 says so.
        is_json(path) && json_start(beginning).starts_with(['{', char::REPLACEMENT_CHARACTER])
    }

    fn read(&self, files: Vec<SourceFile>, _: &mut ImportMapping) -> Result<ImportedItems, String> {
        let mut imported = ImportedItems::default();
        for mut file in files.into_iter().filter(|file| is_json(&file.path)) {
            let advice = "write it with `reqlore export json`";
            let parsed: ItemFile<FileItem> = read_json(&mut file, advice)?;
            let path = &file.path;
            if !matches!(&*parsed.format, "" | FORMAT) {
                return Err(format!("{path}: format {:?} is not {FORMAT}", parsed.format));
            }
            for FileItem(mut item) in parsed.items {
                if parsed.format == FORMAT {
                    add_missing(&mut item);
                }
                item.source = format!("{path}#{}", item.source);
                imported.push(item).map_err(|problem| format!("{path}: {problem}"))?;
            }
        }
        Ok(imported)
    }

    fn write(&self, mut items: Vec<ListedItem>) -> Result<ExportedFiles, String> {
        for item in &mut items {
            // Of this project, not of the record.
            item.version.clear();
            (item.updated_at, item.progress, item.claim) = (None, None, None);
            item.review_overdue = false;
        }
        let file = ItemFile { format: FORMAT.to_owned(), items };
        let text = serde_json::to_string_pretty(&file).map_err(|error| error.to_string())?;
        Ok(vec![("items.json".to_owned(), (text + "\n").into_bytes())])
    }
}

/// Adds empty values for fields that an export lacks. They remove those of an earlier import.
fn add_missing(item: &mut ImportedItem) {
    for field in find_kind(&item.kind).into_iter().flat_map(fields_of) {
        if OPTIONAL_FIELDS.contains(&field.name) {
            item.values.entry(field.name.to_owned()).or_insert_with(|| json!(""));
        }
    }
}

fn record_item(record: ListedItem) -> ImportedItem {
    let built_in = record.built_in_values().map(|(name, value)| (name.to_owned(), value));
    // The record gets an identity of its own.
    let others = record.other_values().map(|(name, value)| (name.clone(), value.clone()));
    let values = built_in.chain(others).collect();
    ImportedItem {
        lacks_text: record.description.is_none(),
        source: record.reference_id.clone(),
        kind: record.kind,
        parent: record.parent,
        id: Some(record.reference_id),
        title: record.title,
        text: record.description.unwrap_or_default(),
        links: record.links,
        values,
    }
}
