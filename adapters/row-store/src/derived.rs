//! Values that derive from a document: its stored metadata, the columns and rows of lists, and
//! counts.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use reqlore_domain::backlog::{
    Deletion, ItemKind, ItemMeta, Priority, Reference, Relationship, RelationshipType,
    RequirementType, Status,
};
use reqlore_domain::diagnostic::Diagnostic;
use reqlore_domain::document::{DocumentId, DocumentKind, DocumentMeta, Version};
use reqlore_domain::knowledge::Entity;
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_domain::ports::entity_list::entity_words;
use reqlore_domain::ports::item_list::ItemPage;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::sections::mentions::MentionSource;
use reqlore_domain::timestamp::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::damaged;
use crate::records::{integer, key_text, project_key};
use crate::row::{RowAddress, RowKey, TableRow, Value};
use crate::tables::{COUNTS, FIELD_VALUES, ITEM_COUNTS, LINKS, Table};

/// How an error names damaged metadata.
const METADATA: &str = "document metadata";
/// The format of metadata and lists in the database.
pub const METADATA_FORMAT: i64 = DocumentMeta::FORMAT as i64;

/// Counters. The last two are also fields.
pub(crate) const ENTITIES: &str = "entities";
pub(crate) const UNTAGGED: &str = "untagged";
pub(crate) const DIAGNOSTICS: &str = "diagnostics";
/// Begins the counter of a tag.
pub(crate) const TAG_PREFIX: &str = "tag:";
/// The field of the words by which entities are found.
pub(crate) const WORDS: &str = "words";

/// Keys without further columns, and counts, that a document contributes.
#[derive(Default)]
pub(crate) struct ListRows {
    pub(crate) keys: BTreeSet<RowAddress>,
    pub(crate) counts: BTreeMap<RowAddress, i64>,
}

/// The tables of [`ListRows`].
pub static LIST_TABLES: [&Table; 4] = [&LINKS, &FIELD_VALUES, &ITEM_COUNTS, &COUNTS];

impl ListRows {
    pub(crate) fn of_document(project: &ProjectKey, meta: &DocumentMeta) -> Self {
        let mut rows = Self::default();
        let (kind, name) = (meta.id.kind, meta.id.name.as_str());
        let field = |field: &str, value: &str| {
            field_key(project, kind, field).with(&[value.into(), name.into()])
        };
        let counter =
            |counter: &str, kind: &str| project_key(project).with(&[counter.into(), kind.into()]);
        for (relation, target) in meta.links() {
            let (target, relation) = (key_text(&target), key_text(relation));
            let key = [(&*target).into(), kind.name().into(), name.into(), (&*relation).into()];
            rows.keys.insert((&LINKS, project_key(project).with(&key)));
        }
        if meta.diagnostic.is_some() {
            rows.keys.insert((&FIELD_VALUES, field(DIAGNOSTICS, "")));
            rows.count(&COUNTS, counter(DIAGNOSTICS, kind.name()));
        }
        if let Some(position) = ItemPage::position(meta)
            && let Some(item) = &meta.item
            && let DocumentKind::Item(_) = kind
        {
            let status = item.status.map_or("", Status::name).into();
            let requirement_type = item.requirement_type.map_or("", RequirementType::name).into();
            let priority = i64::from(position.1.0).into();
            let group = [kind.name().into(), status, requirement_type, priority];
            rows.count(&ITEM_COUNTS, project_key(project).with(&group));
        }
        let Some(entity) = meta.entity.as_deref().filter(|_| kind == DocumentKind::Entity) else {
            return rows;
        };
        let entity_kind = &*key_text(&entity.kind);
        rows.count(&COUNTS, counter(ENTITIES, entity_kind));
        let tags: BTreeSet<&str> = entity.tags.iter().map(String::as_str).collect();
        for tag in &tags {
            let tag = format!("{TAG_PREFIX}{tag}");
            rows.count(&COUNTS, counter(&key_text(&tag), entity_kind));
        }
        if tags.is_empty() {
            rows.keys.insert((&FIELD_VALUES, field(UNTAGGED, entity_kind)));
            rows.count(&COUNTS, counter(UNTAGGED, entity_kind));
        }
        for word in entity_words(meta) {
            rows.keys.insert((&FIELD_VALUES, field(WORDS, &key_text(&word))));
        }
        rows
    }

    /// Adds the rows of another document.
    pub(crate) fn add(&mut self, other: Self) {
        self.keys.extend(other.keys);
        for (key, number) in other.counts {
            *self.counts.entry(key).or_default() += number;
        }
    }

    /// All rows of a table, sorted.
    pub(crate) fn rows_of(&self, table: &'static Table) -> Vec<TableRow> {
        let mut rows = Vec::new();
        for (of_table, key) in &self.keys {
            if *of_table == table {
                rows.push(key.clone());
            }
        }
        for ((of_table, key), number) in &self.counts {
            if *of_table == table {
                rows.push(key.with(&[integer(*number)]));
            }
        }
        rows
    }

