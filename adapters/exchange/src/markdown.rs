//! A Markdown document: headings are epics, stories and requirements, list items and texts with an
//! ID are requirements.

mod export;

use std::collections::{HashMap, HashSet};

use reqlore_domain::ports::exchange::{
    ExchangeFormat, ExportedFiles, ImportMapping, ImportedItem, ImportedItems, SourceFile,
    file_title,
};
use reqlore_domain::records::answers::lists::ListedItem;

use self::export::{EXPORT_MARK, read_export, write_export};
use crate::names::{has_extension, plain_title, unique_id};
use crate::outline::{Section, check_heading, sections, whole_text};
use crate::statements::{Statement, StatementForm, split_id, split_number, take_statements};

pub(crate) struct MarkdownDocument;

pub(crate) fn is_markdown(path: &str) -> bool {
    has_extension(path, &["md", "markdown"])
}

/// The note on Markdown files of a source that no item contains; `None` if there are none.
pub(crate) fn other_files_note(count: usize, examples: &str) -> Option<String> {
    let note = || format!("Markdown files that are not imported, such as {examples}: {count}");
    (count > 0).then(note)
}

impl ExchangeFormat for MarkdownDocument {
    fn name(&self) -> &'static str {
        "markdown"
    }

    fn recognizes(&self, path: &str, _: &str) -> bool {
        is_markdown(path)
    }

    fn read(&self, files: Vec<SourceFile>, _: &mut ImportMapping) -> Result<ImportedItems, String> {
        let mut imported = ImportedItems::default();
        for mut file in files.into_iter().filter(|file| self.recognizes(&file.path, "")) {
            let text = file.read_text()?;
            let read = if text.starts_with(EXPORT_MARK) {
                read_export(&file.path, &text, &mut imported)
            } else {
                let mut document = DocumentReader {
                    path: &file.path,
                    text: &text,
                    has_ids: true,
                    used: HashMap::new(),
                    ids: HashSet::new(),
                    imported: &mut imported,
                };
                document.read()
            };
            read.map_err(|problem| format!("{}: {problem}", file.path))?;
        }
        Ok(imported)
    }

    fn write(&self, records: Vec<ListedItem>) -> Result<ExportedFiles, String> {
        Ok(vec![("requirements.md".to_owned(), write_export(&records).into_bytes())])
    }
}

struct DocumentReader<'a> {
    path: &'a str,
    text: &'a str,
    has_ids: bool,
    used: HashMap<String, usize>,
    /// IDs that have an item or a heading.
    ids: HashSet<String>,
    imported: &'a mut ImportedItems,
}

