//! Writes items to files: new items, edits, tombstones, links that follow a renumbering.
//!
//! An edit changes only the given keys and `updated_at`. A missing `status` reads as the default,
//! so setting the default changes nothing. The first edit adds `created_at`, which would be lost.

use std::collections::BTreeSet;

use super::fields::by_name;
use super::{
    ItemKind, ItemMeta, Priority, Reference, Relationship, RelationshipType, RequirementType,
    Status,
};
use crate::bounded_types::one_line;
use crate::front_matter::{self, FieldValue, KeyEdit};
use crate::timestamp::Timestamp;
use crate::yaml::{self, YamlEntry, YamlNode};

/// A link's target as a file names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkTarget {
    pub reference: Reference,
    /// The suffix of the document's name, `3f9a1c` in `REQ-001-3f9a1c`. `None` for `REQ-500`.
    pub mark: Option<String>,
}

/// Keys that come last.
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
    /// Criteria have none.
    pub title: Option<&'a str>,
    pub description: &'a str,
    /// `None` is the default of a new item, as with the next two.
    pub status: Option<Status>,
    pub priority: Option<Priority>,
    pub requirement_type: Option<RequirementType>,
    pub parent: Option<&'a LinkTarget>,
    pub assignee: Option<&'a str>,
    pub tags: &'a [String],
    pub creator: &'a str,
    pub at: Timestamp,
}

impl NewItem<'_> {
    /// The text of its file.
    pub fn text(&self) -> Result<String, String> {
        let kind = self.kind;
        let mut sets = KeyEdits::default();
        sets.text("title", self.title.map(one_line).as_deref());
        let status = self.status.or_else(|| kind.statuses().first().copied());
        sets.text("status", status.filter(|_| !kind.statuses().is_empty()).map(Status::name));
        if kind.has_priority() {
            sets.add("priority", number(self.priority.unwrap_or(Priority::DEFAULT)));
        }
        if kind == ItemKind::Requirement {
            let of = self.requirement_type.unwrap_or(RequirementType::Functional);
            sets.text("type_name", Some(of.name()));
        }
        if let Some(parent) = self.parent {
            sets.text(parent.reference.kind.name(), Some(&parent.reference.to_string()));
        }
        sets.text("assignee_username", self.assignee.filter(|name| !name.is_empty()));
        let tags = each_once(self.tags);
        if !tags.is_empty() {
            sets.add("tags", FieldValue::List(tags));
        }
        sets.text("creator_username", Some(self.creator));
        sets.add("created_at", FieldValue::Time(self.at));
        sets.add("updated_at", FieldValue::Time(self.at));
        sets.text("uid", Some(self.uid));
        if let Some((reference, Some(mark))) = self.parent.map(|to| (to.reference, &to.mark)) {
            sets.add("linked", marks(&[(reference, mark.clone())]));
        }
        let head = front_matter::edit("", &sets.0, &LAST_KEYS)?;
        Ok(front_matter::with_body(&head, self.description))
    }
}

/// New values; `None` keeps the old one.
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
    /// All outgoing relationships.
    pub relationships: Option<Vec<Relationship>>,
    /// The documents of new relationships' targets.
    pub linked: Vec<LinkTarget>,
}

/// The text of an edited item; `None` if nothing changes. Sets `updated_at`, and a missing
/// `created_at`.
pub fn edit_item(
    item: &ItemMeta,
    text: &str,
    edit: &ItemEdit,
    at: Timestamp,
) -> Result<Option<String>, String> {
    let file = ItemFile::read(text);
    let mut sets = file.fields(item, edit);
    let touches_links =
        edit.parent.is_some() || edit.relationships.is_some() || !edit.linked.is_empty();
    if touches_links {
        links(item, &file, edit, None, &mut sets);
    }
    let described = edit.description.as_deref().map(|text| text.trim_matches(['\r', '\n']));
    let described = described.filter(|description| *description != ItemMeta::description(text));
    if sets.0.is_empty() && described.is_none() {
        return Ok(None);
    }
    if !touches_links {
        // A link may have been edited by hand, so its suffix may be obsolete.
        links(item, &file, edit, None, &mut sets);
    }
    if file.node("created_at").and_then(YamlNode::text).is_none() {
        sets.add("created_at", FieldValue::Time(item.created_at));
    }
    sets.add("updated_at", FieldValue::Time(at));
    let edited = front_matter::edit(text, &sets.0, &LAST_KEYS)?;
    Ok(Some(match described {
        Some(description) => front_matter::with_body(&edited, description),
        None => edited,
    }))
}

