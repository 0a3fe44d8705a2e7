//! Edits the relationships and file suffixes of items, and links that follow a renumbered item.

use std::collections::BTreeSet;

use super::edit::{KeyEdits, LinkTarget, RecordEdit, RecordFile, last_keys};
use super::kinds::ItemKind;
use crate::backlog::fields::RelationshipType;
use crate::backlog::reference::Reference;
use crate::backlog::{ItemMeta, Relationship};
use crate::front_matter::{self, FieldValue, KeyEdit};
use crate::link_values::{link_reference, link_texts};

/// Redirects an item's links from a document to its new reference or suffix. `None` if the item
/// does not link to the document.
pub fn replace_links(
    item: &ItemMeta,
    text: &str,
    from: &LinkTarget,
    to: &LinkTarget,
) -> Result<Option<String>, String> {
    // Another document with the same reference is not renumbered.
    if suffix_of(&item.link_suffixes, from.reference) != from.file_suffix.as_deref() {
        return Ok(None);
    }
    let mut edit = RecordEdit::default();
    let mut edits = KeyEdits::default();
    if item.parent == Some(from.reference) {
        edit.parent = Some(to.clone());
        // If only the suffix changes, the key keeps its spelling.
        if to.reference != from.reference {
            edits.set_text(to.reference.kind.name(), Some(&to.reference.to_string()));
        }
    }
    let mut relationships = item.relationships.clone();
    for relationship in &mut relationships {
        if relationship.target == from.reference {
            relationship.target = to.reference;
            edit.new_targets = vec![to.clone()];
        }
    }
    if !edit.new_targets.is_empty() {
        edit.relationships = Some(relationships);
    }
    let renumbered = Some((from.reference, to.reference));
    edit_links(item, &RecordFile::parse(item.kind.row(), text), &edit, renumbered, &mut edits);
    if edits.0.is_empty() {
        return Ok(None);
    }
    front_matter::edit(text, &edits.0, &last_keys(item.kind.row())).map(Some)
}

/// Edits the keys of relationships and file suffixes. `renumbered` is a target's old and new
/// reference.
pub(super) fn edit_links(
    item: &ItemMeta,
    file: &RecordFile,
    edit: &RecordEdit,
    renumbered: Option<(Reference, Reference)>,
    edits: &mut KeyEdits<'_>,
) {
    let relationships = edit.relationships.as_deref().unwrap_or(&item.relationships);
    for kind in RelationshipType::ALL {
        let new = targets_of(relationships, kind);
        // Compares sets, so that a hand-written order is not a change.
        if new != targets_of(&item.relationships, kind) {
            let key = (kind, item.kind);
            edits.set_list(kind.name(), file.relationship_targets(key, &new, renumbered));
        }
    }
    let parent = edit.parent.as_ref().map(|parent| parent.reference).or(item.parent);
    let mut linked = item.link_suffixes.clone();
    for target in edit.parent.iter().chain(&edit.new_targets) {
        if suffix_of(&linked, target.reference) != target.file_suffix.as_deref() {
            linked.retain(|(reference, _)| *reference != target.reference);
            if let Some(suffix) = &target.file_suffix {
                linked.push((target.reference, suffix.clone()));
            }
        }
    }
    // A suffix without a link would be stale after the next renumbering.
    linked.retain(|(reference, _)| {
        Some(*reference) == parent || relationships.iter().any(|to| to.target == *reference)
    });
    if linked != item.link_suffixes {
        let value = if linked.is_empty() { None } else { Some(suffix_map(&linked)) };
        edits.0.push(KeyEdit { key: "linked", value });
    }
}

fn targets_of(relationships: &[Relationship], kind: RelationshipType) -> BTreeSet<Reference> {
    relationships.iter().filter(|to| to.kind == kind).map(|to| to.target).collect()
}

fn suffix_of(linked: &[(Reference, String)], target: Reference) -> Option<&str> {
    let (_, suffix) = linked.iter().find(|(reference, _)| *reference == target)?;
    Some(suffix)
}

pub(super) fn suffix_map(linked: &[(Reference, String)]) -> FieldValue {
    FieldValue::Map(linked.iter().map(|(to, suffix)| (to.to_string(), suffix.clone())).collect())
}

impl RecordFile {
    /// The new list of a relationship's key. Existing targets keep their spelling and order.
    /// Invalid references stay, because only the author can correct them. `item` is the kind of
    /// both ends.
    fn relationship_targets(
        &self,
        (kind, item): (RelationshipType, ItemKind),
        new: &BTreeSet<Reference>,
        renumbered: Option<(Reference, Reference)>,
    ) -> Vec<String> {
        let mut listed = Vec::new();
        let mut texts = Vec::new();
        let items =
            self.find_key(kind.name()).map(|node| link_texts(node, true)).unwrap_or_default();
        for (_, text) in items {
            let target = match link_reference(text) {
                _ if text.is_empty() => continue,
                Some(target) if target.kind == item => target,
                _ => {
                    texts.push(text.to_owned());
                    continue;
                }
            };
            let (target, spelling) = match renumbered {
                Some((from, to)) if from == target => (to, to.to_string()),
                _ => (target, text.to_owned()),
            };
            if new.contains(&target) && !listed.contains(&target) {
                texts.push(spelling);
                listed.push(target);
            }
        }
        for target in new {
            if !listed.contains(target) {
                texts.push(target.to_string());
            }
        }
        texts
    }
}