impl DocumentReader<'_> {
    fn read(&mut self) -> Result<(), String> {
        let (before, found) = sections(self.text);
        let title = found.first().filter(|first| first.heading.level == 1);
        let is_only = found.iter().filter(|one| one.heading.level == 1).count() == 1;
        let title = title.filter(|_| is_only && before.trim().is_empty());
        let name = title.map(|title| title.heading.title.clone()).filter(|name| !name.is_empty());
        let epic = ImportedItem {
            source: format!("{}#", self.path),
            kind: "epic".to_owned(),
            title: name.unwrap_or_else(|| file_title(self.path).to_owned()),
            ..ImportedItem::default()
        };
        let source = epic.source.clone();
        let first_text = title.map_or(before, |title| title.text);
        let mut index = usize::from(title.is_some());
        let level = found[index..].iter().map(|section| section.heading.level).min();
        let is_deeper = |section: &&Section| Some(section.heading.level) > level;
        for section in found.iter().filter(is_deeper) {
            self.ids.extend(self.heading_id(section).map(|(id, _)| id.to_owned()));
        }
        let has_id = |one: &Statement| one.form != StatementForm::TableRow && one.id.is_some();
        let (_, with_ids) = take_statements(self.text, has_id);
        let count = with_ids.len();
        self.ids.extend(with_ids.into_iter().filter_map(|one| one.id));
        // The only ID of a document is a name, such as of a product, if it is repeated.
        self.has_ids &= self.ids.len() != 1 || count < 2;
        self.push_with_statements(epic, first_text)?;
        let mut story = None;
        while let Some(section) = found.get(index) {
            let (whole, next) = whole_text(self.text, &found, index);
            let id = self.heading_id(section).filter(|_| is_deeper(&section));
            let is_divided = self.has_statement(whole, id.is_some())
                || found[index + 1..next].iter().any(|below| self.heading_id(below).is_some());
            match story.clone().filter(|_| is_deeper(&section) && (id.is_some() || !is_divided)) {
                None => {
                    let item = self.item("user_story", &source, section, None)?;
                    story = Some(item.source.clone());
                    self.push_with_statements(item, section.text)?;
                    index += 1;
                }
                Some(story) => {
                    let mut item = self.item("requirement", &story, section, id)?;
                    if is_divided {
                        self.push_below(item, section.text, &story)?;
                        index += 1;
                        continue;
                    }
                    whole.trim_matches('\n').clone_into(&mut item.text);
                    self.imported.push(item)?;
                    index = next;
                }
            }
        }
        Ok(())
    }

    /// Splits `ID: Title`, also after the number of the section.
    fn heading_id<'t>(&self, section: &'t Section<'_>) -> Option<(&'t str, String)> {
        let title = &*section.heading.title;
        let title = split_number(title).map_or(title, |(_, title)| title);
        split_id(title).filter(|_| self.has_ids)
    }

    /// The item of a heading of the text, with its ID.
    fn item(
        &mut self,
        kind: &str,
        parent: &str,
        section: &Section<'_>,
        id: Option<(&str, String)>,
    ) -> Result<ImportedItem, String> {
        check_heading(self.text, &section.heading)?;
        let title = &section.heading.title;
        let (id, title) = id.map_or((None, title.clone()), |(id, title)| (Some(id), title));
        let (id, title) =
            (id.map(str::to_owned), if title.is_empty() { "Untitled" } else { &title });
        let name = unique_id(&mut self.used, id.as_deref().unwrap_or(title));
        Ok(ImportedItem {
            source: format!("{}#{name}", self.path),
            kind: kind.to_owned(),
            parent: Some(parent.to_owned()),
            title: plain_title(title),
            id,
            ..ImportedItem::default()
        })
    }

    /// True if a statement has an ID of its own. A row with an ID of another item refers to it, and
    /// criteria are parts of a requirement.
    fn is_own(&self, one: &Statement, is_requirement: bool) -> bool {
        let is_criterion = |id: &str| {
            let prefix = id.split(['-', '_', '.']).next().unwrap_or_default();
            is_requirement && prefix.trim_end_matches(|c: char| c.is_ascii_digit()) == "AC"
        };
        let is_reference = |id: &str| one.form == StatementForm::TableRow && self.ids.contains(id);
        let id = one.id.as_deref().filter(|id| !is_criterion(id) && !is_reference(id));
        id.is_some() && self.has_ids
    }

    fn has_statement(&self, text: &str, is_requirement: bool) -> bool {
        !take_statements(text, |one| self.is_own(one, is_requirement)).1.is_empty()
    }

    /// Adds an item with the text of its section, and the statements of the text as requirements.
    fn push_with_statements(&mut self, item: ImportedItem, text: &str) -> Result<(), String> {
        let parent = item.source.clone();
        self.push_below(item, text, &parent)
    }

    fn push_below(
        &mut self,
        mut item: ImportedItem,
        text: &str,
        parent: &str,
    ) -> Result<(), String> {
        let is_requirement = item.kind == "requirement";
        let (rest, statements) = take_statements(text, |one| {
            let is_item = one.form == StatementForm::ListItem && !is_requirement;
            (is_item && !is_contents(&one.text)) || self.is_own(one, is_requirement)
        });
        item.text = rest;
        self.imported.push(item)?;
        for statement in statements {
            let (title, text) = statement.split_title();
            let name = statement.id.as_ref().unwrap_or(&title);
            self.imported.push(ImportedItem {
                source: format!("{}#{}", self.path, unique_id(&mut self.used, name)),
                kind: "requirement".to_owned(),
                parent: Some(parent.to_owned()),
                text: text.to_owned(),
                title,
                id: statement.id.clone(),
                ..ImportedItem::default()
            })?;
            self.ids.extend(statement.id);
        }
        Ok(())
    }
}

/// True for lines that only link to headings of the document.
fn is_contents(text: &str) -> bool {
    text.lines().all(|line| {
        let link = line.trim_start_matches(|c: char| !c.is_alphabetic() && c != '[');
        let link = link.trim_end().trim_end_matches('*').strip_suffix(')');
        link.and_then(|link| link.strip_prefix('[')?.split_once("](#"))
            .is_some_and(|(_, anchor)| !anchor.contains([')', ' ']))
    })
}
