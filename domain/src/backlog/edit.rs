//! Renders items as files: new items, edits, tombstones, and links that follow a renumbered item.
//!
//! An edit changes only the given keys and `updated_at`. Setting the default of a missing key
//! changes nothing. The first edit also adds `created_at`, because the modification time is lost.

use std::collections::BTreeSet;

use super::fields::find_by_name;
use super::{
    ItemKind, ItemMeta, Priority, Reference, Relationship, RelationshipType, RequirementType,
    Status,
};
use crate::bounded_types::one_line;
use crate::front_matter::{self, FieldValue, KeyEdit};
use crate::knowledge::{tag_edits, unique_tags};
use crate::link_values::{link_reference, link_texts};
use crate::timestamp::Timestamp;
use crate::yaml::{self, YamlEntry, YamlNode};

/// The target of a link as stored in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkTarget {
    pub reference: Reference,
    /// The suffix of the document name: `3f9a1c` in `REQ-001-login-3f9a1c`, `None` in `REQ-500`.
    pub file_suffix: Option<String>,
}

/// Keys at the end of the front matter. A new key of any other name is inserted before them.
const LAST_KEYS: [&str; 7] = [
    "creator_username",
    "created_at",
    "updated_at",
    "uid",
    "linked",
    "deleted_at",
    "deleted_username",
];

/// A new item.
#[derive(Debug, Clone)]
pub struct NewItem<'a> {
    pub kind: ItemKind,
    pub uid: &'a str,
    /// `None` for acceptance criteria.
    pub title: Option<&'a str>,
    pub description: &'a str,
    /// `None` for the kind's default.
    pub status: Option<Status>,
    /// `None` for the default.
    pub priority: Option<Priority>,
    /// `None` for the default.
    pub requirement_type: Option<RequirementType>,
    pub parent: Option<&'a LinkTarget>,
    pub assignee: Option<&'a str>,
    pub tags: &'a [String],
    pub creator: &'a str,
    pub created_at: Timestamp,
}

impl NewItem<'_> {
    /// Renders the item's file.
    pub fn text(&self) -> Result<String, String> {
        let kind = self.kind;
        let mut edits = KeyEdits::default();
        edits.set_text("title", self.title.map(one_line).as_deref());
        // Keys with the value of a missing key are left out, so that new files stay short.
        let status = self.status.filter(|status| kind.statuses().first() != Some(status));
        edits.set_text("status", status.as_ref().map(Status::name));
        if let Some(priority) = self.priority.filter(|priority| *priority != Priority::DEFAULT) {
            edits.set("priority", priority_value(priority));
        }
        let given_type = self.requirement_type.filter(|given| *given != RequirementType::DEFAULT);
        edits.set_text("type_name", given_type.map(RequirementType::name));
        if let Some(parent) = self.parent {
            edits.set_text(parent.reference.kind.name(), Some(&parent.reference.to_string()));
        }
        edits.set_text("assignee_username", self.assignee.filter(|name| !name.is_empty()));
        let tags = unique_tags(self.tags);
        if !tags.is_empty() {
            edits.set("tags", FieldValue::List(tags));
        }
        edits.set_text("creator_username", Some(self.creator));
        edits.set("created_at", FieldValue::Time(self.created_at));
        // The uid identifies the item after a rename of its file.
        edits.set_text("uid", Some(self.uid));
        if let Some(LinkTarget { reference, file_suffix: Some(suffix) }) = self.parent {
            edits.set("linked", suffix_map(&[(*reference, suffix.clone())]));
        }
        let front_matter = front_matter::edit("", &edits.0, &LAST_KEYS)?;
        Ok(front_matter::with_body(&front_matter, self.description))
    }
}

/// New values of an item; `None` keeps the current value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ItemEdit {
    pub title: Option<String>,
    pub description: Option<String>,
    pub status: Option<Status>,
    pub priority: Option<Priority>,
    pub requirement_type: Option<RequirementType>,
    pub parent: Option<LinkTarget>,
    /// `Some(None)` removes the assignee.
    pub assignee: Option<Option<String>>,
    pub tags: Option<Vec<String>>,
    /// Replaces all outgoing relationships.
    pub relationships: Option<Vec<Relationship>>,
    /// The documents of targets that `relationships` adds.
    pub new_targets: Vec<LinkTarget>,
}

