//! Reads the values of link keys in front matter, as people and editors write them: lists, texts
//! with commas, links of Obsidian and of Markdown, file names, and references in any case.

use crate::backlog::reference::{ParsedReference, Reference};
use crate::backlog::{ItemKind, known_relations};
use crate::knowledge::looks_like_id;
use crate::yaml::{self, YamlNode, YamlValue};

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