/// The tombstone of an item: its text with time and user of the deletion. Front matter that can't
/// be edited stays in the body below a new one.
pub fn tombstone_text(item: &ItemMeta, text: &str, at: Timestamp, by: &str) -> String {
    let mut sets = KeyEdits::default();
    sets.add("deleted_at", FieldValue::Time(at));
    sets.text("deleted_username", Some(by));
    if let Ok(edited) = front_matter::edit(text, &sets.0, &LAST_KEYS) {
        return edited;
    }
    let mut own = KeyEdits::default();
    if item.kind != ItemKind::AcceptanceCriteria {
        own.text("title", Some(&item.title));
    }
    own.text("uid", item.uid.as_deref());
    own.0.extend(sets.0);
    format!("{}\n{text}", front_matter::new(&own.0))
}

/// The text of an item whose links follow a document to another reference or suffix. `None` if no
/// link leads to it.
pub fn replace_links(
    item: &ItemMeta,
    text: &str,
    from: &LinkTarget,
    to: &LinkTarget,
) -> Result<Option<String>, String> {
    let meant = mark_of(&item.linked, from.reference) == from.mark.as_deref();
    let mut new = ItemEdit::default();
    if item.parent == Some(from.reference) {
        new.parent = Some(to.clone());
    }
    if item.relationships.iter().any(|related| related.target == from.reference) {
        let moved = |related: &Relationship| Relationship {
            target: if related.target == from.reference { to.reference } else { related.target },
            ..*related
        };
        new.relationships = Some(item.relationships.iter().map(moved).collect());
        new.linked = vec![to.clone()];
    }
    let mut sets = KeyEdits::default();
    // If only the suffix changes, the key stays.
    if let Some(parent) = new.parent.as_ref().filter(|to| to.reference != from.reference) {
        sets.text(parent.reference.kind.name(), Some(&parent.reference.to_string()));
    }
    let renumbered = Some((from.reference, to.reference));
    links(item, &ItemFile::read(text), &new, renumbered, &mut sets);
    if !meant || sets.0.is_empty() {
        return Ok(None);
    }
    front_matter::edit(text, &sets.0, &LAST_KEYS).map(Some)
}

/// Edits the keys of relationships and suffixes. `renumbered` is a target's old and new reference.
fn links(
    item: &ItemMeta,
    file: &ItemFile,
    edit: &ItemEdit,
    renumbered: Option<(Reference, Reference)>,
    sets: &mut KeyEdits,
) {
    let relationships = edit.relationships.as_deref().unwrap_or(&item.relationships);
    for kind in RelationshipType::ALL {
        let of = |all: &[Relationship]| -> BTreeSet<Reference> {
            all.iter().filter(|related| related.kind == kind).map(|to| to.target).collect()
        };
        let new = of(relationships);
        if new != of(&item.relationships) {
            let targets = file.targets(kind, &new, renumbered);
            let value = Some(targets).filter(|targets| !targets.is_empty()).map(FieldValue::List);
            sets.0.push(KeyEdit { key: kind.name(), value });
        }
    }
    let parent = edit.parent.as_ref().map(|parent| parent.reference).or(item.parent);
    let is_linked = |to: &Reference| {
        Some(*to) == parent || relationships.iter().any(|related| related.target == *to)
    };
    let mut linked = item.linked.clone();
    for to in edit.parent.iter().chain(&edit.linked) {
        if mark_of(&linked, to.reference) != to.mark.as_deref() {
            linked.retain(|(known, _)| *known != to.reference);
            linked.extend(to.mark.clone().map(|mark| (to.reference, mark)));
        }
    }
    linked.retain(|(to, _)| is_linked(to));
    if linked != item.linked {
        let value = Some(&linked).filter(|linked| !linked.is_empty()).map(|linked| marks(linked));
        sets.0.push(KeyEdit { key: "linked", value });
    }
}

fn mark_of(linked: &[(Reference, String)], reference: Reference) -> Option<&str> {
    linked.iter().find(|(known, _)| *known == reference).map(|(_, mark)| mark.as_str())
}

fn marks(linked: &[(Reference, String)]) -> FieldValue {
    FieldValue::Map(linked.iter().map(|(to, mark)| (to.to_string(), mark.clone())).collect())
}

fn number(priority: Priority) -> FieldValue {
    FieldValue::Number(priority.number().into())
}

fn each_once(texts: &[String]) -> Vec<String> {
    let mut once: Vec<String> = Vec::new();
    for text in texts.iter().map(|text| text.trim()).filter(|text| !text.is_empty()) {
        if once.iter().all(|known| known != text) {
            once.push(text.to_owned());
        }
    }
    once
}