/// Applies an edit to an item's file and sets `updated_at`. `None` if nothing changes.
pub fn edit_item(
    item: &ItemMeta,
    text: &str,
    edit: &ItemEdit,
    at: Timestamp,
) -> Result<Option<String>, String> {
    let file = ItemFile::parse(text);
    // Collects all edits first: an edit without effect must not touch the file.
    let mut edits = file.edit_fields(item, edit);
    let changes_links =
        edit.parent.is_some() || edit.relationships.is_some() || !edit.new_targets.is_empty();
    if changes_links {
        edit_links(item, &file, edit, None, &mut edits);
    }
    let mut description = edit.description.as_deref().map(|text| text.trim_matches(['\r', '\n']));
    description = description.filter(|description| !front_matter::has_body(text, description));
    if edits.0.is_empty() && description.is_none() {
        return Ok(None);
    }
    if !changes_links {
        // Removes suffixes of links that were removed by hand.
        edit_links(item, &file, edit, None, &mut edits);
    }
    if file.find_key("created_at").and_then(YamlNode::text).is_none() {
        edits.set("created_at", FieldValue::Time(item.created_at));
    }
    // Last, because the time alone is not a change.
    edits.set("updated_at", FieldValue::Time(at));
    let edited = front_matter::edit(text, &edits.0, &LAST_KEYS)?;
    match description {
        Some(description) => Ok(Some(front_matter::with_body(&edited, description))),
        None => Ok(Some(edited)),
    }
}

/// Renders the tombstone of an item: its text with time and user of the deletion. Front matter that
/// cannot be edited becomes part of the body, below new front matter.
pub fn tombstone_text(item: &ItemMeta, text: &str, at: Timestamp, by: &str) -> String {
    let mut deletion = KeyEdits::default();
    deletion.set("deleted_at", FieldValue::Time(at));
    deletion.set_text("deleted_username", Some(by));
    // A deletion must not fail because a file has invalid front matter.
    if let Ok(edited) = front_matter::edit(text, &deletion.0, &LAST_KEYS) {
        return edited;
    }
    let mut edits = KeyEdits::default();
    if item.kind != ItemKind::AcceptanceCriteria {
        edits.set_text("title", Some(&item.title));
    }
    edits.set_text("uid", item.uid.as_deref());
    // The old front matter is now text, so the new one needs all keys of a tombstone.
    edits.0.extend(deletion.0);
    format!("{}\n{text}", front_matter::render_front_matter(&edits.0))
}

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
    let mut edit = ItemEdit::default();
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
    edit_links(item, &ItemFile::parse(text), &edit, renumbered, &mut edits);
    if edits.0.is_empty() {
        return Ok(None);
    }
    front_matter::edit(text, &edits.0, &LAST_KEYS).map(Some)
}

