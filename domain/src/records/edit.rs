//! Renders items and entities as files: new ones, edits, and links that follow or lose a target.
//!
//! An edit changes only the given keys and `updated_at`. Setting the default of a missing key
//! changes nothing. The first edit of an item also adds `created_at`, because the modification time
//! is lost. Kind and times that an entity's file does not state follow from its ID and its history.

use serde_json::Value;

use super::fields::{FieldType, RecordField, fields_of, is_metadata_key};
use super::item_links::{edit_links, suffix_map};
use super::kinds::{EntityKind, IdSource, RecordKind};
use super::link_edits::{contains_target, link_edits};
use super::tombstone::RecordRef;
use super::values::CustomValues;
use crate::backlog::Relationship;
use crate::backlog::fields::{Priority, RequirementType, Status, find_by_name};
use crate::backlog::reference::Reference;
use crate::bounded_types::one_line;
use crate::front_matter::{self, FieldValue, KeyEdit};
use crate::knowledge::{Entity, EntityLink};
use crate::link_values::{MAX_LINKS, parse_links};
use crate::timestamp::Timestamp;
use crate::yaml::{self, YamlEntry, YamlNode};

/// The target of a link as stored in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkTarget {
    pub reference: Reference,
    /// The suffix of the document name: `3f9a1c` in `REQ-001-login-3f9a1c`, `None` in `REQ-500`.
    pub file_suffix: Option<String>,
}

/// Number of hexadecimal digits of a new id.
pub const ID_DIGITS: usize = 6;

/// The targets of one relation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelationTargets {
    /// The key in the front matter.
    pub relation: String,
    /// Ids or references.
    pub targets: Vec<String>,
}

/// Rejects a relation that is not the name of a link: a metadata key, or not a plain word.
pub fn check_relation(relation: &str) -> Result<(), String> {
    const MAX_BYTES: usize = 64;
    let is_word = relation.starts_with(|c: char| c.is_ascii_alphabetic())
        && relation.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    if !is_word || relation.len() > MAX_BYTES {
        return Err(format!(
            "is not a relation; use at most {MAX_BYTES} letters, digits, _ and -, such as affects"
        ));
    }
    // A link under such a key would overwrite the metadata and would not be read as a link.
    if is_metadata_key(relation) {
        return Err("is a metadata key; use another word, such as affects".to_owned());
    }
    Ok(())
}

/// New values of a record; `None` keeps the current value, or the default of a new record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordEdit {
    pub title: Option<String>,
    /// The Markdown below the front matter.
    pub body: Option<String>,
    pub status: Option<String>,
    pub priority: Option<Priority>,
    pub requirement_type: Option<RequirementType>,
    pub parent: Option<LinkTarget>,
    /// A blank name removes the assignee.
    pub assignee: Option<String>,
    pub tags: Option<Vec<String>>,
    /// An empty text removes the rank.
    pub rank: Option<String>,
    /// Names and values of custom fields; null removes the field.
    pub custom: Vec<(String, Value)>,
    /// Names and texts of extra keys; an empty text removes the key.
    pub extra: Vec<(String, String)>,
    /// Replaces all outgoing relationships of an item.
    pub relationships: Option<Vec<Relationship>>,
    /// The documents of targets that `relationships` adds.
    pub new_targets: Vec<LinkTarget>,
    /// Replaces the targets of these relations of an entity. No targets removes the relation.
    pub links: Vec<RelationTargets>,
}

/// A new record.
#[derive(Debug, Clone)]
pub struct NewRecord<'a> {
    pub kind: &'static RecordKind,
    /// The uid of an item, or the ID of an entity.
    pub id: &'a str,
    pub fields: &'a RecordEdit,
    pub creator: &'a str,
    pub created_at: Timestamp,
}

