//! A search for damage: reads everything, and compares the lists with the documents.

use async_trait::async_trait;
use reqlore_domain::document::DocumentKind;
use reqlore_domain::ports::archive::RecordReader as _;
use reqlore_domain::ports::documents::{DocumentFilter, StoreError, StoreResult};
use reqlore_domain::ports::storage_health::{DatabaseStatistics, StorageHealth};
use reqlore_domain::project_key::ProjectKey;

use crate::RowStore;
use crate::archive::SnapshotReader;
use crate::database::RowSource;
use crate::derived::{LIST_TABLES, ListRows};
use crate::read::documents::metadata_page;
use crate::read::read_one;
use crate::records::project_key;
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
        while !reader.next_batch().await?.is_empty() {}
        for project in &reader.projects {
            compare_lists(&*reader.snapshot, project, damage).await?;
        }
        Ok(())
    }
}

/// Compares the rows of all lists of a project with the metadata of its documents.
async fn compare_lists(
    source: &dyn RowSource,
    project: &ProjectKey,
    damage: &mut Vec<String>,
) -> StoreResult<()> {
    let mut expected = ListRows::default();
    for kind in DocumentKind::ALL {
        let mut filter = DocumentFilter::of_kind(kind);
        loop {
            let page = metadata_page(source, project, &filter).await?;
            for meta in page.metadata {
                expected.add(ListRows::of_document(project, &meta));
            }
            filter.after_name = page.next_name;
            if filter.after_name.is_none() {
                break;
            }
        }
    }
    for table in LIST_TABLES {
        let of_project = RowQuery::keys(table, vec![project_key(project)]);
        let mut rows = read_one(source, of_project).await?;
        rows.sort_unstable();
        if rows != expected.rows_of(table) {
            damage.push(format!("the list {} differs from the documents", table.name));
        }
    }
    Ok(())
}
