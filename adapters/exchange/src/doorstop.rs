//! Doorstop: a document is a folder with `.doorstop.yml`, each item a file in YAML or Markdown.

use std::collections::{BTreeMap, HashMap};

use reqlore_domain::ports::exchange::{
    ExchangeFormat, ImportMapping, ImportedItem, ImportedItems, SourceFile, file_title,
};
use serde_json::{Value, json};

use crate::keyed_files::{Fields, move_long_values, read_fields, text_of};
use crate::names::{add_paragraph, has_extension, split_paragraph};

pub(crate) struct Doorstop;

struct Document {
    epic: ImportedItem,
    prefix: String,
    items: Vec<DoorstopItem>,
}

struct DoorstopItem {
    uid: String,
    fields: Fields,
}

impl ExchangeFormat for Doorstop {
    fn name(&self) -> &'static str {
        "doorstop"
    }

    fn recognizes(&self, path: &str, beginning: &str) -> bool {
        document_of(path).is_some() && beginning.contains("settings:")
    }

    fn read(&self, files: Vec<SourceFile>, _: &mut ImportMapping) -> Result<ImportedItems, String> {
        let (mut documents, mut others) = (BTreeMap::new(), Vec::new());
        let mut imported = ImportedItems::default();
        for mut file in files {
            if let Some(folder) = document_of(&file.path).map(str::to_owned) {
                let fields = read_fields(&mut file, &mut imported.notes)?;
                documents.insert(folder.clone(), Document::new(&folder, &fields));
            } else {
                others.push(file);
            }
        }
        let mut count = 0;
        for mut file in others {
            // The nearest folder above the file that is a document.
            let mut folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
            while !folder.is_empty() && !documents.contains_key(folder) {
                folder = folder.rsplit_once('/').map_or("", |(folder, _)| folder);
            }
            let document = documents.get_mut(folder);
            let Some(document) = document.filter(|one| is_item(&one.prefix, &file.path)) else {
                count += 1;
                continue;
            };
            let uid = file_title(&file.path).to_owned();
            let fields = read_fields(&mut file, &mut imported.notes)?;
            document.items.push(DoorstopItem { uid, fields });
        }
        for document in documents.into_values() {
            document.add_to(&mut imported)?;
        }
        imported.notes.push("fingerprints of links are not imported".to_owned());
        if count > 0 {
            imported.notes.push(format!("files that are not items of a document: {count}"));
        }
        Ok(imported)
    }
}

/// The folder of a document whose configuration has this path.
fn document_of(path: &str) -> Option<&str> {
    let folder = path.strip_suffix(".doorstop.yml")?;
    if folder.is_empty() { Some(folder) } else { folder.strip_suffix('/') }
}

/// True for a file such as `REQ001.yml` or `REQ-login.md`.
fn is_item(prefix: &str, path: &str) -> bool {
    let Some((start, rest)) = file_title(path).split_at_checked(prefix.len()) else { return false };
    let number = rest.trim_start_matches(['-', '_', '.']);
    let is_word = number.chars().all(|c| c.is_alphanumeric() || c == '_');
    let is_named = is_word && !number.is_empty() && number.len() < rest.len();
    let is_numbered = number.starts_with(|c: char| c.is_ascii_digit());
    let is_read = has_extension(path, &["yml", "yaml", "md"]);
    start.eq_ignore_ascii_case(prefix) && (is_named || is_numbered) && is_read
}

fn is_true(text: &str) -> bool {
    matches!(&*text.trim().to_lowercase(), "true" | "yes" | "on" | "enabled" | "1")
}

impl Document {
    fn new(folder: &str, fields: &Fields) -> Self {
        let settings = fields.get("settings").unwrap_or(&Value::Null);
        let prefix = settings["prefix"].as_str().unwrap_or("REQ").trim();
        let mut epic = ImportedItem {
            source: format!("{}#", if folder.is_empty() { prefix } else { folder }),
            kind: "epic".to_owned(),
            title: prefix.to_owned(),
            ..ImportedItem::default()
        };
        let about = fields.get("attributes").map(|attributes| &attributes["defaults"]["doc"]);
        for (name, value) in about.and_then(Value::as_object).into_iter().flatten() {
            match value.as_str() {
                Some(title) if name == "title" && !title.is_empty() => {
                    title.clone_into(&mut epic.title);
                }
                _ => _ = epic.values.insert(name.clone(), json!(text_of(value))),
            }
        }
        let parent = settings["parent"].as_str().unwrap_or_default();
        epic.values.insert("parent_document".to_owned(), json!(parent));
        Self { epic, prefix: prefix.to_owned(), items: Vec::new() }
    }