impl NewRecord<'_> {
    /// Renders the record's file. Keys without a value, or with the default, are left out, so that
    /// files stay short.
    pub fn text(&self) -> Result<String, String> {
        let Self { kind, fields, .. } = self;
        let (mut edits, mut last) = (KeyEdits::default(), KeyEdits::default());
        for field in fields_of(kind) {
            let edits = if field.is_last { &mut last } else { &mut edits };
            if let Some(value) = self.value(field)
                && default_value(kind, field).as_ref() != Some(&value)
            {
                edits.set(field.key, value);
            }
        }
        edits.0.extend(custom_edits(&CustomValues::default(), &fields.custom));
        edits.0.extend(extra_edits(&[], &fields.extra));
        for RelationTargets { relation, targets } in &fields.links {
            if !targets.is_empty() {
                edits.set(relation, FieldValue::List(targets.clone()));
            }
        }
        edits.0.extend(last.0);
        let front_matter = front_matter::edit("", &edits.0, &[])?;
        Ok(front_matter::with_body(&front_matter, fields.body.as_deref().unwrap_or_default()))
    }

    fn value(&self, field: &RecordField) -> Option<FieldValue> {
        match (field.field_type, field.key) {
            (FieldType::Id, _) => Some(self.id.into()),
            (FieldType::User, "creator_username" | "created_by") => Some(self.creator.into()),
            (FieldType::Time, "created_at") => Some(FieldValue::Time(self.created_at)),
            (FieldType::Relationship(kind), _) => {
                let relationships = self.fields.relationships.as_deref()?.iter();
                let targets = relationships.filter(|link| link.kind == kind);
                let targets: Vec<_> = targets.map(|link| link.target.to_string()).collect();
                (!targets.is_empty()).then_some(FieldValue::List(targets))
            }
            (FieldType::Suffixes, _) => {
                let targets = self.fields.parent.iter().chain(&self.fields.new_targets);
                let suffix = |to: &LinkTarget| Some((to.reference, to.file_suffix.clone()?));
                let suffixes: Vec<_> = targets.filter_map(suffix).collect();
                (!suffixes.is_empty()).then(|| suffix_map(&suffixes))
            }
            _ => self.fields.key_edit(field)?.value,
        }
    }
}

/// Keys at the end of the front matter. A new key of any other name is inserted before them.
pub(super) fn last_keys(kind: &RecordKind) -> Vec<&'static str> {
    fields_of(kind).filter(|field| field.is_last).map(|field| field.key).collect()
}

/// Applies an edit to a record's file and sets `updated_at`. `None` if nothing changes.
pub fn edit_record<'r>(
    record: impl Into<RecordRef<'r>>,
    text: &str,
    edit: &RecordEdit,
    at: Timestamp,
) -> Result<Option<String>, String> {
    let record = record.into();
    let (kind, title, parent, tags) = match record {
        RecordRef::Item(item) => (item.kind.row(), &item.title, item.parent, &item.tags),
        // All kinds of entities have the same fields.
        RecordRef::Entity(entity) => (EntityKind::any_row(), &entity.title, None, &entity.tags),
    };
    let file = RecordFile::parse(kind, text);
    // Collects all edits first: an edit without effect must not touch the file.
    let mut edits = file.changed_values(edit, title, parent, tags);
    edits.0.extend(custom_edits(record.custom(), &edit.custom));
    edits.0.extend(extra_edits(&file.entries, &edit.extra));
    let changes_links =
        edit.parent.is_some() || edit.relationships.is_some() || !edit.new_targets.is_empty();
    match record {
        RecordRef::Item(item) if changes_links => edit_links(item, &file, edit, None, &mut edits),
        RecordRef::Item(_) => {}
        // Only the first links are known, and setting targets would remove the rest.
        RecordRef::Entity(_)
            if !edit.links.is_empty() && parse_links(&file.entries).list.len() > MAX_LINKS =>
        {
            return Err(format!("it has more than {MAX_LINKS} links; edit the file by hand"));
        }
        RecordRef::Entity(_) => edits.0.extend(link_edits(&file.entries, &edit.links)?),
    }
    let body = changed_body(text, edit.body.as_deref());
    if edits.0.is_empty() && body.is_none() {
        check_links(record, text, &edit.links)?;
        return Ok(None);
    }
    if let RecordRef::Item(item) = record {
        if !changes_links {
            // Removes suffixes of links that were removed by hand.
            edit_links(item, &file, edit, None, &mut edits);
        }
        if file.text("created_at").is_none() {
            edits.set("created_at", FieldValue::Time(item.created_at));
        }
    }
    let edited = edits.write(kind, text, body, at)?;
    // On the edited text: only the parser knows every form in which a file can link.
    check_links(record, &edited, &edit.links)?;
    Ok(Some(edited))
}

