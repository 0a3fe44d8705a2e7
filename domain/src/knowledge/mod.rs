//! The knowledge graph: entities are markdown files below `.ixchel`, links are front matter keys.
//!
//! Parsing is tolerant: a file without an id or with invalid front matter is an entity too. An
//! entity's id comes from its front matter, its document's name is the path; two files may claim
//! the same id.

mod entity_graph;

use serde::{Deserialize, Serialize};

pub use crate::front_matter::body;
pub use entity_graph::{
    EntityGraph, EntityIndex, EntityLookup, EntityNode, LinkEnd, OutgoingLinks, TagCount, one_hop,
    outgoing,
};

use crate::backlog::ItemKind;
use crate::backlog::reference::{ParsedReference, Reference};
use crate::bounded_types::one_line;
use crate::diagnostic::Diagnostic;
use crate::front_matter::{self, DocumentParts};
use crate::sections;
use crate::yaml::{self, YamlEntry, YamlValue, quote_excerpt};

/// Prefixes of ids and their kinds.
pub const PREFIXES: [(&str, &str); 9] = [
    ("dec", "decision"),
    ("iss", "issue"),
    ("bd", "issue"),
    ("idea", "idea"),
    ("rpt", "report"),
    ("src", "source"),
    ("cite", "citation"),
    ("agt", "agent"),
    ("ses", "session"),
];

/// Folders directly below `.ixchel` and the kinds of their files.
const FOLDERS: [(&str, &str); 8] = [
    ("decisions", "decision"),
    ("issues", "issue"),
    ("ideas", "idea"),
    ("reports", "report"),
    ("sources", "source"),
    ("citations", "citation"),
    ("agents", "agent"),
    ("sessions", "session"),
];

/// Used if neither front matter, id nor folder names a kind.
const DEFAULT_KIND: &str = "note";

/// The metadata of an entity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entity {
    /// From the front matter, else the document's name.
    pub id: String,
    /// `decision`, `issue`, … or the front matter's own word.
    pub kind: String,
    pub title: String,
    pub status: Option<String>,
    /// `tags` and `labels`, each once.
    pub tags: Vec<String>,
    pub links: Vec<EntityLink>,
}

impl Entity {
    /// Reads an entity from a file's name below `.ixchel` (without `.md`) and its text. Invalid
    /// front matter is reported, and the entity made from name and body.
    pub fn read(name: &str, text: &str) -> (Self, Option<Diagnostic>) {
        let parts = front_matter::split(text);
        let stem = name.rsplit('/').next().unwrap_or(name);
        let (entries, salvaged, fault) = match front_matter::read(parts) {
            Ok(map) => {
                let duplicate = map.duplicate.map(|found| Diagnostic { column: None, ..found });
                (map.entries, Vec::new(), duplicate)
            }
            Err(Diagnostic { line, column, message }) => {
                let column = column.unwrap_or(1);
                let message = format!("invalid front matter: {message} (column {column})");
                (
                    Vec::new(),
                    front_matter::salvage_lines(parts),
                    Some(Diagnostic::new(line, message)),
                )
            }
        };
        let unclosed = parts.yaml.is_none() && looks_like_front_matter(parts.body);
        let fault = fault.or_else(|| {
            let message = "the front matter has no closing `---` line";
            unclosed.then(|| Diagnostic::new(1, message))
        });
        let node =
            |key: &str| yaml::find_key(&entries, key).or_else(|| yaml::find_key(&salvaged, key));
        let text_of = |key: &str| node(key).and_then(yaml::YamlNode::text);
        let (id, wrong_id) = match text_of("id") {
            Some(id) if is_id(id) => (id.to_owned(), None),
            Some(id) => {
                let message = format!("invalid id {}; use one like dec-1d2c8f", quote_excerpt(id));
                let line = node("id").map(|node| node.position.line);
                (name.to_owned(), Some(Diagnostic::new(line, message)))
            }
            // The file name of an invalid file may still be its id.
            None if fault.is_some() && looks_like_id(stem) => (stem.to_owned(), None),
            None => (name.to_owned(), None),
        };
        let entity = Self {
            kind: kind(name, &id, text_of("type")),
            title: title(text_of("title"), parts, stem),
            status: text_of("status").map(str::to_owned),
            tags: tags(&entries),
            links: links(&entries),
            id,
        };
        (entity, fault.or(wrong_id))
    }

    /// An entity of which only the name is known.
    pub fn placeholder(name: &str) -> Self {
        let stem = name.rsplit('/').next().unwrap_or(name);
        let id = if looks_like_id(stem) { stem } else { name };
        Self {
            kind: kind(name, id, None),
            id: id.to_owned(),
            title: stem.to_owned(),
            status: None,
            tags: Vec::new(),
            links: Vec::new(),
        }
    }
}

/// True if the text can be an id: one line, and not a path that climbs.
fn is_id(text: &str) -> bool {
    let climbs = || text.split('/').any(|part| matches!(part, "" | "." | ".."));
    !text.chars().any(char::is_control) && text.len() <= 1_000 && !climbs()
}

