//! Documents with a diagnostic.

use std::sync::LazyLock;

use reqlore_domain::document::{DocumentKind, DocumentMeta};
use reqlore_domain::ports::item_list::DiagnosticList;
use reqlore_sqlite_team::error::DatabaseError;
use rusqlite::Connection;

use crate::layouts::DIAGNOSTICS;
use crate::{MetadataTables, sql_limit};

/// Replaces the row of a document.
pub(crate) fn replace_diagnostic(
    connection: &Connection,
    project: i64,
    old: Option<&DocumentMeta>,
    new: Option<(i64, &DocumentMeta)>,
) -> Result<(), DatabaseError> {
    let old = old.filter(|meta| meta.diagnostic.is_some());
    let new = new.filter(|(_, meta)| meta.diagnostic.is_some());
    if old.is_some() == new.is_some() {
        return Ok(());
    }
    if let Some(meta) = old {
        let delete = "DELETE FROM diagnostics WHERE project = ?1 AND kind = ?2 AND name = ?3";
        let key = (project, meta.id.kind.name(), &meta.id.name);
        connection.prepare_cached(delete)?.execute(key)?;
    }
    if let Some((document, meta)) = new {
        static INSERT: LazyLock<String> = LazyLock::new(|| DIAGNOSTICS.insert());
        let row = (&meta.id.name, project, meta.id.kind.name(), document);
        connection.prepare_cached(&INSERT)?.execute(row)?;
    }
    Ok(())
}

impl MetadataTables<'_> {
    /// Implements the method of the same name of `DocumentRepository`.
    pub fn diagnostics(
        &self,
        kind: DocumentKind,
        limit: usize,
    ) -> Result<DiagnosticList, DatabaseError> {
        const LIST: &str = "the list of diagnostics";
        let count = "SELECT count(*) FROM diagnostics WHERE project = ?1 AND kind = ?2";
        let mut count = self.connection.prepare_cached(count)?;
        let total: usize = count.query_one((self.project, kind.name()), |row| row.get(0))?;
        let mut metadata = Vec::new();
        // Usually there are none, so the second statement is not needed.
        if total > 0 && limit > 0 {
            let select = "SELECT document FROM diagnostics WHERE project = ?1 AND kind = ?2 \
                          ORDER BY name LIMIT ?3";
            let mut select = self.connection.prepare_cached(select)?;
            let mut rows = select.query((self.project, kind.name(), sql_limit(limit, 0)))?;
            while let Some(row) = rows.next()? {
                let meta = self.metadata(row.get(0)?, LIST)?;
                if meta.id.kind != kind || meta.diagnostic.is_none() {
                    return Err(DatabaseError::damaged(LIST));
                }
                metadata.push(meta);
            }
        }
        Ok(DiagnosticList { metadata, total, unread: Vec::new() })
    }
}