#[derive(Default)]
struct KeyEdits(Vec<KeyEdit<'static>>);

impl KeyEdits {
    fn add(&mut self, key: &'static str, value: FieldValue) {
        self.0.push(KeyEdit { key, value: Some(value) });
    }

    fn text(&mut self, key: &'static str, text: Option<&str>) {
        self.0.extend(text.map(|text| KeyEdit { key, value: Some(FieldValue::from(text)) }));
    }
}

/// The file's own keys, without the defaults of an item.
struct ItemFile(Vec<YamlEntry>);

impl ItemFile {
    /// Invalid front matter has no keys; its edit will be refused.
    fn read(text: &str) -> Self {
        let map = front_matter::read(front_matter::split(text));
        Self(map.map(|map| map.entries).unwrap_or_default())
    }

    /// The keys that an edit changes, except links.
    fn fields(&self, item: &ItemMeta, edit: &ItemEdit) -> KeyEdits {
        let mut sets = KeyEdits::default();
        let title = edit.title.as_deref().map(one_line);
        sets.text("title", title.filter(|title| *title != item.title).as_deref());
        let read = |text: &str| by_name(item.kind.statuses(), Status::name, text);
        let status = self.changed("status", read, item.status, edit.status);
        sets.text("status", status.map(Status::name));
        let priority = self.changed("priority", Priority::parse, item.priority, edit.priority);
        if let Some(priority) = priority {
            sets.add("priority", number(priority));
        }
        let read = |text: &str| by_name(&RequirementType::ALL, RequirementType::name, text);
        let new_type =
            self.changed("type_name", read, item.requirement_type, edit.requirement_type);
        sets.text("type_name", new_type.map(RequirementType::name));
        let parent = edit.parent.as_ref().map(|parent| parent.reference);
        if let Some(parent) = parent.filter(|parent| item.parent != Some(*parent)) {
            sets.text(parent.kind.name(), Some(&parent.to_string()));
        }
        if let Some(assignee) = &edit.assignee {
            let assignee = assignee.as_deref().map(str::trim).filter(|name| !name.is_empty());
            if assignee != item.assignee.as_deref() {
                sets.0.push(KeyEdit {
                    key: "assignee_username",
                    value: assignee.map(FieldValue::from),
                });
            }
        }
        if let Some(tags) = edit.tags.as_deref().map(each_once).filter(|tags| *tags != item.tags) {
            self.tags(tags, &mut sets);
        }
        sets
    }

    fn node(&self, key: &str) -> Option<&YamlNode> {
        yaml::find(&self.0, key)
    }

    /// A new value that is not the file's. `default` is the value of a missing key.
    fn changed<T: PartialEq>(
        &self,
        key: &str,
        read: impl Fn(&str) -> Option<T>,
        default: Option<T>,
        new: Option<T>,
    ) -> Option<T> {
        let old = match self.node(key).and_then(YamlNode::text) {
            Some(text) => read(text),
            None => default,
        };
        new.filter(|new| old.as_ref() != Some(new))
    }

    /// The new value of a relationship's key. Kept targets keep their spelling and place. Invalid
    /// references stay for the author to correct.
    fn targets(
        &self,
        kind: RelationshipType,
        new: &BTreeSet<Reference>,
        renumbered: Option<(Reference, Reference)>,
    ) -> Vec<String> {
        let mut named = Vec::new();
        let mut texts = Vec::new();
        let items = self.node(kind.name()).map(YamlNode::items).unwrap_or_default();
        for text in items.iter().filter_map(YamlNode::text) {
            let target = Reference::parse(text);
            let Some(target) = target.filter(|to| to.kind == ItemKind::Requirement) else {
                texts.push(text.to_owned());
                continue;
            };
            let moved = renumbered.filter(|(from, _)| *from == target).map(|(_, to)| to);
            let next = moved.unwrap_or(target);
            if new.contains(&next) && !named.contains(&next) {
                texts.push(moved.map_or_else(|| text.to_owned(), |to| to.to_string()));
                named.push(next);
            }
        }
        for target in new {
            if !named.contains(target) {
                texts.push(target.to_string());
                named.push(*target);
            }
        }
        texts
    }

    /// Tags are kept under `tags`, or under `labels` in a file that has only those.
    fn tags(&self, tags: Vec<String>, sets: &mut KeyEdits) {
        let value = Some(tags).filter(|tags| !tags.is_empty()).map(FieldValue::List);
        let has_both = self.node("tags").is_some() && self.node("labels").is_some();
        if has_both {
            sets.0.push(KeyEdit { key: "labels", value: None });
        }
        let key = if self.node("labels").is_some() && !has_both { "labels" } else { "tags" };
        sets.0.push(KeyEdit { key, value });
    }
}
