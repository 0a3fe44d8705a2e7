//! Parses files into items, and reports what they contain beside valid values.

use super::fields::by_name;
use super::{
    Deletion, ItemKind, ItemMeta, Priority, Reference, Relationship, RelationshipType,
    RequirementType, Status,
};
use crate::bounded_types::one_line;
use crate::diagnostic::Diagnostic;
use crate::front_matter::{self, DocumentParts};
use crate::knowledge::{names_entity, tags};
use crate::sections;
use crate::timestamp::Timestamp;
use crate::yaml::{self, YamlEntry, YamlNode, shown};

/// Longer descriptions are not kept with the item's metadata, in bytes.
const INLINE_DESCRIPTION: usize = 1024;
/// Maximum length of a title that is taken from the description, in characters.
const BORROWED_TITLE: usize = 120;
const MAX_MENTIONS: usize = 200;

impl ItemMeta {
    /// Reads an item from a document's name and text. An invalid value is reported, the first one
    /// only, and replaced by its default. `modified` replaces missing times.
    pub fn read(
        kind: ItemKind,
        name: &str,
        text: &str,
        modified: Timestamp,
    ) -> (Self, Option<Diagnostic>) {
        let parts = front_matter::split(text);
        let (entries, fault) = match front_matter::read(parts) {
            Ok(map) => (map.entries, map.duplicate),
            // A single invalid line must not separate an item from its parent.
            Err(error) => (front_matter::salvage(parts), Some(error)),
        };
        let fault = fault.map(|fault| Diagnostic { column: None, ..fault });
        let mut reader = ItemParser { kind, parts, entries, fault };
        let item = reader.item(name, modified.whole());
        (item, reader.fault)
    }

    /// An item of which only the name is known.
    pub fn placeholder(kind: ItemKind, name: &str, modified: Timestamp) -> Self {
        Self { description: None, ..Self::read(kind, name, "", modified).0 }
    }

    /// See [`front_matter::body`].
    pub fn description(text: &str) -> &str {
        front_matter::body(text)
    }
}

struct ItemParser<'a> {
    kind: ItemKind,
    parts: DocumentParts<'a>,
    entries: Vec<YamlEntry>,
    fault: Option<Diagnostic>,
}

