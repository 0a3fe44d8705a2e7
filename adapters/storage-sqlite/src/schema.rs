//! The tables of a database, and its row about itself.

use std::collections::HashSet;

use reqlore_domain::document::DocumentMeta;
use reqlore_row_store::StoreRow;
use reqlore_row_store::database::ReadLimit;
use reqlore_row_store::row::RowQuery;
use reqlore_row_store::tables::{STORE, TABLES, TEAM_TABLES, Table};
use rusqlite::Connection;

use crate::error::QueryError;
use crate::rows;
use crate::settings::FileFormat;
use crate::statements::{COMMIT_COUNTER, create_text};

/// The tables of a file, besides the number of its commits.
#[derive(Debug)]
pub(crate) struct Schema {
    pub(crate) format: FileFormat,
    pub(crate) tables: &'static [&'static Table],
}

impl Schema {
    /// Fails if a table, an index or the trigger is not as in a new database. SQLite's own check
    /// does not report missing objects.
    pub(crate) fn check_objects(&self, connection: &Connection) -> Result<(), QueryError> {
        let mut select =
            connection.prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL")?;
        let found: HashSet<String> =
            select.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
        let tables = self.tables.iter().copied().chain([&COMMIT_COUNTER]);
        let tables: String = tables.map(create_text).collect();
        for statement in tables.split_terminator(';').chain([PROTECT_AUDIT]) {
            if !found.contains(statement) {
                let name = statement.split(' ').nth(2).unwrap_or_default();
                return Err(QueryError::damaged(&format!("its schema: {name}")));
            }
        }
        Ok(())
    }
}

/// The version: the tables (hundreds) and the metadata in them.
pub(crate) static WHOLE_SCHEMA: Schema = Schema {
    format: FileFormat { application_id: *b"Rqlr", version: 1_000 + DocumentMeta::FORMAT },
    tables: &TABLES,
};

pub(crate) static TEAM_SCHEMA: Schema =
    Schema { format: FileFormat { application_id: *b"Rqlt", version: 4 }, tables: &TEAM_TABLES };

pub(crate) const PROTECT_AUDIT: &str = "CREATE TRIGGER audit_is_never_changed BEFORE UPDATE \
                                        ON audit BEGIN SELECT RAISE(ABORT, \
                                        'audit rows are never changed'); END";

/// Reads the row about the database itself.
pub(crate) fn read_store_row(connection: &Connection) -> Result<StoreRow, QueryError> {
    let query = RowQuery::keys(&STORE, vec![StoreRow::key()]);
    let rows = rows::select(connection, &[query], ReadLimit::NONE)?.unwrap_or_default();
    Ok(StoreRow::decode(rows.first().map(Vec::as_slice).unwrap_or_default())?)
}