    fn count(&mut self, table: &'static Table, key: RowKey) {
        *self.counts.entry((table, key)).or_default() += 1;
    }
}

/// The beginning of the rows of a field in the index of field values.
pub(crate) fn field_key(project: &ProjectKey, kind: DocumentKind, field: &str) -> RowKey {
    project_key(project).with(&[kind.name().into(), field.into()])
}

/// The columns that derive from the metadata: reference, position, status, type and parent. Lists
/// of items select and sort by them.
pub(crate) fn derived_columns(meta: &DocumentMeta) -> TableRow {
    let reference = meta.reference();
    let reference = reference.as_deref().map(key_text);
    let reference = Value::from(reference.as_deref());
    let Some((position, item)) = ItemPage::position(meta).zip(meta.item.as_deref()) else {
        return TableRow::of(&[reference, Value::Null, Value::Null, Value::Null, Value::Null]);
    };
    TableRow::of(&[
        reference,
        ItemPage::position_key(&position)[..].into(),
        item.status.map_or("", Status::name).into(),
        item.requirement_type.map_or("", RequirementType::name).into(),
        (&item.parent.map(|one| one.to_string()).unwrap_or_default()).into(),
    ])
}

/// Stored metadata of a document, without what its row has. Names stand for the values of
/// enumerations, because their order may change.
#[derive(Serialize, Deserialize)]
struct StoredMeta<'a> {
    title: Option<&'a str>,
    #[serde(borrow)]
    item: Option<StoredItem<'a>>,
    entity: Option<Cow<'a, Entity>>,
    mentions: Cow<'a, [MentionSource]>,
    diagnostic: Option<Cow<'a, Diagnostic>>,
    /// Further fields, so that they do not change the format.
    fields: BTreeMap<&'a str, &'a str>,
}

#[derive(Serialize, Deserialize)]
struct StoredItem<'a> {
    kind: &'a str,
    reference: Option<Cow<'a, str>>,
    uid: Option<&'a str>,
    title: &'a str,
    description: Option<&'a str>,
    status: Option<&'a str>,
    priority: Option<Priority>,
    requirement_type: Option<&'a str>,
    parent: Option<Cow<'a, str>>,
    /// Types and targets.
    relationships: Vec<(&'a str, Cow<'a, str>)>,
    mentions: Cow<'a, [String]>,
    creator: Option<&'a str>,
    assignee: Option<&'a str>,
    created_at: Timestamp,
    updated_at: Timestamp,
    tags: Cow<'a, [String]>,
    link_suffixes: Vec<(Cow<'a, str>, &'a str)>,
    deletion: Option<Cow<'a, Deletion>>,
}

pub(crate) fn encode_meta(meta: &DocumentMeta) -> StoreResult<Bytes> {
    let stored = StoredMeta {
        title: meta.title.as_deref(),
        item: meta.item.as_deref().map(StoredItem::of),
        entity: meta.entity.as_deref().map(Cow::Borrowed),
        mentions: Cow::Borrowed(&meta.mentions),
        diagnostic: meta.diagnostic.as_ref().map(Cow::Borrowed),
        fields: BTreeMap::new(),
    };
    let bytes = postcard::to_allocvec(&stored);
    let mut bytes = bytes.map_err(|error| StoreError::Internal(error.to_string()))?;
    bytes.extend(meta_checksum(&bytes, &meta.id, meta.version));
    Ok(bytes.into())
}

/// The CRC32 at the end of stored metadata. It also covers the row to which it belongs.
fn meta_checksum(bytes: &[u8], id: &DocumentId, version: Version) -> [u8; 4] {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(bytes);
    hasher.update(id.kind.name().as_bytes());
    hasher.update(id.name.as_bytes());
    hasher.update(version.to_string().as_bytes());
    hasher.finalize().to_le_bytes()
}

/// `id` and `version` are those of the row.
pub(crate) fn decode_meta(
    bytes: &[u8],
    id: DocumentId,
    version: Version,
) -> StoreResult<DocumentMeta> {
    let Some((bytes, checksum)) = bytes.split_last_chunk() else { return Err(damaged(METADATA)) };
    if *checksum != meta_checksum(bytes, &id, version) {
        return Err(damaged(METADATA));
    }
    let stored = postcard::from_bytes::<StoredMeta<'_>>(bytes).map_err(|_| damaged(METADATA))?;
    Ok(DocumentMeta {
        id,
        title: stored.title.map(str::to_owned),
        version,
        entity: stored.entity.map(|entity| Arc::new(entity.into_owned())),
        item: stored.item.map(StoredItem::into_item).transpose()?.map(Arc::new),
        mentions: stored.mentions.into_owned(),
        diagnostic: stored.diagnostic.map(Cow::into_owned),
    })
}

