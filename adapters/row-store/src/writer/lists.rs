//! Changes of the rows that derive from the metadata of a document.

use reqlore_domain::document::DocumentMeta;
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::project_key::ProjectKey;

use crate::derived::ListRows;
use crate::records::{RowReader, integer};
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
        for (table, row) in old.rows.difference(&new.rows) {
            self.transaction.delete(table, row.prefix(table.key_width));
        }
        for (table, row) in new.rows.difference(&old.rows) {
            self.transaction.put(table, row.clone());
        }
        // Most changes of a text change no count.
        let mut changes = new.counts;
        for (address, number) in old.counts {
            *changes.entry(address).or_default() -= number;
        }
        changes.retain(|_, number| *number != 0);
        self.transaction.load(changes.keys().cloned())?;
        for ((table, key), change) in changes {
            let mut number = change;
            if let Some(row) = self.transaction.row(table, &key)? {
                number += RowReader::new(&row, "a count").after(table.key_width).integer()?;
            }
            if number == 0 {
                // Unused tags are removed, because the table would only grow otherwise.
                self.transaction.delete(table, key);
            } else {
                self.transaction.put(table, key.with(&[integer(number)]));
            }
        }
        Ok(())
    }
}
