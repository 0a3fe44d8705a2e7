//! Edits links in front matter: ids under a key, or maps such as `{id: bd-cccccc, type: blocks}`.

use super::edit::contains_target;
use super::{looks_like_id, may_be_id};
use crate::front_matter::{FieldValue, KeyEdit};
use crate::yaml::{self, YamlEntry, YamlNode, YamlValue};

/// The keys of a file whose links change.
pub(super) struct LinkEdits<'a> {
    entries: &'a [YamlEntry],
    /// The new items of each changed key.
    changed: Vec<(&'a str, Vec<LinkItem<'a>>)>,
}

enum LinkItem<'a> {
    /// A target of the relation that the key names.
    Id(&'a str),
    /// A map with `id`, and `type` as an attribute.
    Map(&'a YamlNode),
    /// A map of an id and a remark.
    Remark(&'a YamlNode),
    /// Any other value, which an edit must not lose.
    Other,
}

impl<'a> LinkItem<'a> {
    fn parse(node: &'a YamlNode) -> Option<Self> {
        match (node.text(), &node.value) {
            (Some(text), _) if looks_like_id(text) || may_be_id(text) => Some(Self::Id(text)),
            // A text under another key may be a remark, which an edit of links must keep.
            (Some(_), _) => Some(Self::Other),
            (None, YamlValue::Null | YamlValue::Scalar(_)) => None,
            (None, _) if map_text(node, "id").is_some() => Some(Self::Map(node)),
            (None, _) => match node.entries() {
                [entry] if looks_like_id(&entry.key) => Some(Self::Remark(node)),
                _ => Some(Self::Other),
            },
        }
    }

    /// `None` if it is not a link.
    fn target(&self) -> Option<&'a str> {
        match self {
            Self::Id(target) => Some(target),
            Self::Map(node) => map_text(node, "id"),
            Self::Remark(node) => Some(&node.entries().first()?.key),
            Self::Other => None,
        }
    }

    /// The value in the file; `None` if it is not a text or a map of texts.
    fn value(&self) -> Option<FieldValue> {
        match self {
            Self::Id(target) => Some(FieldValue::from(*target)),
            Self::Map(node) | Self::Remark(node) => {
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

fn map_text<'a>(node: &'a YamlNode, key: &str) -> Option<&'a str> {
    yaml::find_key(node.entries(), key).and_then(YamlNode::text)
}

impl<'a> LinkEdits<'a> {
    pub(super) fn new(entries: &'a [YamlEntry]) -> Self {
        Self { entries, changed: Vec::new() }
    }

    /// Gives a relation these targets. A target that the file has keeps its place and spelling.
    pub(super) fn set_targets(&mut self, relation: &'a str, targets: &'a [String]) {
        let mut present: Vec<&str> = Vec::new();
        let items = yaml::find_key(self.entries, relation).map(YamlNode::items).unwrap_or_default();
        let mut items: Vec<LinkItem<'a>> = items.iter().filter_map(LinkItem::parse).collect();
        let before = items.len();
        items.retain(|item| {
            // Another value stays, so that the edit fails instead of losing it.
            let Some(target) = item.target() else { return true };
            let is_kept = contains_target(targets, target) && !contains_target(&present, target);
            if is_kept {
                present.push(target);
            }
            is_kept
        });
        let mut is_changed = items.len() != before;
        for target in targets {
            if !contains_target(&present, target) {
                present.push(target);
                items.push(LinkItem::Id(target));
                is_changed = true;
            }
        }
        if is_changed {
            self.changed.push((relation, items));
        }
    }

    /// The edits of all changed keys. Fails if an edit would lose a value that is not a link.
    pub(super) fn key_edits(&self) -> Result<Vec<KeyEdit<'a>>, String> {
        let mut edits = Vec::new();
        for (key, items) in &self.changed {
            let mut values = Vec::new();
            for item in items {
                let Some(value) = item.value() else {
                    let problem = "its value is not a list of IDs; edit the file by hand";
                    return Err(format!("{key}: {problem}"));
                };
                values.push(value);
            }
            let node = yaml::find_key(self.entries, key);
            let is_scalar = node.is_some_and(|node| node.text().is_some());
            edits.push(KeyEdit { key, value: list_value(values, is_scalar) });
        }
        Ok(edits)
    }
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
