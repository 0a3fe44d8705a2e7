//! Reads the values of link keys in front matter, as people and editors write them: lists, texts
//! with commas, links of Obsidian and of Markdown, file names, and references in any case.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::backlog::reference::{ParsedReference, Reference, looks_like_id, scan_mentions};
use crate::backlog::relation_words::known_relations;
use crate::diagnostic::Diagnostic;
use crate::knowledge::EntityLink;
use crate::name_form::compose;
use crate::records::fields::is_metadata_key;
use crate::records::kinds::{ItemKind, is_entity_id};
use crate::yaml::{self, YamlEntry, YamlNode, YamlValue, quote_excerpt};

/// The texts of a value that each name a target, and the list items that contain them. Texts are
/// split at commas if the key `is_relation`. A map without an id has an empty text.
pub(crate) fn link_texts(node: &YamlNode, is_relation: bool) -> Vec<(&YamlNode, &str)> {
    match &node.value {
        YamlValue::Null => Vec::new(),
        // Without quotes, `[[REQ-001]]` is a list in a list.
        YamlValue::List(items) => {
            items.iter().flat_map(|item| link_texts(item, is_relation)).collect()
        }
        YamlValue::Map(entries) => {
            // Also ids with remarks, such as `dec-1d2c8f: because of the deadline`.
            let keys = entries.iter().map(|entry| &*entry.key).filter(|key| looks_like_id(key));
            let id = yaml::find_key(entries, "id").and_then(YamlNode::text);
            let mut texts: Vec<&str> = id.map_or_else(|| keys.collect(), |id| vec![id]);
            if texts.is_empty() {
                texts.push("");
            }
            texts.into_iter().map(|text| (node, text)).collect()
        }
        YamlValue::Scalar(text) => {
            let parts = text.split(|c| is_relation && matches!(c, ',' | ';' | '\n'));
            parts.map(|part| (node, part.trim())).filter(|(_, part)| !part.is_empty()).collect()
        }
    }
}

/// The name in a link such as `[[name|Shown text]]`, `[Shown text](../name.md)` or `"name.md"`.
pub(crate) fn link_name(text: &str) -> &str {
    let mut name = text.trim_matches(['"', '\'', '`', '<', '>']);
    if let Some(inner) = name.strip_prefix("[[").and_then(|rest| rest.strip_suffix("]]")) {
        name = inner.split(['|', '#']).next().unwrap_or(inner).trim();
    } else if let Some((_, target)) = name.split_once("](") {
        name = target.split([')', '#']).next().unwrap_or(target);
    }
    while let Some(rest) = name.strip_prefix("./").or_else(|| name.strip_prefix("../")) {
        name = rest;
    }
    name.strip_suffix(".md").unwrap_or(name)
}

/// The reference that a text names, in any case, or by the name of the item's file.
pub(crate) fn link_reference(text: &str) -> Option<Reference> {
    let name = link_name(text);
    // Most values of other keys, and URLs.
    if !name.contains('-') || name.contains("://") {
        return None;
    }
    for kind in ItemKind::ALL {
        if let ParsedReference::Reference(reference) = Reference::parse_any_case(kind, name) {
            return Some(reference);
        }
    }
    // Another name is a file only in the form of a link.
    Reference::from_document_name(name).filter(|_| name.len() < text.len())
}

pub fn is_known_relation(relation: &str) -> bool {
    known_relations().any(|known| known == relation)
}

const MAX_TARGET_BYTES: usize = 200;
/// Bounds the metadata of generated files, which is in memory. Further links are ignored.
pub(crate) const MAX_LINKS: usize = 2_000;

/// The links of an entity, sorted by relation, without duplicates; at most one more than
/// [`MAX_LINKS`].
pub(crate) fn parse_links(entries: &[YamlEntry]) -> LinkList<'_> {
    let mut links = LinkList::default();
    for YamlEntry { key, node, .. } in entries {
        if is_metadata_key(key) {
            continue;
        }
        let is_relation = is_known_relation(key);
        for (item, text) in link_texts(node, is_relation) {
            // The type of an item such as `{id: bd-cccccc, type: blocks}`.
            let attribute = yaml::find_key(item.entries(), "type").and_then(YamlNode::text);
            let targets = parse_targets(text, is_relation);
            if targets.is_empty() && is_relation && !text.contains("://") {
                let text = quote_excerpt(text);
                let message = format!("{key}: {text} names nothing; write an ID like dec-1d2c8f");
                links.problem.get_or_insert(Diagnostic::new(item.position.line, message));
            }
            for (target, is_certain) in targets {
                links.push(key, attribute, target, is_certain);
            }
        }
    }
    // Stable: targets of a relation keep the order of the file.
    links.list.sort_by(|a, b| a.relation.cmp(&b.relation));
    links
}

/// The targets that a text names; true for one that is certainly a link.
pub(crate) fn parse_targets(text: &str, is_relation: bool) -> Vec<(Cow<'_, str>, bool)> {
    let name = link_name(text);
    let lower = name.to_ascii_lowercase();
    if looks_like_id(name) {
        vec![(Cow::Borrowed(name), true)]
    } else if let Some(reference) = link_reference(text) {
        vec![(Cow::Owned(reference.to_string()), true)]
    } else if is_entity_id(&lower) {
        vec![(Cow::Owned(lower), true)]
    } else if may_be_id(name) {
        // Text values such as `priority: high` may still be links to a file `high`.
        vec![(Cow::Borrowed(name), false)]
    } else if is_relation && !text.contains("://") {
        scan_mentions(text).map(|(_, mention)| (Cow::Owned(mention), true)).collect()
    } else {
        Vec::new()
    }
}

/// Links without duplicates.
#[derive(Default)]
pub(crate) struct LinkList<'a> {
    pub(crate) list: Vec<EntityLink>,
    /// Relation and target of each link, as a generated file may have thousands.
    known: HashSet<(&'a str, Cow<'a, str>)>,
    /// The first value of a known relation that names nothing.
    pub(crate) problem: Option<Diagnostic>,
}

impl<'a> LinkList<'a> {
    fn push(
        &mut self,
        relation: &'a str,
        attribute: Option<&str>,
        target: Cow<'a, str>,
        is_certain: bool,
    ) {
        let composed = compose(&target).into_owned();
        if self.list.len() <= MAX_LINKS && self.known.insert((relation, target)) {
            let attribute = attribute.filter(|attribute| *attribute != relation).map(Box::from);
            let (relation, target) = (relation.to_owned(), composed);
            self.list.push(EntityLink { relation, attribute, target, is_certain });
        }
    }
}

/// True for a text that may be a custom id, or the path of a file without an id.
fn may_be_id(text: &str) -> bool {
    is_valid_id(text)
        && text.len() <= MAX_TARGET_BYTES
        && !text.contains(char::is_whitespace)
        // URLs are not entities.
        && !text.contains("://")
        && text.contains(char::is_alphabetic)
}

/// True for a text on one line that is not a path with `.`, `..` or empty parts.
pub(crate) fn is_valid_id(text: &str) -> bool {
    text.len() <= 1_000
        && !text.contains(char::is_control)
        && !text.split('/').any(|part| matches!(part, "" | "." | ".."))
}