/// Fails if a relation still has another target, in a form that cannot be edited.
fn check_links(record: RecordRef<'_>, text: &str, edits: &[RelationTargets]) -> Result<(), String> {
    let RecordRef::Entity(entity) = record else { return Ok(()) };
    let (edited, _) = Entity::parse(&entity.id, text);
    for RelationTargets { relation, targets } in edits {
        let mut links = edited.links.iter().filter(|link| link.relation == *relation);
        if let Some(link) = links.find(|link| !contains_target(targets, &link.target)) {
            let target = &link.target;
            return Err(format!(
                "{relation}: the form of {target} is unknown; edit the file by hand"
            ));
        }
    }
    Ok(())
}

/// Returns the edit that removes all relationships and links to these IDs or references.
pub fn unlink_edit<'r>(record: impl Into<RecordRef<'r>>, names: &[String]) -> RecordEdit {
    let entity = match record.into() {
        RecordRef::Item(item) => {
            let mut kept = item.relationships.clone();
            kept.retain(|link| !names.contains(&link.target.to_string()));
            return RecordEdit { relationships: Some(kept), ..RecordEdit::default() };
        }
        RecordRef::Entity(entity) => entity,
    };
    let mut links: Vec<RelationTargets> = Vec::new();
    for EntityLink { relation, target, .. } in &entity.links {
        // A relation is rewritten as a whole, so it is listed once.
        if contains_target(names, target) && links.iter().all(|list| list.relation != *relation) {
            let mut targets = Vec::new();
            for link in &entity.links {
                if link.relation == *relation && !contains_target(names, &link.target) {
                    targets.push(link.target.clone());
                }
            }
            links.push(RelationTargets { relation: relation.clone(), targets });
        }
    }
    RecordEdit { links, ..RecordEdit::default() }
}

/// The body, unless the text has it.
fn changed_body<'a>(text: &str, body: Option<&'a str>) -> Option<&'a str> {
    let body = body?.trim_matches(['\r', '\n']);
    (!front_matter::has_body(text, body)).then_some(body)
}

impl RecordEdit {
    /// The edit of a field's key.
    fn key_edit(&self, field: &RecordField) -> Option<KeyEdit<'static>> {
        let value = match field.field_type {
            // As parsing reads it, so that an equal title is not a change.
            FieldType::Title => Some((&*one_line(self.title.as_deref()?)).into()),
            FieldType::Status => Some(self.status.as_deref()?.into()),
            FieldType::Priority => Some(priority_value(self.priority?)),
            FieldType::Choice(_) => Some(self.requirement_type?.name().into()),
            FieldType::Parent(_) => Some((&*self.parent.as_ref()?.reference.to_string()).into()),
            FieldType::User if !field.is_last => {
                let name = self.assignee.as_deref()?.trim();
                Some(name).filter(|name| !name.is_empty()).map(FieldValue::from)
            }
            FieldType::Rank => {
                Some(self.rank.as_deref()?).filter(|rank| !rank.is_empty()).map(FieldValue::from)
            }
            FieldType::Tags => {
                let tags = unique_tags(self.tags.as_deref()?);
                if tags.is_empty() { None } else { Some(FieldValue::List(tags)) }
            }
            _ => return None,
        };
        Some(KeyEdit { key: field.key, value })
    }
}