/// Edits the keys of relationships and file suffixes. `renumbered` is a target's old and new
/// reference.
fn edit_links(
    item: &ItemMeta,
    file: &ItemFile,
    edit: &ItemEdit,
    renumbered: Option<(Reference, Reference)>,
    edits: &mut KeyEdits,
) {
    let relationships = edit.relationships.as_deref().unwrap_or(&item.relationships);
    for kind in RelationshipType::ALL {
        let new = targets_of(relationships, kind);
        // Compares sets, so that a hand-written order is not a change.
        if new != targets_of(&item.relationships, kind) {
            edits.set_list(kind.name(), file.relationship_targets(kind, &new, renumbered));
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

fn suffix_map(linked: &[(Reference, String)]) -> FieldValue {
    FieldValue::Map(linked.iter().map(|(to, suffix)| (to.to_string(), suffix.clone())).collect())
}

fn priority_value(priority: Priority) -> FieldValue {
    FieldValue::Number(priority.number().into())
}

#[derive(Default)]
struct KeyEdits(Vec<KeyEdit<'static>>);

impl KeyEdits {
    fn set(&mut self, key: &'static str, value: FieldValue) {
        self.0.push(KeyEdit { key, value: Some(value) });
    }

    /// `None` leaves the key unchanged.
    fn set_text(&mut self, key: &'static str, text: Option<&str>) {
        if let Some(text) = text {
            self.set(key, FieldValue::from(text));
        }
    }

    /// An empty list removes the key.
    fn set_list(&mut self, key: &'static str, texts: Vec<String>) {
        let value = if texts.is_empty() { None } else { Some(FieldValue::List(texts)) };
        self.0.push(KeyEdit { key, value });
    }
}

/// The front matter of an item's file, without default values.
struct ItemFile(Vec<YamlEntry>);

impl ItemFile {
    /// Invalid front matter has no keys; [`front_matter::edit`] will reject its edit.
    fn parse(text: &str) -> Self {
        let front_matter = front_matter::parse(front_matter::split(text));
        Self(front_matter.map(|front_matter| front_matter.entries).unwrap_or_default())
    }

    /// Returns the edits of all keys except links.
    fn edit_fields(&self, item: &ItemMeta, edit: &ItemEdit) -> KeyEdits {
        let mut edits = KeyEdits::default();
        // As `parse_title` reads it, so that an equal title is not a change.
        let title = edit.title.as_deref().map(one_line);
        // Writing a title of which YAML reads only a part corrects it.
        let written = self.find_key("title").is_none_or(|node| node.text() == Some(&item.title));
        let title = title.filter(|title| !written || *title != item.title);
        edits.set_text("title", title.as_deref());
        let status = self.changed_value("status", Status::parse, item.status, edit.status);
        edits.set_text("status", status.as_ref().map(Status::name));
        let priority =
            self.changed_value("priority", Priority::parse, item.priority, edit.priority);
        if let Some(priority) = priority {
            edits.set("priority", priority_value(priority));
        }
        let requirement_type = self.changed_value(
            "type_name",
            |text| find_by_name(&RequirementType::ALL, |one| one.name(), text),
            item.requirement_type,
            edit.requirement_type,
        );
        edits.set_text("type_name", requirement_type.map(RequirementType::name));
        if let Some(parent) = &edit.parent
            && item.parent != Some(parent.reference)
        {
            edits.set_text(parent.reference.kind.name(), Some(&parent.reference.to_string()));
        }
        if let Some(assignee) = &edit.assignee {
            let assignee = assignee.as_deref().map(str::trim).filter(|name| !name.is_empty());
            if assignee != item.assignee.as_deref() {
                let value = assignee.map(FieldValue::from);
                edits.0.push(KeyEdit { key: "assignee_username", value });
            }
        }
        if let Some(tags) = &edit.tags {
            let tags = unique_tags(tags);
            if tags != item.tags {
                edits.0.extend(tag_edits(&self.0, tags));
            }
        }
        edits
    }

    fn find_key(&self, key: &str) -> Option<&YamlNode> {
        yaml::find_key(&self.0, key)
    }

    /// Returns `new` unless the file has this value. `default` is the value of a missing key.
    fn changed_value<T: PartialEq>(
        &self,
        key: &str,
        parse: impl Fn(&str) -> Option<T>,
        default: Option<T>,
        new: Option<T>,
    ) -> Option<T> {
        // An invalid value also reads as the default, but the file does not have it.
        let old = match self.find_key(key).and_then(YamlNode::text) {
            // The file's own spelling is compared by value: `high` equals 2.
            Some(text) => parse(text),
            None => default,
        };
        new.filter(|new| old.as_ref() != Some(new))
    }

    /// The new list of a relationship's key. Existing targets keep their spelling and order.
    /// Invalid references stay, because only the author can correct them.
    fn relationship_targets(
        &self,
        kind: RelationshipType,
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
                Some(target) if target.kind == ItemKind::Requirement => target,
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
