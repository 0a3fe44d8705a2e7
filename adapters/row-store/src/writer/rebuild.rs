//! Derives the metadata and the lists of all documents again, after a change of their format.

use reqlore_domain::document::{Document, DocumentId, DocumentKind, DocumentMeta};
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_domain::project_key::ProjectKey;

use crate::derived::{LIST_TABLES, METADATA_FORMAT, derived_columns, encode_meta};
use crate::read::documents::{document_id, documents_after};
use crate::records::{DocumentRow, RowReader, StoreRow};
use crate::row::{RowQuery, TableRow};
use crate::tables::{BODIES, DOCUMENTS, PROJECTS};
use crate::writer::commit::body_keys;
use crate::writer::{GroupWriterEngine, STEP_ROWS};

const BATCH_DOCUMENTS: usize = 100;

impl GroupWriterEngine {
    /// Derives everything again in the current transaction: readers see all of it or nothing, and
    /// of several servers that start at once, one does it.
    pub(crate) fn rebuild_metadata(&mut self, mut store: StoreRow) -> StoreResult<()> {
        tracing::info!("updating the metadata of all documents");
        for table in LIST_TABLES {
            loop {
                let some = RowQuery::all(table).limited_to(STEP_ROWS);
                let rows = self.transaction.select_one(some)?;
                for row in &rows {
                    self.transaction.delete(table, row.prefix(table.key_width));
                }
                self.transaction.flush()?;
                self.transaction.forget_rows();
                if rows.len() < STEP_ROWS {
                    break;
                }
            }
        }
        for row in self.transaction.select_one(RowQuery::all(&PROJECTS))? {
            let project = ProjectKey::new(RowReader::new(&row, "a project").text()?);
            for kind in DocumentKind::ALL {
                self.rebuild_kind(&project, kind)?;
            }
        }
        store.metadata_format = METADATA_FORMAT;
        self.put_store_row(&store);
        Ok(())
    }

    fn rebuild_kind(&mut self, project: &ProjectKey, kind: DocumentKind) -> StoreResult<()> {
        let mut last: Option<String> = None;
        loop {
            let batch = documents_after(project, kind, last.as_deref());
            let rows = self.transaction.select_one(batch.limited_to(BATCH_DOCUMENTS))?;
            if rows.is_empty() {
                return Ok(());
            }
            let first_parts = rows.iter().flat_map(|row| {
                let key = row.prefix(DOCUMENTS.key_width);
                body_keys(&key, 1).map(|key| (&BODIES as _, key)).collect::<Vec<_>>()
            });
            self.transaction.load(first_parts)?;
            for row in rows {
                let id = document_id(&row)?;
                last = Some(id.name.clone());
                match self.rebuild_document(project, &id, &row) {
                    // `reqlore check` lists it.
                    Err(error @ StoreError::Unreadable { .. }) => {
                        tracing::error!(document = %id, %error, "keeping old metadata");
                    }
                    rebuilt => rebuilt?,
                }
            }
            self.transaction.flush()?;
            self.transaction.forget_rows();
        }
    }

    fn rebuild_document(
        &mut self,
        project: &ProjectKey,
        id: &DocumentId,
        row: &TableRow,
    ) -> StoreResult<()> {
        let key = row.prefix(DOCUMENTS.key_width);
        let DocumentRow { revision, number, present } = DocumentRow::decode(row)?;
        let Some(mut present) = present else { return Ok(()) };
        let version = present.version;
        let body = self.body(project, id, version, present.parts)?;
        let document = Document { id: id.clone(), version, body };
        let meta = DocumentMeta::from_document(&document, present.modified);
        present.meta = encode_meta(&meta)?;
        let row = present.encode(&key, (revision, number), &derived_columns(&meta));
        self.transaction.put(&DOCUMENTS, row);
        self.replace_lists(project, None, Some(&meta))
    }
}
