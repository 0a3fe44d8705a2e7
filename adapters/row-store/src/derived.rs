//! Values derived from a document: the columns and rows of lists, and counts.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use reqlore_domain::document::{DocumentKind, DocumentMeta};
use reqlore_domain::knowledge::entity_words::entity_words;
use reqlore_domain::ports::record_list::{
    RecordPosition, SortField, custom_values, list_position, position_key,
};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::records::values::{bounded_key, value_key};

use crate::records::{integer, key_text, project_key};
use crate::row::{RowAddress, RowKey, TableRow, Value};
use crate::tables::{COUNTS, FIELD_VALUES, ITEM_COUNTS, ITEM_FIELDS, LINKS, Table};

/// Counters. The last two are also fields.
pub(crate) const ENTITIES: &str = "entities";
pub(crate) const UNTAGGED: &str = "untagged";
pub(crate) const DIAGNOSTICS: &str = "diagnostics";
/// Begins the counter of a tag.
pub(crate) const TAG_PREFIX: &str = "tag:";
/// The field of the words by which entities are found.
pub(crate) const WORDS: &str = "words";
/// The field of the parent of an item, no name of a custom field.
pub(crate) const PARENT: &str = ".parent";

/// Rows and counts that a document contributes.
#[derive(Default)]
pub(crate) struct ListRows {
    pub(crate) rows: BTreeSet<RowAddress>,
    pub(crate) counts: BTreeMap<RowAddress, i64>,
}

/// The tables of lists, whose rows derive from the documents.
pub static LIST_TABLES: [&Table; 5] = [&LINKS, &FIELD_VALUES, &ITEM_FIELDS, &ITEM_COUNTS, &COUNTS];

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
            rows.rows.insert((&LINKS, project_key(project).with(&key)));
        }
        if meta.diagnostic.is_some() {
            rows.rows.insert((&FIELD_VALUES, field(DIAGNOSTICS, "")));
            rows.count(&COUNTS, counter(DIAGNOSTICS, kind.name()));
        }
        if let Some(position) = list_position(meta) {
            rows.add_listed(project, meta, &position);
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
            rows.rows.insert((&FIELD_VALUES, field(UNTAGGED, entity_kind)));
            rows.count(&COUNTS, counter(UNTAGGED, entity_kind));
        }
        for word in entity_words(meta) {
            rows.rows.insert((&FIELD_VALUES, field(WORDS, &key_text(&word))));
        }
        rows
    }

    /// Adds a listed record with its custom values.
    fn add_listed(&mut self, project: &ProjectKey, meta: &DocumentMeta, position: &RecordPosition) {
        let (kind, (status, group_type)) = (meta.id.kind.name().into(), group_of(meta));
        let group = [kind, (&*status).into(), (&*group_type).into()];
        let priority = i64::from(position.1.0).into();
        let mut count = |field: &str, value: &str| {
            let key = project_key(project).with(&[field.into(), value.into()]).with(&group);
            *self.counts.entry((&ITEM_COUNTS, key.with(&[priority]))).or_default() += 1;
        };
        count("", "");
        let values: Vec<_> =
            custom_values(meta).map(|(name, text)| (name, value_key(text))).collect();
        // Texts can be encoded.
        let custom = postcard::to_allocvec(&values).ok().filter(|_| !values.is_empty());
        let parent = meta.item.as_ref().and_then(|item| item.parent);
        let parent = parent.map(|parent| (PARENT, parent.to_string()));
        let distinct: BTreeSet<_> = values.into_iter().collect();
        for (field, value) in &distinct {
            count(field, value);
        }
        let position = position_key(position);
        for (field, value) in distinct.into_iter().chain(parent) {
            let key = [kind, field.into(), (&value).into(), group[1], group[2]];
            let rest = [position[..].into(), custom.as_deref().into()];
            self.rows.insert((&ITEM_FIELDS, project_key(project).with(&key).with(&rest)));
        }
    }

    /// Adds the rows of another document.
    pub(crate) fn add(&mut self, other: Self) {
        self.rows.extend(other.rows);
        for (key, number) in other.counts {
            *self.counts.entry(key).or_default() += number;
        }
    }

    /// All rows of a table, sorted.
    pub(crate) fn rows_of(&self, table: &'static Table) -> Vec<TableRow> {
        let mut rows = Vec::new();
        for (of_table, row) in &self.rows {
            if *of_table == table {
                rows.push(row.clone());
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

/// The status of a record, and the type of an item or the kind of an entity; empty without one,
/// and shortened if too long for a key.
fn group_of(meta: &DocumentMeta) -> (Cow<'_, str>, Cow<'_, str>) {
    let Some(item) = &meta.item else {
        let entity = meta.entity.as_deref();
        let status = entity.and_then(|entity| entity.status.as_deref());
        let kind = entity.map(|entity| &*entity.kind);
        // Files may have any text.
        let bounded = |text: Option<&str>| bounded_key(text.unwrap_or_default().to_owned()).into();
        return (bounded(status), bounded(kind));
    };
    let requirement_type = item.requirement_type.as_ref();
    (
        item.status.as_ref().map_or("", |one| one.name()).into(),
        requirement_type.map_or("", |one| one.name()).into(),
    )
}

/// The columns that derive from the metadata: reference, position, status, type and the time of the
/// last change. Lists of records select and sort by them.
pub(crate) fn derived_columns(meta: &DocumentMeta) -> TableRow {
    let reference = meta.reference();
    let reference = reference.as_deref().map(key_text);
    let reference = Value::from(reference.as_deref());
    let Some(position) = list_position(meta) else {
        return TableRow::of(&[reference]).with(&[Value::Null; 4]);
    };
    let (position, (status, group_type)) = (position_key(&position), group_of(meta));
    let (position, updated) = (position[..].into(), SortField::Updated.value(meta));
    let group = [(&*status).into(), (&*group_type).into()];
    TableRow::of(&[reference, position]).with(&group).with(&[(&updated).into()])
}
