//! Parses files into items and reports invalid values.

use std::ops::Range;

use super::fields::find_by_name;
use super::{
    Deletion, ItemKind, ItemMeta, Priority, Reference, Relationship, RelationshipType,
    RequirementType, Status,
};
use crate::bounded_types::one_line;
use crate::diagnostic::Diagnostic;
use crate::front_matter::{self, DocumentParts};
use crate::knowledge::{is_entity_id, parse_tags};
use crate::link_values::{link_reference, link_texts};
use crate::records::values::CustomValues;
use crate::sections;
use crate::timestamp::Timestamp;
use crate::yaml::{self, YamlEntry, YamlNode, YamlValue, quote_excerpt};

/// Maximum length of a description in an item's metadata.
const MAX_INLINE_DESCRIPTION_BYTES: usize = 1024;
/// Maximum length of a title that is derived from the description.
const MAX_DERIVED_TITLE_CHARS: usize = 120;
const MAX_MENTIONS: usize = 200;

impl ItemMeta {
    /// Parses an item from the name and text of its document. An invalid value is replaced by its
    /// default; only the first one is reported. `modified` replaces missing times.
    pub fn parse(
        kind: ItemKind,
        name: &str,
        text: &str,
        modified: Timestamp,
    ) -> (Self, Option<Diagnostic>) {
        let parts = front_matter::split(text);
        let front_matter = front_matter::parse(parts);
        // A parent on an invalid line is unknown.
        let unread_parent = front_matter.is_err().then(String::new);
        let (entries, mut diagnostic) = match front_matter {
            Ok(front_matter) => (front_matter.entries, front_matter.duplicate),
            // An invalid line must not separate an item from its parent.
            Err(error) => (front_matter::salvage_lines(parts), Some(error)),
        };
        if let Some(diagnostic) = &mut diagnostic {
            diagnostic.column = None;
        }
        let mut parser = ItemParser { kind, parts, entries, diagnostic, unread_parent };
        let item = parser.parse_item(name, modified.whole_seconds());
        (item, parser.diagnostic)
    }

    /// The item of an unreadable document: only its name is known.
    pub fn placeholder(kind: ItemKind, name: &str, modified: Timestamp) -> Self {
        let mentions = kind.parent().map(unknown_parent).into_iter().collect();
        Self { description: None, mentions, ..Self::parse(kind, name, "", modified).0 }
    }

    /// The description in a document's text.
    pub fn description(text: &str) -> &str {
        front_matter::body(text)
    }
}

struct ItemParser<'a> {
    kind: ItemKind,
    parts: DocumentParts<'a>,
    entries: Vec<YamlEntry>,
    diagnostic: Option<Diagnostic>,
    /// The value of a parent that cannot be read, or empty if the front matter is invalid.
    unread_parent: Option<String>,
}

