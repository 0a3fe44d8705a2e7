//! Edits links in front matter: ids under a key, or maps such as `{id: bd-cccccc, type: blocks}`.

use std::borrow::Cow;

use super::edit::RelationTargets;
use crate::backlog::reference::Reference;
use crate::front_matter::{FieldValue, KeyEdit};
use crate::link_values::{is_known_relation, link_texts, parse_targets};
use crate::name_form::fold_name;
use crate::yaml::{self, YamlEntry, YamlNode, YamlValue};

enum LinkItem<'a> {
    /// A target of the relation that the key names, with its spelling.
    Id { target: Cow<'a, str>, text: Cow<'a, str> },
    /// A map with `id` and `type`, or of an id and a remark.
    Map { target: Cow<'a, str>, node: &'a YamlNode },
    /// Any other value, which an edit must not lose.
    Other,
}

impl<'a> LinkItem<'a> {
    fn parse(node: &'a YamlNode, text: &'a str, is_relation: bool) -> Vec<Self> {
        let targets = parse_targets(text, is_relation);
        let has_id = yaml::find_key(node.entries(), "id").is_some();
        // A text under another key may be a remark, and a map may have several ids.
        if targets.is_empty() || (node.entries().len() > 1 && !has_id) {
            return vec![Self::Other];
        }
        let is_only = targets.len() == 1;
        let mut items = Vec::new();
        for (target, _) in targets {
            items.push(if matches!(node.value, YamlValue::Map(_)) {
                Self::Map { target, node }
            } else {
                let text = if is_only { Cow::Borrowed(text) } else { target.clone() };
                Self::Id { target, text }
            });
        }
        items
    }

    /// `None` if it is not a link.
    fn target(&self) -> Option<&str> {
        match self {
            Self::Id { target, .. } | Self::Map { target, .. } => Some(target),
            Self::Other => None,
        }
    }

    /// The value in the file; `None` if it is not a text or a map of texts.
    fn value(&self) -> Option<FieldValue> {
        match self {
            Self::Id { text, .. } => Some(FieldValue::from(&**text)),
            Self::Map { node, .. } => {
                let mut pairs = Vec::new();
                for YamlEntry { key, node, .. } in node.entries() {
                    pairs.push((key.clone(), node.text()?.to_owned()));
                }
                Some(FieldValue::Map(pairs))
            }
            Self::Other => None,
        }
    }
}

/// Returns the edits that set the targets of relations in a file. Targets that the file already
/// has keep their position and spelling. Fails if an edit would lose a value that is not a link.
pub(super) fn link_edits<'a>(
    entries: &'a [YamlEntry],
    links: &'a [RelationTargets],
) -> Result<Vec<KeyEdit<'a>>, String> {
    let mut edits = Vec::new();
    for RelationTargets { relation: key, targets } in links {
        let node = yaml::find_key(entries, key);
        let Some(items) = changed_items(key, node, targets) else { continue };
        let mut values = Vec::new();
        for item in items {
            let Some(value) = item.value() else {
                let problem = "its value is not a list of IDs; edit the file by hand";
                return Err(format!("{key}: {problem}"));
            };
            values.push(value);
        }
        let is_scalar = node.is_some_and(|node| node.text().is_some());
        edits.push(KeyEdit { key, value: list_value(values, is_scalar) });
    }
    Ok(edits)
}

/// The new items of a relation; `None` if they do not change.
fn changed_items<'a>(
    relation: &str,
    node: Option<&'a YamlNode>,
    targets: &'a [String],
) -> Option<Vec<LinkItem<'a>>> {
    let mut present: Vec<String> = Vec::new();
    let is_relation = is_known_relation(relation);
    let texts = node.map(|node| link_texts(node, is_relation)).unwrap_or_default();
    let mut items: Vec<LinkItem<'a>> = Vec::new();
    for (node, text) in texts {
        items.extend(LinkItem::parse(node, text, is_relation));
    }
    let before = items.len();
    items.retain(|item| {
        // Another value stays, so that the edit fails instead of losing it.
        let Some(target) = item.target() else { return true };
        let is_kept = contains_target(targets, target) && !contains_target(&present, target);
        if is_kept {
            present.push(target.to_owned());
        }
        is_kept
    });
    let mut is_changed = items.len() != before;
    for target in targets {
        if !contains_target(&present, target) {
            present.push(target.clone());
            let target = Cow::Borrowed(target.as_str());
            items.push(LinkItem::Id { text: target.clone(), target });
            is_changed = true;
        }
    }
    is_changed.then_some(items)
}

/// Texts become a plain list, whose lines and comments an edit keeps.
fn list_value(mut values: Vec<FieldValue>, is_scalar: bool) -> Option<FieldValue> {
    // One value under a scalar key stays a scalar, so that the edit changes one line.
    if values.len() <= usize::from(is_scalar) {
        return values.pop();
    }
    let mut texts = Vec::new();
    for value in &values {
        if let FieldValue::Text(text) = value {
            texts.push(text.clone());
        }
    }
    let is_plain = texts.len() == values.len();
    Some(if is_plain { FieldValue::List(texts) } else { FieldValue::Items(values) })
}

pub(super) fn contains_target(targets: &[impl AsRef<str>], target: &str) -> bool {
    targets.iter().any(|other| is_same_target(other.as_ref(), target))
}

/// True for two spellings of one target, such as `REQ-7` and `REQ-007`.
fn is_same_target(a: &str, b: &str) -> bool {
    let reference = Reference::parse(a);
    fold_name(a) == fold_name(b) || (reference.is_some() && reference == Reference::parse(b))
}