fn kind(name: &str, id: &str, given: Option<&str>) -> String {
    if let Some(given) = given.filter(|given| given.len() <= 40 && !given.contains('\n')) {
        return given.to_lowercase();
    }
    let prefix = id.split_once('-').map_or("", |(prefix, _)| prefix);
    let by_prefix = PREFIXES.iter().filter(|_| looks_like_id(id));
    let by_prefix = by_prefix.filter(|(known, _)| *known == prefix).map(|(_, kind)| *kind);
    let folder = name.split_once('/').map(|(folder, _)| folder);
    let by_folder = folder.map(|folder| {
        let known = FOLDERS.iter().find(|(known, _)| *known == folder);
        known.map_or(folder, |(_, kind)| *kind)
    });
    by_prefix.chain(by_folder).next().unwrap_or(DEFAULT_KIND).to_owned()
}

/// The title on one line.
fn title(given: Option<&str>, parts: DocumentParts<'_>, stem: &str) -> String {
    let title = given.or_else(|| sections::first_heading(parts.body)).unwrap_or(stem);
    if title.contains(char::is_control) { one_line(title) } else { title.to_owned() }
}

/// `tags` and `labels` of a front matter, each once.
pub(crate) fn tags(entries: &[YamlEntry]) -> Vec<String> {
    let mut tags: Vec<String> = Vec::new();
    for YamlEntry { key, node, .. } in entries {
        if key != "tags" && key != "labels" {
            continue;
        }
        // A scalar like `a, b` has several tags, an item of a list is one.
        let is_list = matches!(node.value, YamlValue::List(_));
        for text in node.items().iter().filter_map(yaml::YamlNode::text) {
            let parts: Vec<&str> = if is_list { vec![text] } else { text.split(',').collect() };
            for tag in parts.into_iter().map(str::trim) {
                if !tag.is_empty() && !tags.iter().any(|known| known == tag) {
                    tags.push(tag.to_owned());
                }
            }
        }
    }
    tags
}

fn looks_like_front_matter(text: &str) -> bool {
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    let (key, _) = lines.next().and_then(|line| line.split_once(':')).unwrap_or_default();
    let is_part = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    first.trim_end() == "---" && !key.is_empty() && key.bytes().all(is_part)
}

/// One outgoing relationship.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntityLink {
    /// The front matter key, or the `type` of a map-style item.
    pub relation: String,
    pub target: String,
    /// The target has the form of an id. Any other target is a link only if that entity exists.
    pub certain: bool,
}

/// Keys that never link.
const METADATA: [&str; 10] = [
    "id",
    "type",
    "title",
    "status",
    "date",
    "created_at",
    "updated_at",
    "created_by",
    "tags",
    "labels",
];

/// Maximum length of an id, in bytes.
const MAX_ID: usize = 200;

/// The links of a front matter, sorted by relation, each once.
fn links(entries: &[YamlEntry]) -> Vec<EntityLink> {
    let mut links: Vec<EntityLink> = Vec::new();
    let mut add = |relation: &str, target: Option<&str>| {
        let found = target.and_then(|target| link(relation, target));
        links.extend(found.filter(|link| !links.contains(link)));
    };
    for YamlEntry { key, node, .. } in entries {
        if METADATA.contains(&key.as_str()) {
            continue;
        }
        for item in node.items() {
            let target = yaml::find_key(item.entries(), "id");
            if target.is_some() {
                let relation =
                    yaml::find_key(item.entries(), "type").and_then(yaml::YamlNode::text);
                add(relation.unwrap_or(key), target.and_then(yaml::YamlNode::text));
                continue;
            }
            add(key, item.text());
            // `dec-1d2c8f: because of that`: ids with remarks.
            for entry in item.entries().iter().filter(|entry| looks_like_id(&entry.key)) {
                add(key, Some(&entry.key));
            }
        }
    }
    links.sort_by(|a, b| a.relation.cmp(&b.relation));
    links
}

fn link(relation: &str, target: &str) -> Option<EntityLink> {
    let certain = looks_like_id(target);
    (certain || might_be_id(target)).then(|| EntityLink {
        relation: relation.to_owned(),
        target: target.to_owned(),
        certain,
    })
}

/// `dec-1d2c8f` or `REQ-048`.
fn looks_like_id(text: &str) -> bool {
    let is_reference = |kind| Reference::read(kind, text) != ParsedReference::Malformed;
    names_entity(text) || ItemKind::ALL.into_iter().any(is_reference)
}

/// `dec-1d2c8f`: the id of an entity.
pub fn names_entity(text: &str) -> bool {
    let Some((prefix, rest)) = text.split_once('-') else { return false };
    PREFIXES.iter().any(|(known, _)| *known == prefix)
        && (4..=32).contains(&rest.len())
        && rest.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Custom ids, and paths of files without an id.
fn might_be_id(text: &str) -> bool {
    is_id(text)
        && text.len() <= MAX_ID
        && !text.contains(char::is_whitespace)
        && !text.contains("://")
        && text.contains(|c: char| c.is_alphabetic())
}

#[cfg(test)]
mod tests;
