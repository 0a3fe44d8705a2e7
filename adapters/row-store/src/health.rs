//! A search for damage: reads everything, and compares the lists with the documents.

use async_trait::async_trait;
use reqlore_domain::ports::archive::RecordReader as _;
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_domain::ports::storage_health::{DatabaseStatistics, StorageHealth};

use crate::RowStore;
use crate::archive::SnapshotReader;
use crate::derived::{LIST_TABLES, ListRows};
use crate::read::read_one;
use crate::row::RowQuery;

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
        reader.lists = Some(ListRows::default());
        while !reader.next_batch().await?.is_empty() {}
        let expected = reader.lists.take().unwrap_or_default();
        for table in LIST_TABLES {
            let mut rows = read_one(&*reader.snapshot, RowQuery::all(table)).await?;
            rows.sort_unstable();
            if rows != expected.rows_of(table) {
                damage.push(format!("the list {} differs from the documents", table.name));
            }
        }
        Ok(())
    }
}
