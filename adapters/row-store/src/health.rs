//! A search for damage: reads everything, and compares the lists with the documents.

use async_trait::async_trait;
use reqlore_domain::document::DocumentMeta;
use reqlore_domain::ports::archive::RecordReader as _;
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_domain::ports::storage_health::{DatabaseStatistics, StorageHealth};
use reqlore_domain::project_key::ProjectKey;

use crate::RowStore;
use crate::archive::SnapshotReader;
use crate::derived::{LIST_TABLES, ListRows, derived_columns};
use crate::error::{damaged, damaged_object};
use crate::read::read_one;
use crate::records::DocumentRow;
use crate::row::{RowQuery, TableRow};

/// Maximum number of damaged objects in a report.
const MAX_REPORTED: usize = 100;

#[async_trait]
impl StorageHealth for RowStore {
    fn known_damage(&self) -> Option<String> {
        let damage = self.damage.refusal().map(|error| error.to_string());
        damage.or_else(|| self.database.health().problem)
    }

    fn database_statistics(&self) -> Option<DatabaseStatistics> {
        let connections = self.database.health().connections?;
        Some(DatabaseStatistics { writes: self.counters.read(), ..connections })
    }

    async fn find_damage(&self) -> StoreResult<Vec<String>> {
        let mut damage = self.database.find_damage().await?;
        // Otherwise the rows may be wrong as well.
        if !damage.is_empty() {
            return Ok(damage);
        }
        match self.find_list_damage(&mut damage).await {
            Ok(()) => {}
            // The rest of the database may be readable, but it is not checked.
            Err(StoreError::Unreadable { reason, .. }) => damage.push(reason),
            Err(error) => return Err(error),
        }
        damage.truncate(MAX_REPORTED);
        Ok(damage)
    }
}

impl RowStore {
    /// Reads one state of the database, so that commits in between are no differences.
    async fn find_list_damage(&self, damage: &mut Vec<String>) -> StoreResult<()> {
        let mut reader = SnapshotReader::begin(self).await?;
        reader.check = Some(ContentCheck::default());
        while !reader.next_batch().await?.is_empty() {}
        let ContentCheck { lists, damage: found } = reader.check.take().unwrap_or_default();
        // Without all documents, the lists may be right.
        let tables = if found.is_empty() { &LIST_TABLES[..] } else { &[] };
        damage.extend(found);
        for table in tables {
            let mut rows = read_one(&*reader.snapshot, RowQuery::all(table)).await?;
            rows.sort_unstable();
            if rows != lists.rows_of(table) {
                damage.push(format!("the list {} differs from the documents", table.name));
            }
        }
        Ok(())
    }
}

/// What a search for damage knows of the documents that it has read.
#[derive(Default)]
pub(crate) struct ContentCheck {
    /// The rows of lists that they need.
    lists: ListRows,
    /// The damaged objects.
    damage: Vec<String>,
}

impl ContentCheck {
    /// Reports a damaged object, and returns `None` for it.
    pub(crate) fn skip_damaged<T>(&mut self, read: StoreResult<T>) -> StoreResult<Option<T>> {
        match read {
            Ok(intact) => Ok(Some(intact)),
            Err(error) => {
                let object = damaged_object(&error).map(str::to_owned);
                self.damage.push(object.ok_or(error)?);
                Ok(None)
            }
        }
    }

    /// The columns of a document's row must match its metadata.
    pub(crate) fn add_document(
        &mut self,
        project: &ProjectKey,
        row: &TableRow,
        meta: StoreResult<DocumentMeta>,
    ) -> StoreResult<()> {
        let matching = meta.and_then(|meta| {
            let is_equal = DocumentRow::derived(row) == derived_columns(&meta);
            let differs = || damaged(&format!("the row of {} differs from its metadata", meta.id));
            if is_equal { Ok(meta) } else { Err(differs()) }
        });
        if let Some(meta) = self.skip_damaged(matching)? {
            self.lists.add(ListRows::of_document(project, &meta));
        }
        Ok(())
    }
}
