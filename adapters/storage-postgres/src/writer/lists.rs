//! Rows that derive from the metadata of a document: links, words, counts and diagnostics.

use std::collections::{BTreeMap, BTreeSet};

use reqlore_domain::document::{DocumentKind, DocumentMeta};
use reqlore_domain::knowledge::Entity;
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::ports::entity_list::entity_words;
use reqlore_domain::ports::item_list::ItemPage;
use reqlore_domain::project_key::ProjectKey;

use crate::records::{RowReader, integer, key_text, project_key};
use crate::row::{RowKey, TableRow, Value};
use crate::tables::{COUNTS, DIAGNOSTICS, ENTITY_WORDS, ITEM_COUNTS, LINKS, Table, UNTAGGED};
use crate::writer::GroupWriterEngine;

pub(crate) const ENTITIES: &str = "entities";
pub(crate) const UNTAGGED_ENTITIES: &str = "untagged";
pub(crate) const DIAGNOSED: &str = "diagnostics";
/// Begins the counter of a tag.
pub(crate) const TAG_PREFIX: &str = "tag:";

/// Keys without further columns, and counts, that a document contributes.
#[derive(Default)]
pub(crate) struct ListRows {
    pub(crate) keys: BTreeSet<(&'static str, RowKey)>,
    pub(crate) counts: BTreeMap<(&'static str, RowKey), i64>,
}

/// The tables of [`ListRows::keys`], and then those of [`ListRows::counts`].
pub(crate) static LIST_TABLES: [&Table; 6] =
    [&LINKS, &DIAGNOSTICS, &UNTAGGED, &ENTITY_WORDS, &ITEM_COUNTS, &COUNTS];
const KEY_TABLES: usize = 4;

impl ListRows {
    pub(crate) fn of_document(project: &ProjectKey, meta: &DocumentMeta) -> Self {
        let mut rows = Self::default();
        let project = project_key(project);
        let (kind, name) = (meta.id.kind.name(), meta.id.name.as_str());
        for (relation, target) in meta.links() {
            let (target, relation) = (key_text(&target), key_text(relation));
            let key = [(&*target).into(), kind.into(), name.into(), (&*relation).into()];
            rows.keys.insert((LINKS.name, project.with(&key)));
        }
        if meta.diagnostic.is_some() {
            rows.keys.insert((DIAGNOSTICS.name, project.with(&[kind.into(), name.into()])));
            rows.count(project.with(&[DIAGNOSED.into(), kind.into()]));
        }
        if let Some(position) = ItemPage::position(meta)
            && let Some(item) = &meta.item
            && let DocumentKind::Item(_) = meta.id.kind
        {
            let status = item.status.map_or("", |status| status.name());
            let requirement_type = item.requirement_type.map_or("", |one| one.name());
            let (priority, ..) = position.1;
            let key = project.with(&[
                kind.into(),
                status.into(),
                requirement_type.into(),
                i64::from(priority).into(),
            ]);
            *rows.counts.entry((ITEM_COUNTS.name, key)).or_default() += 1;
        }
        let Some(entity) = entity_of(meta) else { return rows };
        let entity_kind = key_text(&entity.kind);
        let entity_kind = Value::Text(&entity_kind);
        rows.count(project.with(&[ENTITIES.into(), entity_kind]));
        let tags: BTreeSet<&str> = entity.tags.iter().map(String::as_str).collect();
        for tag in &tags {
            let counter = format!("{TAG_PREFIX}{tag}");
            rows.count(project.with(&[(&*key_text(&counter)).into(), entity_kind]));
        }
        if tags.is_empty() {
            rows.keys.insert((UNTAGGED.name, project.with(&[entity_kind, name.into()])));
            rows.count(project.with(&[UNTAGGED_ENTITIES.into(), entity_kind]));
        }
        for word in entity_words(meta) {
            let key = project.with(&[(&*key_text(&word)).into(), name.into()]);
            rows.keys.insert((ENTITY_WORDS.name, key));
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
    pub(crate) fn rows_of(&self, table: &Table) -> Vec<TableRow> {
        let mut rows = Vec::new();
        for (name, key) in &self.keys {
            if *name == table.name {
                rows.push(key.clone());
            }
        }
        for ((name, key), number) in &self.counts {
            if *name == table.name {
                rows.push(key.with(&[integer(*number)]));
            }
        }
        rows
    }

    fn count(&mut self, key: RowKey) {
        *self.counts.entry((COUNTS.name, key)).or_default() += 1;
    }
}

/// The entity of a document, unless it is a tombstone.
pub(crate) fn entity_of(meta: &DocumentMeta) -> Option<&Entity> {
    meta.entity.as_deref().filter(|_| meta.id.kind == DocumentKind::Entity)
}

impl GroupWriterEngine {
    /// Replaces the rows that derive from a document.
    pub(crate) fn replace_lists(
        &mut self,
        project: &ProjectKey,
        old: Option<&DocumentMeta>,
        new: Option<&DocumentMeta>,
    ) -> StoreResult<()> {
        let rows_of = |meta| ListRows::of_document(project, meta);
        let (old, new) =
            (old.map(rows_of).unwrap_or_default(), new.map(rows_of).unwrap_or_default());
        for table in &LIST_TABLES[..KEY_TABLES] {
            for (name, key) in old.keys.difference(&new.keys) {
                if *name == table.name {
                    self.transaction.delete(table, key.clone());
                }
            }
            for (name, key) in new.keys.difference(&old.keys) {
                if *name == table.name {
                    self.transaction.put(table, key.clone());
                }
            }
        }
        // Most changes of a text change no count.
        let mut changes = new.counts;
        for (key, number) in old.counts {
            *changes.entry(key).or_default() -= number;
        }
        changes.retain(|_, number| *number != 0);
        for table in &LIST_TABLES[KEY_TABLES..] {
            self.add_counts(table, &changes)?;
        }
        Ok(())
    }

    fn add_counts(
        &mut self,
        table: &'static Table,
        changes: &BTreeMap<(&'static str, RowKey), i64>,
    ) -> StoreResult<()> {
        let mut keys = Vec::new();
        for (name, key) in changes.keys() {
            if *name == table.name {
                keys.push(key.clone());
            }
        }
        self.transaction.load(table, keys)?;
        for ((name, key), change) in changes {
            if *name != table.name {
                continue;
            }
            let mut number = 0;
            if let Some(row) = self.transaction.row(table, key)? {
                number = RowReader::new(&row, "a count").after(table.key_width).integer()?;
            }
            if number + change == 0 {
                // Unused tags are removed, because the table would only grow otherwise.
                self.transaction.delete(table, key.clone());
                continue;
            }
            self.transaction.put(table, key.with(&[integer(number + change)]));
        }
        Ok(())
    }
}