    fn add_to(mut self, imported: &mut ImportedItems) -> Result<(), String> {
        let (root, first) = (self.epic.source.clone(), imported.items.len());
        imported.push(self.epic)?;
        self.items.sort_by_cached_key(|item| (item.level(), item.uid.clone()));
        let mut headings: HashMap<Vec<u64>, usize> = HashMap::new();
        for item in self.items {
            let (level, is_other) = item.level();
            let mut above = (1..=level.len()).rev();
            let heading = above.find_map(|length| headings.get(&level[..length])).copied();
            let above = &mut imported.items[heading.unwrap_or(first)];
            if is_other && !item.is_normative() {
                item.add_text(above, &mut imported.notes);
                continue;
            }
            let (mut kind, mut parent) = ("requirement", above.source.clone());
            if !is_other {
                (kind, parent) = ("user_story", root.clone());
                headings.insert(level, imported.items.len());
            }
            let (title, text) = item.title_and_text();
            imported.push(item.with_values(ImportedItem {
                source: format!("{root}{}", item.uid),
                kind: kind.to_owned(),
                parent: Some(parent),
                id: Some(item.uid.clone()),
                title,
                text,
                ..ImportedItem::default()
            }))?;
        }
        Ok(())
    }
}

impl DoorstopItem {
    /// Its level without the zeros at the end, and false for a heading.
    fn level(&self) -> (Vec<u64>, bool) {
        // The time grows with the square of its length.
        const MAX_LEVELS: usize = 32;
        let level = self.text("level");
        let parts = level.split('.').take(MAX_LEVELS).map(|part| part.trim().parse().unwrap_or(0));
        let mut parts: Vec<u64> = if level.is_empty() { vec![1] } else { parts.collect() };
        let is_zero = parts.last() == Some(&0);
        parts.truncate(parts.iter().rposition(|part| *part > 0).map_or(0, |last| last + 1));
        (parts, !is_zero || self.is_normative())
    }

    fn text(&self, name: &str) -> String {
        self.fields.get(name).map(text_of).unwrap_or_default()
    }

    fn is_normative(&self) -> bool {
        let text = self.text("normative");
        text.trim().is_empty() || is_true(&text)
    }

    /// The header, or else the beginning of the text, which is then only kept if it is longer.
    fn title_and_text(&self) -> (String, String) {
        let (header, text) = (self.text("header").trim().to_owned(), self.text("text"));
        match split_paragraph(&text) {
            _ if !header.is_empty() => (header, text),
            (title, _) if title.is_empty() => (self.uid.clone(), text),
            (title, rest) => (title, rest.to_owned()),
        }
    }

    /// Adds a text that is not normative to the item above it, and a note on what that lacks.
    fn add_text(&self, above: &mut ImportedItem, notes: &mut Vec<String>) {
        if !self.text("header").trim().is_empty() {
            add_paragraph(&mut above.text, &format!("## {}", self.text("header").trim()));
        }
        add_paragraph(&mut above.text, &self.text("text"));
        let mut lost = self.with_values(ImportedItem::default());
        add_paragraph(&mut above.text, &lost.text);
        lost.values.retain(|name, value| !matches!(&**name, "level" | "reviewed") && *value != "");
        let names: Vec<String> = lost.links.into_keys().chain(lost.values.into_keys()).collect();
        if !names.is_empty() {
            let (uid, source, names) = (&self.uid, &above.source, names.join(", "));
            notes.push(format!("{uid}: its text is in {source}, without {names}"));
        }
    }

    /// The item with links and other keys. An empty value removes that of an earlier import.
    fn with_values(&self, mut item: ImportedItem) -> ImportedItem {
        for (name, value) in &self.fields {
            let text = text_of(value);
            let is_default = match &**name {
                "header" | "text" | "normative" | "links" => continue,
                "active" => is_true(&text),
                "derived" => !is_true(&text),
                _ => false,
            };
            item.values.insert(name.clone(), json!(if is_default { "" } else { &text }));
        }
        move_long_values(&mut item);
        // Each is an ID, `ID:FINGERPRINT` or a map of both.
        let uid = |link: &Value| {
            let key = link.as_object().and_then(|pairs| pairs.keys().next());
            let text = key.cloned().unwrap_or_else(|| text_of(link));
            text.rsplit_once(':').map_or(&*text, |(uid, _)| uid).trim().to_owned()
        };
        let links = match self.fields.get("links") {
            Some(Value::Array(links)) => links.as_slice(),
            link => link.map(std::slice::from_ref).unwrap_or_default(),
        };
        let links: Vec<String> = links.iter().map(uid).filter(|uid| !uid.is_empty()).collect();
        if !links.is_empty() {
            item.links.insert("derives_from".to_owned(), links);
        }
        item
    }
}
