//! StrictDoc: an SDoc file is a document with sections, requirements and texts.

mod export;
mod sdoc;

use std::collections::HashMap;

use reqlore_domain::backlog::ItemKind;
use reqlore_domain::backlog::RelationshipType;
use reqlore_domain::backlog::fields::find_by_name;
use reqlore_domain::ports::exchange::{
    ExchangeFormat, ExportedFiles, ImportMapping, ImportedItem, ImportedItems, SourceFile,
};
use reqlore_domain::records::answers::csv::split_list;
use reqlore_domain::records::answers::lists::ListedItem;
use serde_json::json;

use self::export::{EXTRA, MARK, write_documents};
use self::sdoc::{Block, BlockForm, read_blocks, without_marks};
use crate::keyed_files::move_long_values;
use crate::names::{add_paragraph, check_length, has_extension, split_paragraph, unique_id};

pub(crate) struct StrictDoc;

impl ExchangeFormat for StrictDoc {
    fn name(&self) -> &'static str {
        "strictdoc"
    }

    fn recognizes(&self, path: &str, _: &str) -> bool {
        has_extension(path, &["sdoc"])
    }

    fn read(&self, files: Vec<SourceFile>, _: &mut ImportMapping) -> Result<ImportedItems, String> {
        let mut imported = ImportedItems::default();
        for mut file in files.into_iter().filter(|file| self.recognizes(&file.path, "")) {
            let text = file.read_text()?;
            let mut reader = SdocReader::new(&file.path);
            read_blocks(&file.path, &text, |block| {
                let line = block.line;
                reader.add(block).map_err(|problem| format!("{}:{line}: {problem}", file.path))
            })?;
            if let Some(open) = reader.open.last() {
                let (path, Open { line, tag, .. }) = (&file.path, open);
                return Err(format!("{path}:{line}: [[/{tag}]] is missing; add it"));
            }
            imported.notes.extend(reader.found.notes);
            reader.found.items.into_iter().try_for_each(|item| imported.push(item))?;
        }
        Ok(imported)
    }

    fn write(&self, records: Vec<ListedItem>) -> Result<ExportedFiles, String> {
        Ok(write_documents(&records))
    }

    fn can_write_kind(&self, kind: &str) -> bool {
        ItemKind::from_name(kind).is_some()
    }

    fn needs_parents(&self) -> bool {
        true
    }
}

/// A block that is not closed yet.
struct Open {
    tag: String,
    line: usize,
    /// The section that holds its items.
    story: usize,
    /// The composite requirement around its items.
    composite: Option<String>,
}

struct SdocReader<'a> {
    path: &'a str,
    used: HashMap<String, usize>,
    /// The epic is the first one.
    found: ImportedItems,
    open: Vec<Open>,
    /// True for a file that an export wrote.
    is_marked: bool,
}

impl<'a> SdocReader<'a> {
    fn new(path: &'a str) -> Self {
        let (used, found) = (HashMap::new(), ImportedItems::default());
        Self { path, used, found, open: Vec::new(), is_marked: false }
    }

    fn add(&mut self, block: Block) -> Result<(), String> {
        if self.found.items.is_empty() != (block.tag == "DOCUMENT") {
            return Err("[DOCUMENT] must be the first block, once".to_owned());
        }
        let story = self.open.last().map_or(0, |open| open.story);
        match (&*block.tag, block.form) {
            ("GRAMMAR", _) => {}
            ("DOCUMENT_FROM_FILE", _) => {
                let file = block.fields.first().map_or("", |(_, file)| file);
                self.found.notes.push(format!("{}: {file} is a document of its own", self.path));
            }
            (tag, BlockForm::Close) => {
                if self.open.pop().is_none_or(|open| open.tag != tag) {
                    return Err(format!("unexpected [[/{tag}]]; remove it"));
                }
            }
            ("TEXT" | "FREETEXT", _) => self.add_text(story, block),
            _ => self.add_item(story, block)?,
        }
        Ok(())
    }

