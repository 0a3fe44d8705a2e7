//! Checks and copies of a whole database.

use std::path::Path;

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use crate::connection::BUSY_PAUSE;
use crate::error::DatabaseError;

/// Runs one of SQLite's own checks, such as `integrity_check(1)`. Returns its findings.
pub fn sqlite_findings(connection: &Connection, check: &str) -> Result<Vec<String>, DatabaseError> {
    let mut pragma = connection.prepare(&format!("PRAGMA {check}"))?;
    let mut rows = pragma.query([])?;
    let mut findings = Vec::new();
    while let Some(row) = rows.next()? {
        let finding: String = row.get(0)?;
        if finding != "ok" {
            findings.push(finding);
        }
    }
    Ok(findings)
}

/// Copies a database to an empty file. Does not sync.
pub fn copy_to_file(source: &Connection, target: &Path) -> Result<(), DatabaseError> {
    let mut target = Connection::open(target)?;
    copy(source, &mut target)?;
    // Without a log the copy is one file.
    Ok(target.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()))?)
}

pub(crate) fn copy(source: &Connection, target: &mut Connection) -> rusqlite::Result<()> {
    let backup = Backup::new(source, target)?;
    while backup.step(-1)? != StepResult::Done {
        std::thread::sleep(BUSY_PAUSE);
    }
    Ok(())
}
