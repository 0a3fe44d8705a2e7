//! A Markdown document: headings are epics, stories and requirements, list items and `ID: text` are
//! requirements.

use std::collections::HashMap;
use std::fmt::Write as _;

use reqlore_domain::ports::exchange::{
    ExchangeFormat, ExportedFiles, ImportMapping, ImportedItem, ImportedItems, SourceFile,
    file_title,
};
use reqlore_domain::records::answers::lists::ListedItem;

use crate::names::{check_length, split_title, title_of, unique_id};
use crate::outline::{Heading, sections, whole_text};
use crate::statements::{Statement, StatementForm, take_statements};

pub(crate) struct MarkdownDocument;

pub(crate) fn is_markdown(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    [".md", ".markdown"].iter().any(|end| path.ends_with(end))
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
            let mut document =
                DocumentReader { path: &file.path, used: HashMap::new(), imported: &mut imported };
            document.read(&text).map_err(|problem| format!("{}: {problem}", file.path))?;
        }
        Ok(imported)
    }

    fn write(&self, records: Vec<ListedItem>) -> Option<ExportedFiles> {
        Some(vec![("requirements.md".to_owned(), write_document(&records))])
    }
}

struct DocumentReader<'a> {
    path: &'a str,
    used: HashMap<String, usize>,
    imported: &'a mut ImportedItems,
}

impl DocumentReader<'_> {
    fn read(&mut self, text: &str) -> Result<(), String> {
        let (before, found) = sections(text);
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
        self.push_with_statements(epic, first_text)?;
        let mut index = usize::from(title.is_some());
        let level = found[index..].iter().map(|section| section.heading.level).min();
        while index < found.len() {
            let section = &found[index];
            let story = self.item("user_story", &source, text, &section.heading)?;
            let story_source = story.source.clone();
            self.push_with_statements(story, section.text)?;
            index += 1;
            // Deeper headings are requirements with all that is below them.
            while index < found.len() && Some(found[index].heading.level) > level {
                let (body, next) = whole_text(text, &found, index);
                let mut item =
                    self.item("requirement", &story_source, text, &found[index].heading)?;
                body.trim_matches('\n').clone_into(&mut item.text);
                self.imported.push(item)?;
                index = next;
            }
        }
        Ok(())
    }

    /// The item of a heading of the text.
    fn item(
        &mut self,
        kind: &str,
        parent: &str,
        text: &str,
        Heading { title, start, .. }: &Heading,
    ) -> Result<ImportedItem, String> {
        check_length("the heading", title).map_err(|problem| {
            format!("line {}: {problem}", text[..*start].matches('\n').count() + 1)
        })?;
        let title = if title.is_empty() { "Untitled" } else { title };
        let id = unique_id(&mut self.used, title);
        Ok(ImportedItem {
            source: format!("{}#{id}", self.path),
            kind: kind.to_owned(),
            parent: Some(parent.to_owned()),
            title: title_of(title),
            ..ImportedItem::default()
        })
    }

    /// Adds an item with the text of its section, and the statements of the text as requirements.
    fn push_with_statements(&mut self, mut item: ImportedItem, text: &str) -> Result<(), String> {
        let (rest, statements) = take_statements(text, |one| match one.form {
            StatementForm::ListItem => true,
            StatementForm::TableRow => false,
            StatementForm::Paragraph => one.id.is_some(),
        });
        item.text = rest;
        let parent = item.source.clone();
        self.imported.push(item)?;
        for Statement { id, text, .. } in statements {
            let (title, text) = split_title(&text);
            let name = id.as_ref().unwrap_or(&title);
            self.imported.push(ImportedItem {
                source: format!("{}#{}", self.path, unique_id(&mut self.used, name)),
                kind: "requirement".to_owned(),
                parent: Some(parent.clone()),
                id,
                text: text.to_owned(),
                title,
                ..ImportedItem::default()
            })?;
        }
        Ok(())
    }
}

/// Epics, stories and requirements as headings of three levels.
fn write_document(records: &[ListedItem]) -> String {
    let mut children: HashMap<&str, Vec<&ListedItem>> = HashMap::new();
    for record in records {
        children.entry(record.parent.as_deref().unwrap_or_default()).or_default().push(record);
    }
    let mut text = String::new();
    let known: std::collections::HashSet<&str> =
        records.iter().map(|one| &*one.reference_id).collect();
    for record in records {
        let is_root = record.parent.as_deref().is_none_or(|parent| !known.contains(parent));
        if is_root {
            write_record(&mut text, record, &children, 1);
        }
    }
    text
}

fn write_record(
    text: &mut String,
    record: &ListedItem,
    children: &HashMap<&str, Vec<&ListedItem>>,
    level: usize,
) {
    let body = record.description.as_deref().unwrap_or_default();
    if record.kind == "acceptance_criteria" {
        _ = writeln!(text, "\n- {}", body.trim().replace('\n', "\n  "));
        return;
    }
    let break_line = if text.is_empty() { "" } else { "\n" };
    _ = writeln!(text, "{break_line}{} {}", "#".repeat(level), record.title);
    if !body.is_empty() {
        _ = writeln!(text, "\n{body}");
    }
    for child in children.get(&*record.reference_id).into_iter().flatten() {
        write_record(text, child, children, level + 1);
    }
}
