//! Links between entities: front matter keys whose values are ids.

use serde::{Deserialize, Serialize};

use super::{PREFIXES, is_id};
use crate::yaml::{Node, Value};

/// One outgoing relationship.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// The front matter key, or the `type` of a map-style item.
    pub relation: String,
    pub target: String,
    /// Does the target have the form of an id? What only might be one is a link when there is an
    /// entity of that name.
    pub certain: bool,
}

/// Keys that say something about the entity itself and never link.
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

/// The longest value that is taken for an id, in bytes.
const MAX_ID: usize = 200;

/// The links of a front matter, sorted by relation, each once.
pub(super) fn read(entries: &[(String, Node)]) -> Vec<Link> {
    let mut links: Vec<Link> = Vec::new();
    for (key, node) in entries {
        if METADATA.contains(&key.as_str()) {
            continue;
        }
        for item in node.items() {
            let link = match &item.value {
                Value::Scalar(_) => item.text().and_then(|target| link(key, target)),
                Value::Map(_) if item.get("id").is_some() => {
                    let relation = item.get("type").and_then(Node::text).unwrap_or(key);
                    item.get("id").and_then(Node::text).and_then(|target| link(relation, target))
                }
                // `dec-1d2c8f: because of that`: ids with remarks.
                Value::Map(entries) => {
                    let ids = entries.iter().map(|(id, _)| id).filter(|id| looks_like_id(id));
                    for found in ids.filter_map(|id| link(key, id)) {
                        if !links.contains(&found) {
                            links.push(found);
                        }
                    }
                    None
                }
                Value::List(_) | Value::Null => None,
            };
            links.extend(link.filter(|link| !links.contains(link)));
        }
    }
    links.sort_by(|a, b| a.relation.cmp(&b.relation));
    links
}

fn link(relation: &str, target: &str) -> Option<Link> {
    let certain = looks_like_id(target);
    (certain || might_be_id(target)).then(|| Link {
        relation: relation.to_owned(),
        target: target.to_owned(),
        certain,
    })
}

/// `dec-1d2c8f`, `REQ-048`: nothing else looks like that.
pub fn looks_like_id(text: &str) -> bool {
    names_entity(text) || names_backlog_item(text)
}

/// `dec-1d2c8f`: the id of an entity.
pub fn names_entity(text: &str) -> bool {
    let Some((prefix, rest)) = text.split_once('-') else { return false };
    PREFIXES.iter().any(|(known, _)| *known == prefix)
        && (4..=32).contains(&rest.len())
        && rest.bytes().all(|b| b.is_ascii_hexdigit())
}

/// `REQ-048`: an item of the backlog, which is kept elsewhere.
fn names_backlog_item(text: &str) -> bool {
    let Some((prefix, rest)) = text.split_once('-') else { return false };
    ["EP", "US", "REQ", "AC"].contains(&prefix)
        && (1..=10).contains(&rest.len())
        && rest.bytes().all(|b| b.is_ascii_digit())
}

/// Ids of people's own making, and the paths of files without one.
fn might_be_id(text: &str) -> bool {
    is_id(text)
        && text.len() <= MAX_ID
        && !text.contains(char::is_whitespace)
        && !text.contains("://")
        && text.contains(|c: char| c.is_alphabetic())
}
