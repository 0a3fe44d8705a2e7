//! JSON of our own records: those of `list_items` with texts, links and extra keys.

use reqlore_domain::ports::exchange::{
    ExchangeFormat, ExportedFiles, ImportMapping, ImportedItem, ImportedItems, SourceFile,
};
use reqlore_domain::records::answers::lists::ListedItem;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

use crate::names::has_extension;

pub(crate) struct Json;

const FORMAT: &str = "reqlore-items";

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
    serde_json::from_value(record.into()).map(record_item).map_err(D::Error::custom)
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
    let text = file.read_text()?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}; {advice}", file.path))
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

fn record_item(record: ListedItem) -> ImportedItem {
    let built_in = record.built_in_values().map(|(name, value)| (name.to_owned(), value));
    // The record gets an identity of its own.
    let others = record.other_values().map(|(name, value)| (name.clone(), value.clone()));
    let values = built_in.chain(others).collect();
    ImportedItem {
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