/// The edits of custom fields whose values change.
fn custom_edits<'e>(
    current: &CustomValues,
    given: &'e [(String, Value)],
) -> impl Iterator<Item = KeyEdit<'e>> {
    given.iter().filter_map(|(key, value)| {
        let (texts, value) = match value {
            Value::String(text) => (vec![text.as_str()], Some(plain_value(text))),
            Value::Array(items) => {
                let texts: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
                let list = texts.iter().map(|text| (*text).to_owned()).collect();
                (texts, Some(FieldValue::List(list)))
            }
            _ => (Vec::new(), None),
        };
        (current.get(key) != texts).then_some(KeyEdit { key, value })
    })
}

/// The edits of extra keys whose texts change.
fn extra_edits<'e>(
    entries: &[YamlEntry],
    given: &'e [(String, String)],
) -> impl Iterator<Item = KeyEdit<'e>> {
    given.iter().filter_map(|(key, text)| {
        let value = (!text.is_empty()).then(|| text.as_str().into());
        let current = yaml::find_key(entries, key);
        let is_same = match (&current, &value) {
            (Some(node), Some(_)) => node.text() == Some(text),
            (current, value) => current.is_none() && value.is_none(),
        };
        (!is_same).then_some(KeyEdit { key, value })
    })
}

/// A whole number without quotes, or a text.
fn plain_value(text: &str) -> FieldValue {
    let number = text.parse().ok().filter(|number: &u64| number.to_string() == text);
    number.map_or_else(|| text.into(), FieldValue::Number)
}

/// The value of a missing key.
fn default_value(kind: &RecordKind, field: &RecordField) -> Option<FieldValue> {
    match field.field_type {
        FieldType::Status => kind.statuses.first().map(|status| status.name().into()),
        FieldType::Priority => Some(priority_value(Priority::DEFAULT)),
        FieldType::Choice(names) => names.first().map(|name| (*name).into()),
        _ => None,
    }
}

/// The value that a text stands for, in the spelling that is written: `high` is 2.
fn parse_value(kind: &RecordKind, field: &RecordField, text: &str) -> Option<FieldValue> {
    match field.field_type {
        FieldType::Status if kind.id_source == IdSource::FileName => {
            Status::parse(text).map(|status| status.name().into())
        }
        FieldType::Priority => Priority::parse(text).map(priority_value),
        FieldType::Choice(names) => find_by_name(names, |name| name, text).map(FieldValue::from),
        _ => Some(text.into()),
    }
}

fn priority_value(priority: Priority) -> FieldValue {
    FieldValue::Number(priority.number().into())
}

/// Removes blanks, empty tags and duplicates.
pub(crate) fn unique_tags(tags: &[String]) -> Vec<String> {
    let mut unique: Vec<String> = Vec::new();
    for tag in tags {
        let tag = tag.trim();
        if !tag.is_empty() && !unique.iter().any(|other| other == tag) {
            unique.push(tag.to_owned());
        }
    }
    unique
}

/// Edits `tags`, or `labels` in a file that has only `labels`. Parsing merges the two keys, so a
/// file with both keeps only `tags`.
fn tag_edits(entries: &[YamlEntry], tags: Vec<String>) -> Vec<KeyEdit<'static>> {
    let has_labels = yaml::find_key(entries, "labels").is_some();
    let has_tags = yaml::find_key(entries, "tags").is_some();
    let mut edits = Vec::new();
    if has_labels && has_tags {
        edits.push(KeyEdit { key: "labels", value: None });
    }
    let value = if tags.is_empty() { None } else { Some(FieldValue::List(tags)) };
    edits.push(KeyEdit { key: if has_labels && !has_tags { "labels" } else { "tags" }, value });
    edits
}

