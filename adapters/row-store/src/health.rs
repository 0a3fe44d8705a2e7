//! A search for damage: reads everything, and compares the lists with the documents.

use std::collections::{BTreeMap, HashSet};

use async_trait::async_trait;
use reqlore_domain::backlog::Reference;
use reqlore_domain::document::{DocumentId, DocumentMeta};
use reqlore_domain::ports::archive::RecordReader as _;
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_domain::ports::storage_health::{DatabaseStatistics, StorageHealth};
use reqlore_domain::project_key::ProjectKey;

use crate::RowStore;
use crate::archive::SnapshotReader;
use crate::database::RowSource;
use crate::derived::{LIST_TABLES, ListRows, derived_columns};
use crate::error::{damaged, damaged_object};
use crate::read::changes::store_row;
use crate::read::documents::document_id;
use crate::read::read_one;
use crate::records::{DocumentRow, ProjectRow, RowReader, project_key};
use crate::row::{RowQuery, TableRow};
use crate::tables::{PROJECTS, SEQUENCES};

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

/// The results of a search for damage in the documents that it has read.
#[derive(Default)]
pub(crate) struct ContentCheck {
    /// The rows of lists that they need.
    lists: ListRows,
    numbers: BTreeMap<ProjectKey, HighestNumbers>,
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

    pub(crate) fn add_numbers(&mut self, project: &ProjectKey, id: &DocumentId, revision: u64) {
        let highest = self.numbers.entry(project.clone()).or_default();
        highest.revision = highest.revision.max(revision);
        if let Some(Reference { kind, number }) = Reference::from_document(id) {
            let highest = highest.items.entry(kind.name()).or_default();
            *highest = number.max(*highest);
        }
    }

    /// Each text must belong to a document.
    pub(crate) fn add_bodies<'d>(
        &mut self,
        bodies: &[TableRow],
        documents: impl Iterator<Item = &'d DocumentId>,
    ) -> StoreResult<()> {
        let documents: HashSet<&str> = documents.map(|id| &*id.name).collect();
        for row in bodies {
            let id = document_id(row)?;
            let report = format!("the text of {id} has no document");
            if !documents.contains(&*id.name) && self.damage.last() != Some(&report) {
                self.damage.push(report);
            }
        }
        Ok(())
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

/// The highest numbers in the rows of documents. Lower ones in other rows would be issued again.
#[derive(Default)]
struct HighestNumbers {
    revision: u64,
    items: BTreeMap<&'static str, u32>,
}

impl HighestNumbers {
    async fn compare(
        mut self,
        source: &dyn RowSource,
        project: &ProjectKey,
        damage: &mut Vec<String>,
    ) -> StoreResult<()> {
        let of_project = |table| RowQuery::keys(table, vec![project_key(project)]);
        for row in read_one(source, of_project(&PROJECTS)).await? {
            if ProjectRow::decode(&row)?.revision < self.revision {
                damage.push(format!("the revision of project {}", project.as_str()));
            }
        }
        for row in read_one(source, of_project(&SEQUENCES)).await? {
            let mut reader = RowReader::new(&row, "a sequence").after(1);
            let (kind, number): (_, u32) = (reader.text()?, reader.number()?);
            self.items.retain(|name, highest| *name != kind || *highest > number);
        }
        let kinds = self.items.into_keys();
        damage.extend(kinds.map(|kind| format!("the highest number of kind {kind}")));
        Ok(())
    }
}
