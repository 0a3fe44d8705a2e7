//! A search for damage: reads everything, and compares the lists with the documents.

use async_trait::async_trait;
use reqlore_domain::document::DocumentKind;
use reqlore_domain::ports::archive::RecordReader as _;
use reqlore_domain::ports::documents::read_all;
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_domain::ports::storage_health::{DatabaseStatistics, StorageHealth};
use reqlore_domain::project_key::ProjectKey;

use crate::PostgresStore;
use crate::archive::SnapshotReader;
use crate::records::{RowReader, project_value};
use crate::row::RowQuery;
use crate::tables::PROJECTS;
use crate::writer::{LIST_TABLES, ListRows};

/// Maximum number of damaged objects in a report.
const MAX_REPORTED: usize = 100;

#[async_trait]
impl StorageHealth for PostgresStore {
    fn database_statistics(&self) -> Option<DatabaseStatistics> {
        let connections = self.database.connection_statistics();
        Some(DatabaseStatistics { writes: self.counters.read(), ..connections })
    }

    async fn find_damage(&self) -> StoreResult<Vec<String>> {
        let mut damage = Vec::new();
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

impl PostgresStore {
    async fn find_list_damage(&self, damage: &mut Vec<String>) -> StoreResult<()> {
        let mut reader = SnapshotReader::begin(&*self.database).await?;
        while !reader.next_batch().await?.is_empty() {}
        let projects = RowQuery::all(&PROJECTS).sorted_by(&["project"]);
        for row in crate::read::read_one(&*self.database, projects).await? {
            let project = ProjectKey::new(RowReader::new(row, "a project").text()?);
            self.compare_lists(&project, damage).await?;
        }
        Ok(())
    }

    /// Compares the rows of all lists of a project with the metadata of its documents.
    async fn compare_lists(
        &self,
        project: &ProjectKey,
        damage: &mut Vec<String>,
    ) -> StoreResult<()> {
        let mut expected = ListRows::default();
        for kind in DocumentKind::ALL {
            for meta in read_all(self, project, kind).await?.0 {
                expected.add(ListRows::of_document(project, &meta));
            }
        }
        for table in LIST_TABLES {
            let of_project = RowQuery::keys(table, vec![vec![project_value(project)]]);
            let mut rows = crate::read::read_one(&*self.database, of_project).await?;
            rows.sort_unstable();
            if rows != expected.rows_of(table) {
                damage.push(format!("the list {} differs from the documents", table.name));
            }
        }
        Ok(())
    }
}
