//! Checks and copies of a whole database.

use std::path::Path;

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use crate::connection::BUSY_PAUSE;
use crate::error::DatabaseError;

/// Number of pages between two reports of progress.
const STEP_PAGES: i32 = 1_000;

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

/// Copies a database to an empty file. Does not sync. Calls `progress` with the number of copied
/// pages and of all pages.
pub fn copy_to_file(
    source: &Connection,
    target: &Path,
    progress: impl Fn(usize, usize),
) -> Result<(), DatabaseError> {
    let mut target = Connection::open(target)?;
    copy(source, &mut target, progress)?;
    // Without a log the copy is one file.
    Ok(target.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()))?)
}

pub(crate) fn copy(
    source: &Connection,
    target: &mut Connection,
    progress: impl Fn(usize, usize),
) -> rusqlite::Result<()> {
    // One state, although the pages are copied in steps.
    let snapshot = source.unchecked_transaction()?;
    let backup = Backup::new(source, target)?;
    loop {
        match backup.step(STEP_PAGES)? {
            StepResult::Done => break,
            StepResult::More => {}
            _ => std::thread::sleep(BUSY_PAUSE),
        }
        let copied = backup.progress();
        let total = usize::try_from(copied.pagecount).unwrap_or_default();
        let remaining = usize::try_from(copied.remaining).unwrap_or_default();
        progress(total.saturating_sub(remaining), total);
    }
    drop(backup);
    snapshot.commit()
}
