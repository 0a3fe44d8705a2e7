//! Writes and reads Markdown exports. The heading level gives the kind of an item.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use reqlore_domain::ports::exchange::{ImportedItem, ImportedItems};
use reqlore_domain::records::answers::lists::ListedItem;

use crate::names::unique_id;
use crate::outline::{Section, check_heading, sections};

/// The first line of an export.
pub(crate) const EXPORT_MARK: &str = "<!-- Exported by Reqlore -->\n";

/// The kinds of items by the levels of their headings. Deeper headings are text.
const LEVELS: [&str; 3] = ["epic", "user_story", "requirement"];
const CRITERIA: &str = "acceptance_criteria";
/// The line above a list of criteria.
const CRITERIA_MARK: &str = "\n<!-- acceptance_criteria -->\n";
/// The end of a heading that is text.
const TEXT_MARK: &str = " <!-- text -->";

/// Writes all records as one document.
pub(crate) fn write_export(records: &[ListedItem]) -> String {
    let mut children: HashMap<&str, Vec<&ListedItem>> = HashMap::new();
    let known: HashSet<&str> = records.iter().map(|one| &*one.reference_id).collect();
    for record in records {
        let parent = record.parent.as_deref().filter(|parent| known.contains(parent));
        children.entry(parent.unwrap_or_default()).or_default().push(record);
    }
    let mut text = EXPORT_MARK.to_owned();
    write_children(&mut text, "", &mut children);
    text
}

/// Writes the children of a record, those of the deepest level first: a heading ends the text and
/// the children above it.
fn write_children(text: &mut String, id: &str, children: &mut HashMap<&str, Vec<&ListedItem>>) {
    let mut records = children.remove(id).unwrap_or_default();
    records.sort_by_key(|record| Reverse(level_of(&record.kind)));
    if records.first().is_some_and(|first| first.kind == CRITERIA) {
        text.push_str(CRITERIA_MARK);
    }
    for record in records {
        let body = record.description.as_deref().unwrap_or_default();
        if record.kind == CRITERIA {
            _ = writeln!(text, "\n- {}", body.trim().replace('\n', "\n  "));
            continue;
        }
        let level = level_of(&record.kind);
        _ = write!(text, "\n{} {}", "#".repeat(level), record.title);
        if LEVELS[level - 1] != record.kind {
            _ = write!(text, " <!-- {} -->", record.kind);
        }
        text.push('\n');
        if !body.is_empty() {
            _ = writeln!(text, "\n{}", mark_headings(body));
        }
        write_children(text, &record.reference_id, children);
    }
}

/// The level of a kind. Entities have the highest one, because they have no parent.
fn level_of(kind: &str) -> usize {
    let position = LEVELS.iter().position(|one| *one == kind);
    if kind == CRITERIA { LEVELS.len() + 1 } else { position.map_or(1, |index| index + 1) }
}

/// Marks the headings of a text that would be those of items.
fn mark_headings(body: &str) -> String {
    let mut marked = body.to_owned();
    for Section { heading, .. } in sections(body).1.iter().rev() {
        if heading.level <= LEVELS.len() {
            let line = &body[heading.start..];
            let end = heading.start + line.find('\n').unwrap_or(line.len());
            marked.insert_str(end, TEXT_MARK);
        }
    }
    marked
}

/// Reads an export, to which a user may have added items.
pub(crate) fn read_export(
    path: &str,
    text: &str,
    imported: &mut ImportedItems,
) -> Result<(), String> {
    let (_, found) = sections(text);
    let items: Vec<_> = found
        .iter()
        .filter_map(|section| split_kind(section).map(|split| (&section.heading, split)))
        .collect();
    let first = items.first().map_or(text.len(), |(heading, _)| heading.start);
    let before = text[..first].strip_prefix(EXPORT_MARK).unwrap_or_default();
    let (before, criteria) = split_criteria(before);
    if !before.trim().is_empty() {
        imported.notes.push(format!("{path}: the text before the first heading is not imported"));
    }
    push_criteria(&format!("{path}#"), None, criteria, imported)?;
    let mut used = HashMap::new();
    // The sources of the epic and the story above.
    let mut above: Vec<(usize, String)> = Vec::new();
    for (index, (heading, (title, kind))) in items.iter().enumerate() {
        check_heading(text, heading)?;
        let end = items.get(index + 1).map_or(text.len(), |(next, _)| next.start);
        let (body, criteria) = split_criteria(&text[heading.end..end]);
        above.retain(|(level, _)| *level < heading.level);
        let source = format!("{path}#{}", unique_id(&mut used, title));
        imported.push(ImportedItem {
            source: source.clone(),
            kind: (*kind).to_owned(),
            parent: above.last().map(|(_, source)| source.clone()),
            title: (*title).to_owned(),
            text: body.trim_matches('\n').replace(TEXT_MARK, ""),
            ..ImportedItem::default()
        })?;
        push_criteria(&format!("{source}/"), Some(&source), criteria, imported)?;
        above.push((heading.level, source));
    }
    Ok(())
}

/// The title and kind of a heading; `None` if it is text.
fn split_kind<'s>(section: &'s Section<'_>) -> Option<(&'s str, &'s str)> {
    let title = &*section.heading.title;
    let marked = title.strip_suffix(" -->").and_then(|title| title.rsplit_once(" <!-- "));
    let (title, kind) = match marked {
        Some(marked) => marked,
        None => (title, *LEVELS.get(section.heading.level - 1)?),
    };
    (kind != "text").then_some((if title.is_empty() { "Untitled" } else { title }, kind))
}

/// Splits the list of criteria from the text above.
fn split_criteria(text: &str) -> (&str, &str) {
    text.rsplit_once(CRITERIA_MARK).unwrap_or((text, ""))
}

fn push_criteria(
    prefix: &str,
    parent: Option<&String>,
    list: &str,
    imported: &mut ImportedItems,
) -> Result<(), String> {
    let mut criteria: Vec<String> = Vec::new();
    for line in list.lines() {
        match (line.strip_prefix("- "), criteria.last_mut()) {
            (Some(first), _) => criteria.push(first.to_owned()),
            (None, Some(text)) => text.extend(["\n", line.strip_prefix("  ").unwrap_or(line)]),
            (None, None) => {}
        }
    }
    for (index, text) in criteria.iter().enumerate() {
        imported.push(ImportedItem {
            source: format!("{prefix}{}", index + 1),
            kind: CRITERIA.to_owned(),
            parent: parent.cloned(),
            text: text.trim_end().to_owned(),
            ..ImportedItem::default()
        })?;
    }
    Ok(())
}
