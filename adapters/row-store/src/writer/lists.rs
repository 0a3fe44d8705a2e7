//! Changes of the rows that derive from the metadata of a document.

use std::collections::BTreeMap;

use reqlore_domain::document::DocumentMeta;
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::project_key::ProjectKey;

use crate::derived::{KEY_TABLES, LIST_TABLES, ListRows};
use crate::records::{RowReader, integer};
use crate::row::RowKey;
use crate::tables::Table;
use crate::writer::GroupWriterEngine;

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
