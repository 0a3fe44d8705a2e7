//! The knowledge graph (S4): entities are markdown files below `.ixchel`, links are front matter.
//!
//! Everything is read tolerantly: a file without an id, or one whose front matter can't be read, is
//! an entity all the same. The trap: an entity's *id* comes from its front matter, its document's
//! *name* is its path below `.ixchel`; two files may claim one id.

mod graph;
mod inventory;
pub mod link;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

pub use graph::{Edge, Found, Graph, Node, Outgoing, one_hop, outgoing};
pub use inventory::{Inventory, Tag};
use link::Link;

use crate::fault::Fault;
use crate::front_matter::{self, Parts};
use crate::sections;
use crate::yaml::{self, Value};

/// Prefixes of ids, and the kind that each stands for.
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

/// Folders directly below `.ixchel`, and the kind of what lies in them.
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

/// The kind of an entity of which nothing tells it.
const NO_KIND: &str = "note";

/// What a list or a graph needs of an entity; it is kept in the document's head.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entity {
    /// From the front matter; without one the document's name.
    pub id: String,
    /// `decision`, `issue`, …; another word where the file says so.
    pub kind: String,
    pub title: String,
    pub status: Option<String>,
    /// `tags` and `labels`, each once.
    pub tags: Vec<String>,
    pub links: Vec<Link>,
}

impl Entity {
    /// Reads an entity from a file's name below `.ixchel` (without `.md`) and its text. A front
    /// matter that can't be read is a fault, and the entity is what its name and body tell.
    pub fn read(name: &str, text: &str) -> (Self, Option<Fault>) {
        let parts = front_matter::split(text);
        let (entries, fault, unread) = match front_matter::read(parts) {
            Ok(map) => {
                let fault = map.fault.map(|f| Fault { line: Some(f.line), reason: f.reason });
                (map.entries, fault, false)
            }
            Err(fault) => {
                let yaml::Fault { line, column, reason } = fault;
                let reason = format!("the front matter can't be read: {reason} (column {column})");
                (Vec::new(), Some(Fault { line: Some(line), reason }), true)
            }
        };
        // Of what can't be read as a whole, single lines still tell who it was.
        let by_line = |key: &str| front_matter::line_of(parts, key).filter(|_| unread);
        let unended = parts.yaml.is_none() && looks_like_front_matter(parts.body);
        let fault = fault.or_else(|| {
            let reason = "the front matter has no closing `---` line".to_owned();
            unended.then_some(Fault { line: Some(1), reason })
        });
        let value = |key: &str| entries.iter().find(|(name, _)| name == key).map(|(_, node)| node);
        let text_of = |key: &str| value(key).and_then(yaml::Node::text).or_else(|| by_line(key));
        let stem = name.rsplit('/').next().unwrap_or(name);
        let (id, wrong_id) = match text_of("id") {
            Some(id) if is_id(id) => (id.to_owned(), None),
            Some(id) => (name.to_owned(), Some(bad_id(value("id"), id))),
            // The name still tells which entity a broken file was.
            None if fault.is_some() && link::looks_like_id(stem) => (stem.to_owned(), None),
            None => (name.to_owned(), None),
        };
        let entity = Self {
            kind: kind(name, &id, text_of("type")),
            title: title(text_of("title"), parts, stem),
            status: text_of("status").map(str::to_owned),
            tags: tags(&entries),
            links: link::read(&entries),
            id,
        };
        (entity, fault.or(wrong_id))
    }

    /// An entity of which only the name is known.
    pub fn unread(name: &str) -> Self {
        let stem = name.rsplit('/').next().unwrap_or(name);
        let id = if link::looks_like_id(stem) { stem } else { name };
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

/// A text's body: what stands behind the front matter, without blank lines around it.
pub fn body(text: &str) -> &str {
    front_matter::split(text).body.trim_matches(['\r', '\n'])
}

/// Can this be an id at all? It may be typed into a call and printed on a line.
fn is_id(text: &str) -> bool {
    let climbs = || text.split('/').any(|part| matches!(part, "" | "." | ".."));
    !text.chars().any(char::is_control) && text.len() <= 1_000 && !climbs()
}

fn bad_id(node: Option<&yaml::Node>, id: &str) -> Fault {
    let shown: String = id.chars().take(60).collect();
    let reason = format!("the id {shown:?} can't be used; write one like dec-1d2c8f");
    Fault { line: node.map(|node| node.line + 1), reason }
}

fn kind(name: &str, id: &str, given: Option<&str>) -> String {
    if let Some(given) = given.filter(|given| given.len() <= 40 && !given.contains('\n')) {
        return given.to_lowercase();
    }
    let prefix = id.split_once('-').map_or("", |(prefix, _)| prefix);
    let by_prefix = PREFIXES.iter().filter(|_| link::looks_like_id(id));
    let by_prefix = by_prefix.filter(|(known, _)| *known == prefix).map(|(_, kind)| *kind);
    let folder = name.split_once('/').map(|(folder, _)| folder);
    let by_folder = folder.map(|folder| {
        let known = FOLDERS.iter().find(|(known, _)| *known == folder);
        known.map_or(folder, |(_, kind)| *kind)
    });
    by_prefix.chain(by_folder).next().unwrap_or(NO_KIND).to_owned()
}

/// On one line, whatever was written.
fn title(given: Option<&str>, parts: Parts<'_>, stem: &str) -> String {
    let title = given.or_else(|| sections::title(parts.body)).unwrap_or(stem);
    let words: Cow<'_, str> = if title.contains(char::is_control) {
        title.split_whitespace().collect::<Vec<_>>().join(" ").into()
    } else {
        title.into()
    };
    words.into_owned()
}

/// `tags` and `labels` of a front matter, each once.
pub(crate) fn tags(entries: &[(String, yaml::Node)]) -> Vec<String> {
    let mut tags: Vec<String> = Vec::new();
    for (_, node) in entries.iter().filter(|(key, _)| key == "tags" || key == "labels") {
        let listed = matches!(node.value, Value::List(_));
        for item in node.items().iter().filter_map(yaml::Node::text) {
            // `tags: a, b` is what people write who know no lists.
            let parts = item.split(',').filter(|_| !listed);
            let whole = std::iter::once(item).filter(|_| listed);
            for tag in parts.chain(whole).map(str::trim).filter(|tag| !tag.is_empty()) {
                if !tags.iter().any(|known| known == tag) {
                    tags.push(tag.to_owned());
                }
            }
        }
    }
    tags
}

/// Did somebody begin front matter and not end it?
fn looks_like_front_matter(text: &str) -> bool {
    let mut lines = text.lines();
    lines.next().is_some_and(|line| line.trim_end() == "---")
        && lines.next().is_some_and(|line| {
            line.split_once(':').is_some_and(|(key, _)| {
                !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            })
        })
}

#[cfg(test)]
mod tests;
