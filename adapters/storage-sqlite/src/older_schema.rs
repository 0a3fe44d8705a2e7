//! Reads a database of an older schema without upgrading it.
//!
//! Views in the temporary schema of the connection hide its tables. They have the columns of the
//! newest schema, so that the same statements export both.

use std::sync::Arc;

use async_trait::async_trait;
use reqlore_domain::ports::archive::{Archive, RecordReader, RecordWriter};
use reqlore_domain::ports::documents::StoreResult;
use reqlore_sqlite_team::audit::AUDIT;
use reqlore_sqlite_team::checksum::TableLayout;
use reqlore_sqlite_team::error::refused;
use reqlore_sqlite_team::identity::{TOKENS, USERS};
use rusqlite::Connection;

use crate::archive::{ArchiveSnapshot, SnapshotReader};
use crate::connection::{ConnectionUse, Connector, run_blocking};
use crate::damage::DamageState;
use crate::error::{DATABASE_NAME, QueryError};
use crate::integrity_check::refuse_damage;
use crate::tables::{DOCUMENTS, HISTORY, MARKS, PROJECTS, STORE};

/// The tables with checksums that an export reads.
const EXPORTED_TABLES: [TableLayout; 8] =
    [STORE, PROJECTS, DOCUMENTS, MARKS, HISTORY, USERS, TOKENS, AUDIT];
/// The columns of the earlier texts that an export reads; since schema 3.
const EARLIER_TEXTS: TableLayout =
    TableLayout { name: "history_texts", columns: &["project", "kind", "name", "hash", "body"] };

/// A database of an older version of Reqlore, opened only to copy it.
#[derive(Debug)]
pub struct OlderDatabase {
    pub(crate) connector: Connector,
}

#[async_trait]
impl Archive for OlderDatabase {
    async fn export(&self) -> StoreResult<Box<dyn RecordReader>> {
        let connector = self.connector.clone();
        let snapshot = run_blocking(move || begin_export(&connector)).await?;
        let damage = Arc::new(DamageState::new(self.connector.file.shown_path.clone()));
        Ok(Box::new(SnapshotReader::new(snapshot, damage)))
    }

    async fn import(&self) -> StoreResult<Box<dyn RecordWriter>> {
        Err(refused(
            DATABASE_NAME,
            "was written by an older version of reqlore; copy into a new database",
        ))
    }

    fn keeps_history(&self) -> bool {
        true
    }
}

fn begin_export(connector: &Connector) -> Result<ArchiveSnapshot, QueryError> {
    connector.file.check_identity()?;
    let connection = connector.open(ConnectionUse::Read)?;
    // Rows before schema 4 have no checksums.
    refuse_damage(&connection)?;
    // It forbids temporary views, too.
    connection.pragma_update(None, "query_only", false)?;
    for table in EXPORTED_TABLES {
        if let Some(view) = view_of(&connection, table, true)? {
            connection.execute_batch(&view)?;
        }
    }
    if let Some(view) = view_of(&connection, EARLIER_TEXTS, false)? {
        connection.execute_batch(&view)?;
    }
    connection.pragma_update(None, "query_only", true)?;
    ArchiveSnapshot::begin(connection)
}

/// Returns the statement that creates a view with the columns of a table in the newest schema;
/// `None` if the table has them.
fn view_of(
    connection: &Connection,
    table: TableLayout,
    has_checksum: bool,
) -> Result<Option<String>, QueryError> {
    let TableLayout { name, columns } = table;
    let stored = stored_columns(connection, name)?;
    let is_stored = |column: &str| stored.iter().any(|stored| stored == column);
    let is_complete = columns.iter().all(|column| is_stored(column));
    if is_complete && (!has_checksum || is_stored("checksum")) {
        return Ok(None);
    }
    let mut selected = Vec::new();
    for column in &stored {
        if column != "checksum" {
            selected.push(format!("\"{column}\""));
        }
    }
    for column in columns {
        if !is_stored(column) {
            // The number of the first version. Other new columns are NULL in older schemas.
            let value = if *column == "number" { "1" } else { "NULL" };
            selected.push(format!("{value} AS \"{column}\""));
        }
    }
    // A table that the schema lacks is empty.
    let source = if stored.is_empty() { "WHERE 0".to_owned() } else { format!("FROM main.{name}") };
    let rows = format!("SELECT {} {source}", selected.join(", "));
    let checksum = if has_checksum {
        format!(", row_checksum({}) AS checksum", table.arguments_with("", &[]))
    } else {
        String::new()
    };
    Ok(Some(format!("CREATE TEMP VIEW {name} AS SELECT *{checksum} FROM ({rows})")))
}

fn stored_columns(connection: &Connection, table: &str) -> Result<Vec<String>, QueryError> {
    let mut select = connection.prepare("SELECT name FROM pragma_table_info(?1, 'main')")?;
    let mut rows = select.query([table])?;
    let mut columns = Vec::new();
    while let Some(row) = rows.next()? {
        columns.push(row.get(0)?);
    }
    Ok(columns)
}
