//! A database of users, tokens, audit rows and intents for documents in files. All calls run on the
//! threads of their callers. A read may block only after its first poll.

use std::path::Path;
use std::sync::Arc;

use reqlore_domain::ports::accepted_loss::AcceptedLoss;
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_durable_fs::commit_counter::CommitCounter;
use reqlore_row_store::RowStore;

use crate::connection::{Connector, OpenFiles, OpenMode};
use crate::creation::fill_database;
use crate::database_file::DatabaseFile;
pub use crate::database_file::FileGuard;
use crate::error::call_error;
use crate::integrity_check::find_file_damage;
use crate::schema::TEAM_SCHEMA;
use crate::{connect_for_writing, loss, open_existing, start_database, store_row, torn_copy};

#[derive(Debug)]
pub struct TeamDatabase {
    pub store: RowStore,
    files: Arc<OpenFiles>,
}

impl TeamDatabase {
    /// Makes an empty file a database without rows, and returns the content of its side file. Does
    /// not sync. `subject` names the database in messages.
    pub fn create(path: &Path, subject: &str) -> StoreResult<CommitCounter> {
        let file = DatabaseFile::new(path.to_owned(), subject.to_owned(), &TEAM_SCHEMA, None);
        let count = fill_database(&file, path).map_err(|error| error.into_store_error(subject))?;
        Ok(count.counter)
    }

    pub fn open(
        path: &Path,
        subject: &str,
        is_read_only: bool,
        guard: Arc<dyn FileGuard>,
    ) -> StoreResult<Self> {
        let file = guarded_file(path, subject, guard)?;
        let mode = if is_read_only { OpenMode::ReadOnly } else { OpenMode::Shared };
        let mut connector = Connector { file: Arc::clone(&file), mode };
        let connection = if is_read_only {
            open_existing(&connector)
        } else {
            connect_for_writing(&mut connector)
        };
        let connection = connection.map_err(|error| torn_copy::explain(&file, error))?;
        // The files may have been replaced while they were opened.
        file.check_all_identities()?;
        store_row(&file, &connection)?;
        let database = start_database(connector, connection)?;
        let (files, damage) = (database.files(), database.known_damage());
        Ok(Self { store: RowStore::without_thread(Arc::new(database), damage)?, files })
    }

    pub fn find_damage(&self) -> StoreResult<Vec<String>> {
        find_file_damage(&self.files.connector).map_err(call_error)
    }
}

/// Accepts that a database lost commits. `recreate` is called when no other process can have the
/// database open. It names lost files, which it creates again.
pub fn accept_team_loss(
    path: &Path,
    subject: &str,
    guard: Arc<dyn FileGuard>,
    recreate: impl FnOnce() -> StoreResult<Option<String>>,
    context: WriteContext,
) -> StoreResult<AcceptedLoss> {
    let file = guarded_file(path, subject, guard)?;
    loss::accept(&file, recreate, context).map_err(|error| torn_copy::explain(&file, error))
}

fn guarded_file(
    path: &Path,
    subject: &str,
    guard: Arc<dyn FileGuard>,
) -> StoreResult<Arc<DatabaseFile>> {
    guard.check(true)?;
    let (path, subject) = (path.to_owned(), subject.to_owned());
    Ok(Arc::new(DatabaseFile::new(path, subject, &TEAM_SCHEMA, Some(guard))))
}
