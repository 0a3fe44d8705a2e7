//! Specifications in Markdown: each file is an epic with the items of its sections.

use std::collections::HashMap;

use reqlore_domain::ports::exchange::{ImportedItem, ImportedItems, SourceFile};

use crate::markdown::{is_markdown, other_files_note};
use crate::names::unique_id;
use crate::outline::{Section, sections, whole_text};
use crate::statements::{Statement, StatementForm, take_statements};

/// Adds the items of a section, whose text with deeper headings is given. The text before the first
/// heading is a section of level 0. Returns the heading and
/// text that stay in the epic, or `None` if an item has the section with all below it.
pub(crate) type ReadSection =
    for<'t> fn(&mut SpecReader<'_>, &Section<'t>, &'t str) -> Option<(&'t str, String)>;

/// Reads each file to which `name_of` gives a name, and counts the `others`.
pub(crate) fn read_specs(
    files: Vec<SourceFile>,
    others: &str,
    name_of: fn(&str) -> Option<&str>,
    read_section: ReadSection,
) -> Result<ImportedItems, String> {
    let mut imported = ImportedItems::default();
    let mut count = 0;
    for mut file in files {
        let Some(name) = name_of(&file.path).map(str::to_owned) else {
            count += usize::from(is_markdown(&file.path));
            continue;
        };
        let text = file.read_text()?;
        let source = format!("{}#", file.path);
        let kind = "epic".to_owned();
        let epic = ImportedItem { source, kind, title: name, ..ImportedItem::default() };
        let used = HashMap::new();
        let mut reader = SpecReader { path: &file.path, used, items: vec![epic], story: 0 };
        reader.read(&text, read_section);
        for item in reader.items {
            imported.push(item).map_err(|problem| format!("{}: {problem}", file.path))?;
        }
    }
    imported.notes.extend(other_files_note(count, others));
    Ok(imported)
}

pub(crate) struct SpecReader<'a> {
    path: &'a str,
    used: HashMap<String, usize>,
    /// The epic is the first one.
    items: Vec<ImportedItem>,
    /// The index of the last story; that of the epic before the first one.
    pub(crate) story: usize,
}

impl SpecReader<'_> {
    fn read(&mut self, text: &str, read_section: ReadSection) {
        let (before, mut found) = sections(text);
        found.insert(0, Section { text: before, ..Section::default() });
        let mut kept = Vec::new();
        let mut index = 0;
        while index < found.len() {
            let section = &found[index];
            let (whole, next) = whole_text(text, &found, index);
            match read_section(self, section, whole) {
                Some((heading, rest)) => {
                    // Items took nothing from an empty section.
                    let is_text = whole.trim().is_empty();
                    let (heading, rest) = if is_text { ("", heading) } else { (heading, &*rest) };
                    keep(&mut kept, section.heading.level, heading, rest.trim());
                    index += 1;
                }
                None => index = next,
            }
        }
        keep(&mut kept, 0, "", "");
        let parts = kept.iter().flat_map(|(_, heading, rest)| [*heading, rest.as_str()]);
        let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
        self.items[0].text = parts.join("\n\n");
    }

    pub(crate) fn set_title(&mut self, title: &str) {
        if !title.is_empty() {
            title.clone_into(&mut self.items[0].title);
        }
    }

    /// Adds an item below another one; the epic has the index 0. The ID is its own number in the
    /// file.
    pub(crate) fn add(
        &mut self,
        kind: &str,
        parent: usize,
        id: &str,
        title: &str,
    ) -> &mut ImportedItem {
        let index = self.items.len();
        self.items.push(ImportedItem {
            source: format!("{}#{}", self.path, unique_id(&mut self.used, id)),
            kind: kind.to_owned(),
            parent: Some(self.items[parent].source.clone()),
            title: title.to_owned(),
            ..ImportedItem::default()
        });
        if kind == "user_story" {
            self.story = index;
        }
        &mut self.items[index]
    }

    /// Adds a story. Its numbered statements are its criteria.
    pub(crate) fn add_story(&mut self, id: &str, title: &str, text: &str) -> &mut ImportedItem {
        // A line of prose may begin with a number.
        let own_number = format!("{}.", id.trim_start_matches(|c: char| !c.is_ascii_digit()));
        let (rest, found) = take_statements(text, |one| match one.form {
            StatementForm::Paragraph => one.number.starts_with(&own_number),
            StatementForm::NestedItem => false,
            _ => !one.number.is_empty(),
        });
        let index = self.items.len();
        let story = self.add("user_story", 0, id, title);
        let before = found.first().and_then(|first| text.get(..first.start)).unwrap_or_default();
        let before = before.trim_matches(['\n', ' ']);
        let rest = rest.strip_suffix("\n\n---").unwrap_or(&rest).trim();
        // The label of a list that was taken labels nothing, unless there is more.
        let rest = if rest == before { without_label(rest) } else { rest };
        rest.clone_into(&mut story.text);
        for Statement { number, whole, .. } in found {
            let id = format!("{id}/{number}");
            self.add("acceptance_criteria", index, &id, "").text = whole;
        }
        &mut self.items[index]
    }
}

/// Keeps a section for the epic. A heading from which items took all is removed.
fn keep<'t>(kept: &mut Vec<(usize, &'t str, String)>, level: usize, heading: &'t str, text: &str) {
    while kept.last().is_some_and(|(last, _, text)| *last >= level && text.is_empty()) {
        kept.pop();
    }
    kept.push((level, heading, text.to_owned()));
}

/// The text before a list that was taken, without its heading, label or line at the end.
fn without_label(text: &str) -> &str {
    let mut text = text.trim();
    loop {
        let start = text.rfind('\n').map_or(0, |end| end + 1);
        let line = text[start..].trim_end_matches([':', '：']);
        let bold = line.strip_prefix("**").and_then(|line| line.strip_suffix("**"));
        let is_label = bold.is_some_and(|bold| !bold.is_empty() && !bold.contains("**"));
        let is_heading = line.trim_start_matches('#').starts_with(' ') && line.starts_with('#');
        if !(is_label || is_heading || line == "---") {
            return text;
        }
        text = text[..start].trim_end();
    }
}

/// Splits `User Story 1 - Title` into the words with the number, and the title.
pub(crate) fn split_heading(heading: &str) -> Option<(&str, &str)> {
    let heading = heading.trim_matches('*');
    let first = heading.find(|c: char| c.is_ascii_digit()).filter(|first| *first > 0)?;
    let is_word = |c: char| c.is_alphabetic() || matches!(c, ' ' | '-' | '_');
    let is_number = |c: char| c.is_ascii_alphanumeric() || c == '.';
    let length = heading[first..].find(|c| !is_number(c)).unwrap_or(heading.len() - first);
    let (name, rest) = heading.split_at(first + length);
    let title = rest.trim_start_matches([' ', ':', '：', '-', '–', '—']);
    let is_date = rest.starts_with('-') && title.starts_with(|c: char| c.is_ascii_digit());
    // `OAuth 2.0 support` has no number of its own.
    let marks = [':', '：', '-', '–', '—', '(', '（'];
    let is_end = rest.is_empty() || rest.trim_start().starts_with(marks) || name.ends_with('.');
    let is_split = heading[..first].chars().all(is_word) && !is_date && is_end;
    is_split.then(|| (name.trim_end_matches('.'), title.trim_matches('*').trim()))
}
