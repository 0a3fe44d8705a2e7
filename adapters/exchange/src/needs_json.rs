//! `needs.json` of sphinx-needs: a document is an epic, its sections stories, its needs
//! requirements.

mod file;
mod items;

use reqlore_domain::ports::exchange::{
    ExchangeFormat, ExportedFiles, ImportMapping, ImportedItems, SourceFile,
};
use reqlore_domain::records::answers::lists::ListedItem;
use serde_json::{Map, Value, json};

use self::items::{COMPUTED, NeedsReader};
use crate::json::{is_json, read_json};
use crate::needs_json::file::{CREATOR, KEY_PREFIX, NeedsFile, PLAIN_LINKS, TYPES};

pub(crate) struct NeedsJson;

impl ExchangeFormat for NeedsJson {
    fn name(&self) -> &'static str {
        "needs-json"
    }

    fn recognizes(&self, path: &str, beginning: &str) -> bool {
        let has = |key: &str| beginning.contains(key);
        is_json(path) && has("\"versions\"") && (has("\"current_version\"") || has("\"needs\""))
    }

    fn read(&self, files: Vec<SourceFile>, _: &mut ImportMapping) -> Result<ImportedItems, String> {
        let mut imported = ImportedItems::default();
        for mut file in files.into_iter().filter(|file| is_json(&file.path)) {
            let mut parsed: NeedsFile = read_json(&mut file, "it must be a needs.json")?;
            let path = &file.path;
            let problem = |problem: &str| format!("{path}: {problem}");
            let current = match parsed.versions.remove(&parsed.current_version) {
                None if parsed.versions.len() == 1 => parsed.versions.pop_first().map(|one| one.1),
                current => current,
            };
            let current = current.ok_or_else(|| {
                problem(&format!("it has no version {:?}", parsed.current_version))
            })?;
            let reader = NeedsReader::new(path, &current);
            if !reader.is_own {
                imported.notes.push(problem("computed and rendered fields are not imported"));
            }
            if !parsed.versions.is_empty() {
                let names: Vec<&str> = parsed.versions.keys().map(String::as_str).collect();
                let names = names.join(", ");
                imported.notes.push(problem(&format!("other versions were ignored: {names}")));
            }
            reader.read(current.needs, &mut imported)?;
        }
        Ok(imported)
    }

    fn write(&self, records: Vec<ListedItem>) -> Result<ExportedFiles, String> {
        let (mut links, mut needs) = (Map::new(), Map::new());
        for record in records {
            for relation in record.links.keys().filter(|relation| *relation != PLAIN_LINKS) {
                links.insert(relation.clone(), json!({ "type": "array", "field_type": "links" }));
            }
            needs.insert(record.reference_id.clone(), need_of(record));
        }
        let version = json!({
            "creator": { "program": CREATOR, "version": env!("CARGO_PKG_VERSION") },
            "needs_amount": needs.len(),
            "needs_schema": { "type": "object", "properties": links },
            "needs": needs,
        });
        let file = json!({ "current_version": "1", "project": "", "versions": { "1": version } });
        let text = serde_json::to_string_pretty(&file).map_err(|error| error.to_string())?;
        Ok(vec![("needs.json".to_owned(), (text + "\n").into_bytes())])
    }
}

/// A record as a need.
fn need_of(record: ListedItem) -> Value {
    let need_type = TYPES.iter().find(|(_, kind)| *kind == record.kind);
    let mut need = Map::new();
    need.insert("type".to_owned(), json!(need_type.map_or(&*record.kind, |(name, _)| name)));
    for (name, value) in record.other_values() {
        let is_used = name.starts_with(KEY_PREFIX)
            || matches!(&**name, "content" | "description" | "requirement_type")
            || COMPUTED.split_whitespace().any(|one| one == name);
        let name = if is_used { format!("{KEY_PREFIX}{name}") } else { name.clone() };
        need.insert(name, value.clone());
    }
    for (name, value) in record.built_in_values() {
        let name = if name == "type" { "requirement_type" } else { name };
        need.insert(name.to_owned(), value);
    }
    for (relation, targets) in record.links {
        let name = if relation == PLAIN_LINKS { "links".to_owned() } else { relation };
        need.insert(name, json!(targets));
    }
    for (name, value) in [
        ("id", json!(record.reference_id)),
        ("title", json!(record.title)),
        ("content", json!(record.description.unwrap_or_default())),
        ("doctype", json!(".md")),
        ("tags", json!(record.tags)),
        ("parent_needs", record.parent.map_or(Value::Null, |parent| json!([parent]))),
    ] {
        if !value.is_null() {
            need.insert(name.to_owned(), value);
        }
    }
    need.into()
}
