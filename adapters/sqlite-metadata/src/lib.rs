//! Lists of items, diagnostics, tags and IDs in SQLite tables.
//!
//! The tables are derived from the metadata, in the same transaction. An answer shows the metadata
//! itself and refuses a row that disagrees with it.
//!
//! The database has a table `documents` with the columns `id`, `project`, `kind`, `reference` and
//! `head` (the metadata in postcard), and an index on `(project, kind, reference)`.

mod diagnostics;
mod differences;
mod entity_list;
mod item_list;
pub mod layouts;

use std::sync::Arc;

use reqlore_domain::document::DocumentMeta;
use reqlore_sqlite_team::error::DatabaseError;
use rusqlite::Connection;

pub use self::differences::find_differences;

/// Reads the verified metadata of a row of `documents`; `None` without such a row.
pub type ReadMetadata = fn(&Connection, i64) -> Result<Option<Arc<DocumentMeta>>, DatabaseError>;

/// Queries the documents of one project.
#[derive(Debug, Clone, Copy)]
pub struct MetadataTables<'a> {
    /// A transaction, so that several statements read one state.
    pub connection: &'a Connection,
    /// The project's row; 0 for a project without documents.
    pub project: i64,
    pub read_metadata: ReadMetadata,
}

impl MetadataTables<'_> {
    /// Reads the metadata for a row of `list`.
    fn metadata(&self, document: i64, list: &str) -> Result<Arc<DocumentMeta>, DatabaseError> {
        let found = (self.read_metadata)(self.connection, document)?;
        found.ok_or_else(|| DatabaseError::damaged(list))
    }
}

/// Replaces the rows of a document. `old` is its stored metadata, `new` the row and the metadata
/// that replace it.
pub fn replace_rows(
    connection: &Connection,
    project: i64,
    old: Option<&DocumentMeta>,
    new: Option<(i64, &DocumentMeta)>,
) -> Result<(), DatabaseError> {
    item_list::replace_item(connection, project, old, new)?;
    entity_list::replace_entity(connection, project, old, new)?;
    diagnostics::replace_diagnostic(connection, project, old, new)
}

/// Returns a `LIMIT` of `count + more` rows; -1 means no limit.
pub fn sql_limit(count: usize, more: i64) -> i64 {
    i64::try_from(count).map_or(-1, |count| count.saturating_add(more))
}