impl ItemParser<'_> {
    fn item(&mut self, name: &str, modified: Timestamp) -> ItemMeta {
        let kind = self.kind;
        let body = self.parts.body.trim_matches(['\r', '\n']);
        let reference = self.reference(name);
        let title = self.title(body, name);
        let status = self.status();
        let priority = self.priority();
        let requirement_type = self.requirement_type();
        let parent = kind.parent().and_then(|parent| self.parent(parent));
        let deleted =
            self.time("deleted_at").map(|at| Deletion { at, by: self.text("deleted_username") });
        ItemMeta {
            kind,
            reference,
            uid: self.text("uid"),
            status,
            priority,
            requirement_type,
            parent,
            relationships: self.relationships(),
            description: (body.len() <= INLINE_DESCRIPTION).then(|| body.to_owned()),
            mentions: mentions(&format!("{title}\n{body}"), reference),
            title,
            creator: self.text("creator_username"),
            assignee: self.text("assignee_username"),
            created_at: self.time("created_at").unwrap_or(modified),
            updated_at: self.time("updated_at").unwrap_or(modified),
            tags: tags(&self.entries),
            linked: self.linked(),
            deleted,
        }
    }

    fn reference(&mut self, name: &str) -> Option<Reference> {
        let found = Reference::of_name(name).filter(|found| found.kind == self.kind);
        if found.is_none() {
            let prefix = self.kind.prefix();
            let reason = format!(
                "the file's name gives no reference; call it like {prefix}-012.md, with a number \
                 that no other file here has"
            );
            self.report(None, reason);
        }
        found
    }

    fn title(&mut self, body: &str, name: &str) -> String {
        if let Some(title) = self.text("title") {
            return one_line(&title);
        }
        let first = || body.lines().find(|line| !line.trim().is_empty());
        let borrowed = sections::title(body).or_else(first);
        if self.kind != ItemKind::AcceptanceCriteria {
            let reason = "`title` is missing; add one to the front matter";
            self.report(None, reason.to_owned());
        }
        borrowed.map_or_else(|| name.to_owned(), |title| shortened(&one_line(title)))
    }

    fn status(&mut self) -> Option<Status> {
        let all = self.kind.statuses();
        let new = all.first().copied();
        self.one_of("status", all, Status::name).or(new)
    }

    fn requirement_type(&mut self) -> Option<RequirementType> {
        let is_one = self.kind == ItemKind::Requirement;
        let all = if is_one { &RequirementType::ALL[..] } else { &[] };
        let found = self.one_of("type_name", all, RequirementType::name);
        found.or_else(|| is_one.then_some(RequirementType::Functional))
    }

    fn priority(&mut self) -> Option<Priority> {
        if !self.kind.has_priority() {
            return None;
        }
        let Some((line, text)) = self.value("priority") else { return Some(Priority::DEFAULT) };
        let found = Priority::parse(&text);
        if found.is_none() {
            let reason = format!("the priority {} is none of 1, 2, 3 and 4", shown(&text));
            self.report(line, reason);
        }
        found.or(Some(Priority::DEFAULT))
    }

    fn parent(&mut self, parent: ItemKind) -> Option<Reference> {
        let (line, text) = self.value(parent.name())?;
        let found = Reference::parse(&text).filter(|found| found.kind == parent);
        if found.is_none() {
            let (key, prefix) = (parent.name(), parent.prefix());
            let reason = format!("{key} is {}, and no reference like {prefix}-012", shown(&text));
            self.report(line, reason);
        }
        found
    }

    fn relationships(&mut self) -> Vec<Relationship> {
        let mut found: Vec<Relationship> = Vec::new();
        if self.kind != ItemKind::Requirement {
            return found;
        }
        for kind in RelationshipType::ALL {
            let node = self.node(kind.name()).cloned();
            for item in node.iter().flat_map(YamlNode::items) {
                let Some(text) = item.text() else { continue };
                let target = Reference::parse(text);
                let target = target.filter(|target| target.kind == ItemKind::Requirement);
                let Some(target) = target else {
                    let (key, text) = (kind.name(), shown(text));
                    let reason = format!("{key} names {text}, and no reference like REQ-012");
                    self.report(item.at.line, reason);
                    continue;
                };
                let relationship = Relationship { kind, target };
                if !found.contains(&relationship) {
                    found.push(relationship);
                }
            }
        }
        found
    }

    fn linked(&self) -> Vec<(Reference, String)> {
        let entries = self.node("linked").map(YamlNode::entries).unwrap_or_default();
        let linked = entries.iter().filter_map(|entry| {
            Some((Reference::parse(&entry.key)?, entry.node.text()?.to_owned()))
        });
        linked.collect()
    }

    fn one_of<T: Copy>(&mut self, key: &str, all: &[T], name: fn(T) -> &'static str) -> Option<T> {
        let (line, text) = self.value(key).filter(|_| !all.is_empty())?;
        let found = by_name(all, name, &text);
        if found.is_none() {
            let names: Vec<&str> = all.iter().map(|value| name(*value)).collect();
            let reason = format!("{key} {} is none of {}", shown(&text), names.join(", "));
            self.report(line, reason);
        }
        found
    }

    fn time(&mut self, key: &str) -> Option<Timestamp> {
        let (line, text) = self.value(key)?;
        let found = Timestamp::parse(&text).map(Timestamp::whole);
        if found.is_none() {
            let reason = format!("{key} {} is no time like 2026-01-31T23:59:59Z", shown(&text));
            self.report(line, reason);
        }
        found
    }

    fn node(&self, key: &str) -> Option<&YamlNode> {
        yaml::find(&self.entries, key)
    }

    /// A scalar and its line.
    fn value(&self, key: &str) -> Option<(usize, String)> {
        let node = self.node(key)?;
        Some((node.at.line, node.text()?.to_owned()))
    }

    fn text(&self, key: &str) -> Option<String> {
        self.value(key).map(|(_, text)| text)
    }

    /// Keeps the first report.
    fn report(&mut self, line: impl Into<Option<usize>>, reason: String) {
        self.fault.get_or_insert(Diagnostic::new(line, reason));
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(BORROWED_TITLE) {
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
        None => text.to_owned(),
    }
}

/// The references and entity ids in a text, each once. References have their standard spelling.
pub(super) fn mentions(text: &str, own: Option<Reference>) -> Vec<String> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
    let mut found: Vec<String> = Vec::new();
    // Every reference has a hyphen, and most words have none.
    for word in text.split(|c| !is_part(c)).filter(|word| word.contains('-')) {
        let mention = match Reference::parse(word) {
            Some(reference) if Some(reference) == own => continue,
            Some(reference) => reference.to_string(),
            None if names_entity(word) => word.to_owned(),
            None => continue,
        };
        if !found.contains(&mention) {
            found.push(mention);
        }
        if found.len() == MAX_MENTIONS {
            break;
        }
    }
    found
}

/// Reports keys that have an argument's name where the file's key is missing. Any other unknown key
/// is allowed.
pub fn check_keys(kind: ItemKind, text: &str) -> Vec<Diagnostic> {
    let Ok(map) = front_matter::read(front_matter::split(text)) else { return Vec::new() };
    let parent = kind.parent().map_or("", ItemKind::name);
    let mut found = Vec::new();
    for entry in &map.entries {
        let read = match entry.key.as_str() {
            "assignee" => "assignee_username",
            "creator" => "creator_username",
            "type" if kind == ItemKind::Requirement => "type_name",
            "parent" => parent,
            "story" if parent == ItemKind::UserStory.name() => parent,
            _ => continue,
        };
        if !read.is_empty() && yaml::find(&map.entries, read).is_none() {
            let message = format!("{} is not read here; the key is {read}", entry.key);
            found.push(Diagnostic::new(entry.key_at.line, message));
        }
    }
    found
}
