//! From a file to an item.

use super::values::by_name;
use super::{
    Deletion, Item, ItemKind, Priority, Reference, Relationship, RelationshipType, RequirementType,
    Status, mention,
};
use crate::fault::Fault;
use crate::front_matter::{self, Parts};
use crate::knowledge::tags;
use crate::sections;
use crate::time::Timestamp;
use crate::yaml::{self, Node, Value};

/// The longest description that is kept beside what lists need, in bytes.
const SHORT: usize = 1024;
/// A title is cut there when the text has to lend it.
const LENT_TITLE: usize = 120;

impl Item {
    /// Reads an item of this kind from a document's name and text. What can't be used is a fault,
    /// and reads as if it were not there. `modified` stands for times that the file does not say.
    pub fn read(
        kind: ItemKind,
        name: &str,
        text: &str,
        modified: Timestamp,
    ) -> (Self, Option<Fault>) {
        let parts = front_matter::split(text);
        let (entries, fault) = match front_matter::read(parts) {
            Ok(map) => (map.entries, map.fault.map(from_yaml)),
            Err(fault) => (line_by_line(parts), Some(from_yaml(fault))),
        };
        let mut reader = Reader { kind, parts, entries, fault };
        let item = reader.item(name, modified.whole());
        (item, reader.fault)
    }

    /// An item of which only the name is known.
    pub fn unread(kind: ItemKind, name: &str, modified: Timestamp) -> Self {
        Self { description: None, ..Self::read(kind, name, "", modified).0 }
    }

    /// The description of an item's text: what stands behind the front matter, without line ends
    /// around it.
    pub fn description(text: &str) -> &str {
        front_matter::split(text).body.trim_matches(['\r', '\n'])
    }
}

/// What the lines say of which each can be read by itself: a colon too many in one of them must not
/// part an item from its story.
fn line_by_line(parts: Parts<'_>) -> Vec<(String, Node)> {
    const MOST: usize = 200;
    let lines = parts.yaml.unwrap_or_default().lines().enumerate().take(MOST);
    let mut entries: Vec<(String, Node)> = Vec::new();
    for (at, line) in lines.filter(|(_, line)| !line.starts_with([' ', '\t', '-', '#'])) {
        let read = yaml::read_map(line).map(|map| map.entries).unwrap_or_default();
        for (key, node) in read {
            if entries.iter().all(|(known, _)| *known != key) {
                entries.push((key, Node { line: at + 1, ..node }));
            }
        }
    }
    entries
}

fn from_yaml(fault: yaml::Fault) -> Fault {
    Fault { line: Some(fault.line), reason: fault.reason }
}

struct Reader<'a> {
    kind: ItemKind,
    parts: Parts<'a>,
    entries: Vec<(String, Node)>,
    fault: Option<Fault>,
}

impl Reader<'_> {
    fn item(&mut self, name: &str, modified: Timestamp) -> Item {
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
        Item {
            kind,
            reference,
            uid: self.text("uid"),
            status,
            priority,
            requirement_type,
            parent,
            relationships: self.relationships(),
            description: (body.len() <= SHORT).then(|| body.to_owned()),
            mentions: mention::mentions(&format!("{title}\n{body}"), reference),
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
            self.faulty(None, reason);
        }
        found
    }

    fn title(&mut self, body: &str, name: &str) -> String {
        if let Some(title) = self.text("title") {
            return one_line(&title);
        }
        // A front matter that can't be read as a whole may still tell it.
        if let Some(title) = front_matter::line_of(self.parts, "title") {
            return one_line(title);
        }
        let first = || body.lines().find(|line| !line.trim().is_empty());
        let lent = sections::title(body).or_else(first);
        if self.kind != ItemKind::AcceptanceCriteria {
            self.faulty(None, "`title` is missing; write one into the front matter".to_owned());
        }
        lent.map_or_else(|| name.to_owned(), |lent| shortened(&one_line(lent)))
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
            self.faulty(Some(line), reason);
        }
        found.or(Some(Priority::DEFAULT))
    }

    fn parent(&mut self, parent: ItemKind) -> Option<Reference> {
        let (line, text) = self.value(parent.name())?;
        let found = Reference::parse(&text).filter(|found| found.kind == parent);
        if found.is_none() {
            let (key, prefix) = (parent.name(), parent.prefix());
            let reason = format!("{key} is {}, and no reference like {prefix}-012", shown(&text));
            self.faulty(Some(line), reason);
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
            for item in node.iter().flat_map(Node::items) {
                let Some(text) = item.text() else { continue };
                let target = Reference::parse(text);
                let target = target.filter(|target| target.kind == ItemKind::Requirement);
                let Some(target) = target else {
                    let (key, text) = (kind.name(), shown(text));
                    let reason = format!("{key} names {text}, and no reference like REQ-012");
                    self.faulty(Some(item.line + 1), reason);
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
        let Some(Value::Map(entries)) = self.node("linked").map(|node| &node.value) else {
            return Vec::new();
        };
        let linked = entries.iter().filter_map(|(reference, mark)| {
            Some((Reference::parse(reference)?, mark.text()?.to_owned()))
        });
        linked.collect()
    }

    fn one_of<T: Copy>(&mut self, key: &str, all: &[T], name: fn(T) -> &'static str) -> Option<T> {
        let (line, text) = self.value(key).filter(|_| !all.is_empty())?;
        let found = by_name(all, name, &text);
        if found.is_none() {
            let names: Vec<&str> = all.iter().map(|value| name(*value)).collect();
            let reason = format!("{key} {} is none of {}", shown(&text), names.join(", "));
            self.faulty(Some(line), reason);
        }
        found
    }

    fn time(&mut self, key: &str) -> Option<Timestamp> {
        let (line, text) = self.value(key)?;
        let found = Timestamp::parse(&text).map(Timestamp::whole);
        if found.is_none() {
            let reason = format!("{key} {} is no time like 2026-01-31T23:59:59Z", shown(&text));
            self.faulty(Some(line), reason);
        }
        found
    }

    fn node(&self, key: &str) -> Option<&Node> {
        self.entries.iter().find(|(name, _)| name == key).map(|(_, node)| node)
    }

    /// A scalar, and the line of the file where it stands.
    fn value(&self, key: &str) -> Option<(usize, String)> {
        let node = self.node(key)?;
        Some((node.line + 1, node.text()?.to_owned()))
    }

    fn text(&self, key: &str) -> Option<String> {
        self.value(key).map(|(_, text)| text)
    }

    /// The first one counts: whoever mends it sees the next.
    fn faulty(&mut self, line: Option<usize>, reason: String) {
        self.fault.get_or_insert(Fault { line, reason });
    }
}

pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn shown(text: &str) -> String {
    let short: String = text.chars().take(60).collect();
    format!("{short:?}")
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(LENT_TITLE) {
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
        None => text.to_owned(),
    }
}
