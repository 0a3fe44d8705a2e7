//! Comparison of the lists and numbers of a database with the documents of an export.

use std::collections::{BTreeMap, HashSet};

use reqlore_domain::backlog::Reference;
use reqlore_domain::document::{DocumentId, DocumentMeta};
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::project_key::ProjectKey;

use crate::database::RowSource;
use crate::derived::{ListRows, derived_columns};
use crate::error::{damaged, damaged_object};
use crate::read::documents::document_id;
use crate::read::read_one;
use crate::records::{DocumentRow, ProjectRow, RowReader, project_key};
use crate::row::{RowQuery, TableRow};
use crate::tables::{PROJECTS, SEQUENCES};

/// The results of a search for damage in the documents that it has read.
#[derive(Default)]
pub(crate) struct ContentCheck {
    /// The rows of lists that they need.
    pub(crate) lists: ListRows,
    pub(crate) numbers: BTreeMap<ProjectKey, HighestNumbers>,
    /// The damaged objects.
    pub(crate) damage: Vec<String>,
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
pub(crate) struct HighestNumbers {
    revision: u64,
    items: BTreeMap<&'static str, u32>,
}

impl HighestNumbers {
    pub(crate) async fn compare(
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
