//! A search for damage: reads everything, and compares the lists with the documents.

use async_trait::async_trait;
use reqlore_domain::ports::archive::RecordReader as _;
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_domain::ports::storage_health::{DatabaseStatistics, StorageHealth};

use crate::RowStore;
use crate::archive::SnapshotReader;
use crate::content_check::ContentCheck;
use crate::derived::LIST_TABLES;
use crate::error::damaged_object;
use crate::read::changes::store_row;
use crate::read::read_one;
use crate::row::RowQuery;

/// Maximum number of damaged objects in a report.
const MAX_REPORTED: usize = 100;

#[async_trait]
impl StorageHealth for RowStore {
    fn known_damage(&self) -> Option<String> {
        let damage = self.damage.write_error().map(|error| error.to_string());
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
            Err(error) => match (damaged_object(&error), &error) {
                (Some(object), _) => damage.push(object.to_owned()),
                (None, StoreError::Unreadable { reason, .. }) => damage.push(reason.clone()),
                _ => return Err(error),
            },
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
        let read = loop {
            match reader.next_batch().await {
                Ok(records) if records.is_empty() => break Ok(()),
                Ok(_) => {}
                Err(error) => break Err(error),
            }
        };
        let ContentCheck { lists, numbers, damage: found } =
            reader.check.take().unwrap_or_default();
        // Without all documents, the lists may be right.
        let tables = if found.is_empty() { &LIST_TABLES[..] } else { &[] };
        damage.extend(found);
        read?;
        let newest = store_row(&*reader.snapshot).await?.newest_audit.number;
        if newest + 1 != reader.next_row {
            damage.push("the number of the newest audit row".to_owned());
        }
        for (project, highest) in numbers {
            highest.compare(&*reader.snapshot, &project, damage).await?;
        }
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