#[derive(Default)]
pub(super) struct KeyEdits<'a>(pub(super) Vec<KeyEdit<'a>>);

impl<'a> KeyEdits<'a> {
    pub(super) fn set(&mut self, key: &'a str, value: FieldValue) {
        self.0.push(KeyEdit { key, value: Some(value) });
    }

    /// `None` leaves the key unchanged.
    pub(super) fn set_text(&mut self, key: &'a str, text: Option<&str>) {
        if let Some(text) = text {
            self.set(key, FieldValue::from(text));
        }
    }

    /// An empty list removes the key.
    pub(super) fn set_list(&mut self, key: &'a str, texts: Vec<String>) {
        let value = if texts.is_empty() { None } else { Some(FieldValue::List(texts)) };
        self.0.push(KeyEdit { key, value });
    }

    /// Writes the edits, the time and the body.
    fn write(
        mut self,
        kind: &RecordKind,
        text: &str,
        body: Option<&str>,
        at: Timestamp,
    ) -> Result<String, String> {
        // Last, because the time alone is not a change.
        self.set("updated_at", FieldValue::Time(at));
        let edited = front_matter::edit(text, &self.0, &last_keys(kind))?;
        Ok(body.map(|body| front_matter::with_body(&edited, body)).unwrap_or(edited))
    }
}

/// The front matter of a file, without default values.
pub(super) struct RecordFile {
    kind: &'static RecordKind,
    entries: Vec<YamlEntry>,
}

impl RecordFile {
    /// Invalid front matter has no keys; [`front_matter::edit`] will reject its edit.
    pub(super) fn parse(kind: &'static RecordKind, text: &str) -> Self {
        let front_matter = front_matter::parse(front_matter::split(text));
        let entries = front_matter.map(|front_matter| front_matter.entries).unwrap_or_default();
        Self { kind, entries }
    }

    pub(super) fn find_key(&self, key: &str) -> Option<&YamlNode> {
        yaml::find_key(&self.entries, key)
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.find_key(key).and_then(YamlNode::text)
    }

    /// The edits of all keys with a new value, except links. Title, parent and tags of the record
    /// may come from other keys or from the body.
    fn changed_values(
        &self,
        edit: &RecordEdit,
        title: &str,
        parent: Option<Reference>,
        tags: &[String],
    ) -> KeyEdits<'static> {
        let mut edits = KeyEdits::default();
        for field in fields_of(self.kind) {
            let Some(KeyEdit { key, value }) = edit.key_edit(field) else { continue };
            let is_same = match (field.field_type, &value) {
                (FieldType::Tags, None) => tags.is_empty(),
                (FieldType::Tags, Some(value)) => *value == FieldValue::List(tags.to_vec()),
                (FieldType::Parent(_), _) => edit.parent.as_ref().map(|to| to.reference) == parent,
                // Writing a title of which YAML reads only a part corrects it.
                (FieldType::Title, Some(value)) => {
                    let written =
                        self.find_key(field.key).is_none_or(|node| node.text() == Some(title));
                    written && *value == title.into()
                }
                // An invalid value also reads as the default, but the file does not have it.
                _ => {
                    value
                        == match self.text(field.key) {
                            Some(text) => parse_value(self.kind, field, text),
                            None => default_value(self.kind, field),
                        }
                }
            };
            match value {
                _ if is_same => {}
                Some(FieldValue::List(tags)) => edits.0.extend(tag_edits(&self.entries, tags)),
                None if field.field_type == FieldType::Tags => {
                    edits.0.extend(tag_edits(&self.entries, Vec::new()));
                }
                value => edits.0.push(KeyEdit { key, value }),
            }
        }
        edits
    }
}

#[cfg(test)]
mod entity_tests;
#[cfg(test)]
mod item_tests;
#[cfg(test)]
mod line_tests;