impl ItemParser<'_> {
    fn parse_item(&mut self, name: &str, modified: Timestamp) -> ItemMeta {
        let kind = self.kind;
        let body = self.parts.body.trim_matches(['\r', '\n']);
        let reference = self.parse_reference(name);
        let title = self.parse_title(body, name);
        let status = self.parse_status();
        let priority = self.parse_priority();
        let requirement_type = self.parse_requirement_type();
        let parent = kind.parent().and_then(|parent| self.parse_parent(parent));
        let unread_parent = self.unread_parent.take().filter(|_| parent.is_none());
        let mut mentions = Vec::new();
        // So that each list of possible siblings can name this file.
        if let (Some(_), Some(kind)) = (&unread_parent, kind.parent()) {
            mentions.push(unknown_parent(kind));
        }
        let deleted_at = self.parse_time("deleted_at");
        let deletion = deleted_at.map(|at| Deletion { at, by: self.scalar("deleted_username") });
        let texts = format!("{title}\n{body}\n{}", unread_parent.unwrap_or_default());
        mentions.extend(find_mentions(&texts, reference));
        // A new item is not written with a second time.
        let created_at = self.parse_time("created_at").unwrap_or(modified);
        let updated_at = self.parse_time("updated_at").unwrap_or(created_at);
        ItemMeta {
            kind,
            reference,
            uid: self.scalar("uid"),
            status,
            priority,
            requirement_type,
            parent,
            relationships: self.parse_relationships(),
            // Most lists then need no document, and metadata stays small.
            description: (body.len() <= MAX_INLINE_DESCRIPTION_BYTES).then(|| body.to_owned()),
            mentions,
            title,
            creator: self.scalar("creator_username"),
            assignee: self.scalar("assignee_username"),
            created_at,
            updated_at,
            tags: parse_tags(&self.entries),
            link_suffixes: self.link_suffixes(),
            custom: CustomValues::parse(&self.entries),
            deletion,
        }
    }

    fn parse_reference(&mut self, name: &str) -> Option<Reference> {
        let reference = Reference::from_document_name(name).filter(|found| found.kind == self.kind);
        if reference.is_none() {
            let prefix = self.kind.prefix();
            let message = format!(
                "the file name contains no reference; rename the file, for example to \
                 {prefix}-012.md, with an unused number"
            );
            self.report(None, message);
        }
        reference
    }

    fn parse_title(&mut self, body: &str, name: &str) -> String {
        if let Some((title, problem)) = front_matter::find_title(self.parts, &self.entries) {
            if let Some(Diagnostic { line, message, .. }) = problem {
                self.report(line, message);
            }
            return one_line(&title);
        }
        // Acceptance criteria have no title of their own.
        if self.kind != ItemKind::AcceptanceCriteria {
            let message = "`title` is missing; add one to the front matter";
            self.report(None, message.to_owned());
        }
        let heading = sections::first_heading(body);
        match heading.or_else(|| body.lines().find(|line| line.contains(char::is_alphanumeric))) {
            Some(title) => truncate_title(&one_line(title)),
            None => name.to_owned(),
        }
    }

    fn parse_status(&mut self) -> Option<Status> {
        let statuses = self.kind.statuses();
        let default = *statuses.first()?;
        // A project may have statuses of its own, except for requirements.
        if self.kind != ItemKind::Requirement
            && let Some(node) = self.find_key("status")
            && let Some(status) = node.text().and_then(Status::parse)
        {
            return Some(status);
        }
        Some(self.parse_named("status", statuses, Status::name).unwrap_or(default))
    }

    fn parse_requirement_type(&mut self) -> Option<RequirementType> {
        if self.kind != ItemKind::Requirement {
            return None;
        }
        let given = self.parse_named("type_name", &RequirementType::ALL, |one| one.name());
        Some(given.unwrap_or(RequirementType::DEFAULT))
    }

    fn parse_priority(&mut self) -> Option<Priority> {
        // The key is ignored, as any other unknown key.
        if !self.kind.has_priority() {
            return None;
        }
        let Some((line, text)) = self.scalar_with_line("priority") else {
            return Some(Priority::DEFAULT);
        };
        let priority = Priority::parse(&text);
        if priority.is_none() {
            let message = format!("priority {} is not 1, 2, 3 or 4; use one", quote_excerpt(&text));
            self.report(line, message);
        }
        Some(priority.unwrap_or(Priority::DEFAULT))
    }

    fn parse_parent(&mut self, kind: ItemKind) -> Option<Reference> {
        let key = kind.name();
        // Cloned, because `report` needs the parser.
        let node = self.find_key(key)?.clone();
        let texts = link_texts(&node, true);
        let (line, text) = match &texts[..] {
            [] => return None,
            [(node, text)] => (node.position.line, (*text).to_owned()),
            [(first, _), ..] => {
                let (line, count) = (first.position.line, texts.len());
                let texts: Vec<&str> = texts.iter().map(|(_, text)| *text).collect();
                self.unread_parent = Some(texts.join(" "));
                self.report(line, format!("{key} has {count} values; keep one"));
                return None;
            }
        };
        let parent = link_reference(&text).filter(|parent| parent.kind == kind);
        if parent.is_none() {
            self.report(line, invalid_reference(kind.name(), &text, kind));
            self.unread_parent = Some(text);
        }
        parent
    }

    fn parse_relationships(&mut self) -> Vec<Relationship> {
        let mut relationships: Vec<Relationship> = Vec::new();
        if self.kind != ItemKind::Requirement {
            return relationships;
        }
        for kind in RelationshipType::ALL {
            // Cloned, because `report` needs the parser.
            let Some(node) = self.find_key(kind.name()).cloned() else { continue };
            for (item, text) in link_texts(&node, true) {
                match link_reference(text) {
                    Some(target) if target.kind == ItemKind::Requirement => {
                        let relationship = Relationship { kind, target };
                        if !relationships.contains(&relationship) {
                            relationships.push(relationship);
                        }
                    }
                    _ => {
                        let message = invalid_reference(kind.name(), text, ItemKind::Requirement);
                        self.report(item.position.line, message);
                    }
                }
            }
        }
        relationships
    }

    fn link_suffixes(&self) -> Vec<(Reference, String)> {
        let mut suffixes = Vec::new();
        for entry in self.find_key("linked").map(YamlNode::entries).unwrap_or_default() {
            if let (Some(target), Some(suffix)) = (Reference::parse(&entry.key), entry.node.text())
            {
                suffixes.push((target, suffix.to_owned()));
            }
        }
        suffixes
    }

    fn parse_named<T: Copy>(
        &mut self,
        key: &str,
        values: &[T],
        name: impl Fn(&T) -> &str,
    ) -> Option<T> {
        let (line, text) = self.scalar_with_line(key)?;
        let value = find_by_name(values, &name, &text);
        if value.is_none() {
            let names: Vec<&str> = values.iter().map(&name).collect();
            let text = quote_excerpt(&text);
            self.report(line, format!("{key} {text} is invalid; use one of {}", names.join(", ")));
        }
        value
    }

    /// Parses a time, in whole seconds.
    fn parse_time(&mut self, key: &str) -> Option<Timestamp> {
        let (line, text) = self.scalar_with_line(key)?;
        let time = Timestamp::parse(&text);
        if time.is_none() {
            self.report(line, invalid_time(key, &text));
        }
        time.map(Timestamp::whole_seconds)
    }

    fn find_key(&self, key: &str) -> Option<&YamlNode> {
        yaml::find_key(&self.entries, key)
    }

    fn scalar_with_line(&mut self, key: &str) -> Option<(usize, String)> {
        let node = self.find_key(key)?;
        let line = node.position.line;
        if matches!(node.value, YamlValue::List(_) | YamlValue::Map(_)) {
            self.report(line, format!("{key} is a list or a map; write one value"));
            return None;
        }
        Some((line, node.text()?.to_owned()))
    }

    fn scalar(&mut self, key: &str) -> Option<String> {
        self.scalar_with_line(key).map(|(_, text)| text)
    }

    /// Keeps the first problem only.
    fn report(&mut self, line: impl Into<Option<usize>>, message: String) {
        self.diagnostic.get_or_insert(Diagnostic::new(line, message));
    }
}