    fn add_item(&mut self, story: usize, block: Block) -> Result<(), String> {
        let kind = match &*block.tag {
            "DOCUMENT" => "epic",
            "SECTION" => "user_story",
            "ACCEPTANCE_CRITERIA" => "acceptance_criteria",
            _ => "requirement",
        };
        let mut item = ImportedItem { kind: kind.to_owned(), ..ImportedItem::default() };
        let composite = self.open.last().and_then(|open| open.composite.clone());
        item.values.extend(composite.map(|name| ("composite".to_owned(), json!(name))));
        if kind != "epic" {
            let parent = if kind == "user_story" { 0 } else { story };
            item.parent = Some(self.found.items[parent].source.clone());
        }
        if kind == "user_story" && story > 0 {
            item.values.insert("section".to_owned(), json!(self.found.items[story].title));
        }
        if kind == "requirement" && block.tag != "REQUIREMENT" {
            item.values.insert("node_type".to_owned(), json!(block.tag));
        }
        let mut names = HashMap::new();
        let metadata = block.groups.iter().filter(|(name, _)| name == "METADATA");
        self.is_marked |= metadata.flat_map(|(_, entries)| entries).any(|(name, _)| name == MARK);
        for (name, value) in &block.fields {
            self.add_field(&mut item, name, self.unmarked(value), &mut names);
        }
        for (group, entries) in &block.groups {
            match &**group {
                "METADATA" | "SPECIAL_FIELDS" => {
                    for (name, value) in entries.iter().filter(|(name, _)| name != MARK) {
                        let value = self.unmarked(value);
                        let quoted = Some(&value).filter(|_| self.is_marked);
                        let text = quoted.and_then(|text| serde_json::from_str(text).ok());
                        self.add_field(&mut item, name, text.unwrap_or(value), &mut names);
                    }
                }
                "RELATIONS" | "REFS" => add_relation(&mut item, entries),
                "OPTIONS" | "VIEWS" => {}
                _ if entries.is_empty() => {}
                name => self.found.notes.push(format!("{}: {name} is not imported", self.path)),
            }
        }
        let (title, text) = split_paragraph(&item.text);
        if kind != "acceptance_criteria" && item.title.is_empty() {
            let found = if title.is_empty() { &block.tag } else { &title };
            (item.title, item.text) = (found.clone(), text.to_owned());
        }
        move_long_values(&mut item);
        // Other items copy them.
        check_length("the title", &item.title)?;
        check_length("the UID", item.id.as_deref().unwrap_or_default())?;
        let name = match &item.id {
            _ if kind == "epic" => String::new(),
            Some(uid) => uid.clone(),
            None => {
                let title = if item.title.is_empty() { &title } else { &item.title };
                let tag = block.tag.to_lowercase();
                unique_id(&mut self.used, &format!("{tag} {title}"))
            }
        };
        item.source = format!("{}#{name}", self.path);
        if block.form == BlockForm::Open {
            let is_section = kind == "user_story";
            let story = if is_section { self.found.items.len() } else { story };
            let outer = self.open.last().and_then(|open| open.composite.clone());
            let own = || Some(item.id.clone().unwrap_or_else(|| item.title.clone()));
            let composite = if is_section { outer } else { own() };
            self.open.push(Open { tag: block.tag, line: block.line, story, composite });
        }
        self.found.push(item)
    }

    fn unmarked(&self, value: &str) -> String {
        if self.is_marked { without_marks(value) } else { value.to_owned() }
    }

    fn add_field(
        &self,
        item: &mut ImportedItem,
        name: &str,
        value: String,
        names: &mut HashMap<String, usize>,
    ) {
        let name = name.to_lowercase();
        let extra = name.strip_prefix(EXTRA).filter(|_| self.is_marked);
        match extra.unwrap_or(&name) {
            "uid" if extra.is_none() => item.id = Some(value),
            "title" if extra.is_none() => item.title = value,
            "statement" | "description" | "content" if extra.is_none() && item.text.is_empty() => {
                item.text = value;
            }
            name if RelationshipType::NAMES.contains(&name) => {
                item.links.insert(name.to_owned(), split_list(&value));
            }
            // A comment may be repeated.
            name => {
                let name = unique_id(names, name).replace('~', "_");
                item.values.insert(name, json!(value));
            }
        }
    }

    /// Adds a text to the section that contains it.
    fn add_text(&mut self, story: usize, block: Block) {
        let mut lost: Vec<String> = block.groups.into_iter().map(|(name, _)| name).collect();
        for (name, value) in block.fields {
            let value = self.unmarked(&value);
            let text = &mut self.found.items[story].text;
            match &*name {
                "TITLE" => add_paragraph(text, &format!("## {value}")),
                "STATEMENT" => add_paragraph(text, &value),
                "MID" => {}
                _ => lost.push(name),
            }
        }
        if !lost.is_empty() {
            let (path, line, names) = (self.path, block.line, lost.join(", "));
            self.found.notes.push(format!("{path}:{line}: the text is imported without {names}"));
        }
    }
}

/// Adds a link, or else a value that names the target.
fn add_relation(item: &mut ImportedItem, entries: &[(String, String)]) {
    let find = |key: &str| entries.iter().find(|(name, _)| name == key).map(|(_, text)| text);
    let [kind, role] = ["TYPE", "ROLE"].map(|key| find(key).map_or("", |text| text));
    let target = find("VALUE").or(find("PATH")).cloned().unwrap_or_default();
    let is_parent = matches!(role, "" | "Refines") && kind == "Parent";
    let named = || find_by_name(&RelationshipType::ALL, |one| one.name(), role);
    let relation = if is_parent { Some(RelationshipType::DerivesFrom) } else { named() };
    if let Some(relation) = relation.filter(|_| kind == "Parent") {
        item.links.entry(relation.name().to_owned()).or_default().push(target);
        return;
    }
    let others = entries.iter().filter(|(name, _)| !matches!(&**name, "TYPE" | "VALUE" | "PATH"));
    let others: Vec<String> = others.map(|(name, text)| format!(" {name}: {text}")).collect();
    let name = format!("{kind}_relation").to_lowercase();
    let values = item.values.entry(name).or_insert_with(|| json!([]));
    if let Some(values) = values.as_array_mut() {
        values.push(json!(target + &others.concat()));
    }
}