impl<'a> StoredItem<'a> {
    fn of(item: &'a ItemMeta) -> Self {
        let text = |reference: Reference| Cow::Owned(reference.to_string());
        let relationship = |one: &Relationship| (one.kind.name(), text(one.target));
        Self {
            kind: item.kind.name(),
            reference: item.reference.map(text),
            uid: item.uid.as_deref(),
            title: &item.title,
            description: item.description.as_deref(),
            status: item.status.map(Status::name),
            priority: item.priority,
            requirement_type: item.requirement_type.map(RequirementType::name),
            parent: item.parent.map(text),
            relationships: item.relationships.iter().map(relationship).collect(),
            mentions: Cow::Borrowed(&item.mentions),
            creator: item.creator.as_deref(),
            assignee: item.assignee.as_deref(),
            created_at: item.created_at,
            updated_at: item.updated_at,
            tags: Cow::Borrowed(&item.tags),
            link_suffixes: item
                .link_suffixes
                .iter()
                .map(|(one, end)| (text(*one), &**end))
                .collect(),
            deletion: item.deletion.as_ref().map(Cow::Borrowed),
        }
    }

    fn into_item(self) -> StoreResult<ItemMeta> {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let status = |name| find_name(&Status::ALL, Status::name, name);
        let requirement_type = |name| find_name(&RequirementType::ALL, RequirementType::name, name);
        let (mut relationships, mut link_suffixes) = (Vec::new(), Vec::new());
        for (kind, target) in self.relationships {
            let kind = find_name(&RelationshipType::ALL, RelationshipType::name, kind)?;
            relationships.push(Relationship { kind, target: read_reference(&target)? });
        }
        for (reference, suffix) in self.link_suffixes {
            link_suffixes.push((read_reference(&reference)?, suffix.to_owned()));
        }
        Ok(ItemMeta {
            kind: find_name(&ItemKind::ALL, ItemKind::name, self.kind)?,
            reference: self.reference.as_deref().map(read_reference).transpose()?,
            uid: owned(self.uid),
            title: self.title.to_owned(),
            description: owned(self.description),
            status: self.status.map(status).transpose()?,
            priority: self.priority,
            requirement_type: self.requirement_type.map(requirement_type).transpose()?,
            parent: self.parent.as_deref().map(read_reference).transpose()?,
            relationships,
            mentions: self.mentions.into_owned(),
            creator: owned(self.creator),
            assignee: owned(self.assignee),
            created_at: self.created_at,
            updated_at: self.updated_at,
            tags: self.tags.into_owned(),
            link_suffixes,
            deletion: self.deletion.map(Cow::into_owned),
        })
    }
}

fn find_name<T: Copy>(all: &[T], name: fn(T) -> &'static str, stored: &str) -> StoreResult<T> {
    let found = all.iter().copied().find(|one| name(*one) == stored);
    found.ok_or_else(|| damaged(METADATA))
}

fn read_reference(stored: &str) -> StoreResult<Reference> {
    Reference::parse(stored).ok_or_else(|| damaged(METADATA))
}

#[cfg(test)]
mod tests {
    use reqlore_domain::document::Document;

    use super::*;

    #[test]
    fn stored_metadata_has_names_and_is_read_as_it_was() {
        let item = "---\ntitle: One\nstatus: Active\npriority: 2\ntype_name: Non-Functional\n\
                    user_story: US-7\ndepends_on: [REQ-2]\ntags: [a]\n---\n\nSee REQ-003.\n";
        let entity = "---\nid: dec-1d2c8f\ntitle: Two\nstatus: open\nblocks: [REQ-1]\n---\n";
        let requirement = DocumentKind::Item(ItemKind::Requirement);
        for (id, text) in [
            (DocumentId { kind: requirement, name: "REQ-001-one".to_owned() }, item),
            (DocumentId { kind: requirement, name: "REQ-002".to_owned() }, "---\nstatus: [\n---\n"),
            (DocumentId::entity("decisions/dec-1d2c8f"), entity),
            (DocumentId::section("a"), "# A\n\n**1.** See REQ-001.\n"),
        ] {
            let document = Document::new(id.clone(), text.into());
            let meta = DocumentMeta::from_document(&document, Timestamp::default());
            let bytes = encode_meta(&meta).unwrap();
            if text == item {
                let stored = String::from_utf8_lossy(&bytes);
                for name in ["Active", "Non-Functional", "depends_on", "requirement", "US-007"] {
                    assert!(stored.contains(name), "{name} in {stored}");
                }
            }
            let read = decode_meta(&bytes, id.clone(), document.version);
            assert_eq!(read.unwrap(), meta);
            decode_meta(&bytes[..bytes.len() - 1], id, document.version).unwrap_err();
        }
    }
}