/// The mention of an item in the place of a parent of this kind that cannot be read.
pub fn unknown_parent(kind: ItemKind) -> String {
    format!("{}-?", kind.prefix())
}

pub(crate) fn invalid_time(key: &str, text: &str) -> String {
    let text = quote_excerpt(text);
    format!("{key} {text} is not a time; write it like 2026-01-31T23:59:59Z")
}

fn invalid_reference(key: &str, text: &str, kind: ItemKind) -> String {
    let prefix = kind.prefix();
    if text.is_empty() {
        return format!("{key} is a map without `id`; write a reference like {prefix}-012");
    }
    format!("{key} {} is not a reference; write one like {prefix}-012", quote_excerpt(text))
}

pub(crate) fn truncate_title(text: &str) -> String {
    match text.char_indices().nth(MAX_DERIVED_TITLE_CHARS) {
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
        None => text.to_owned(),
    }
}

/// Finds references and entity ids in a text, without duplicates and without the item's own
/// reference. References are normalized: `REQ-7` becomes `REQ-007`.
pub(super) fn find_mentions(text: &str, own: Option<Reference>) -> Vec<String> {
    let own = own.map(|reference| reference.to_string());
    let mut mentions: Vec<String> = Vec::new();
    for (_, mention) in scan_mentions(text) {
        if Some(&mention) != own.as_ref() && !mentions.contains(&mention) {
            mentions.push(mention);
        }
        // Bounds the metadata of documents with generated lists.
        if mentions.len() == MAX_MENTIONS {
            break;
        }
    }
    mentions
}

/// Each reference and entity id in a text, with its range of bytes. References are normalized.
pub fn scan_mentions(text: &str) -> impl Iterator<Item = (Range<usize>, String)> {
    let mut scanned = 0;
    // Every mention has a hyphen and most words have none, so the hyphens are searched.
    text.match_indices('-').filter_map(move |(hyphen, _)| {
        if hyphen < scanned {
            return None;
        }
        let mut before = text[scanned..hyphen].char_indices().rev();
        let delimiter = before.find(|(_, c)| !is_word_char(*c));
        let start = delimiter.map_or(scanned, |(at, c)| scanned + at + c.len_utf8());
        let after = text[hyphen..].find(|c| !is_word_char(c));
        scanned = after.map_or(text.len(), |at| hyphen + at);
        let word = &text[start..scanned];
        let mention = match Reference::parse(word) {
            Some(reference) => reference.to_string(),
            None if is_entity_id(word) => word.to_owned(),
            None => return None,
        };
        Some((start..scanned, mention))
    })
}

fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || c == '-' || c == '_'
}

/// Reports keys that have the name of a tool argument, such as `assignee` instead of
/// `assignee_username`. Other unknown keys are allowed.
pub fn find_argument_keys(kind: ItemKind, text: &str) -> Vec<Diagnostic> {
    let Ok(front_matter) = front_matter::parse(front_matter::split(text)) else {
        return Vec::new();
    };
    let parent = kind.parent().map_or("", ItemKind::name);
    let mut diagnostics = Vec::new();
    for entry in &front_matter.entries {
        let correct_key = match entry.key.as_str() {
            // Left: names of tool arguments. Right: keys of the file format.
            "assignee" => "assignee_username",
            "creator" => "creator_username",
            "type" if kind == ItemKind::Requirement => "type_name",
            "parent" => parent,
            "story" if parent == ItemKind::UserStory.name() => parent,
            _ => continue,
        };
        // Epics have no parent, so any key is allowed.
        if correct_key.is_empty() || yaml::find_key(&front_matter.entries, correct_key).is_some() {
            continue;
        }
        let message = format!("{} has no effect here; rename it to {correct_key}", entry.key);
        diagnostics.push(Diagnostic::new(entry.key_position.line, message));
    }
    diagnostics
}
