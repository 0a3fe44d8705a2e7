//! Driver of the row store for sled `=0.34.7`, which acknowledges commits after batch, flush and
//! sync.
//!
//! Readers wait while a commit is applied and synced, so they see only durable data. After a failed
//! sync, reads continue and may show changes that were not acknowledged.

mod commit_state;
mod database;
mod error;
mod files;
mod loss;
mod open;
mod row_source;
mod session;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reqlore_domain::ports::accepted_loss::AcceptedLoss;
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_row_store::RowStore;

pub use crate::database::has_failed_close;
pub use crate::files::DatabaseState;

use crate::database::OpenDatabase;
use crate::error::{catch_sled_panic, name_folder};
use crate::row_source::SledDatabase;
use open::COPY_TIMEOUT;

/// Location of a database.
#[derive(Debug, Clone)]
pub struct SledConfig {
    /// The database's own folder, created if it is missing.
    pub folder: PathBuf,
}

/// Opens or creates the database. Errors name the folder and a next step. It closes when the last
/// clone of the store is dropped.
pub fn open(config: &SledConfig) -> StoreResult<RowStore> {
    let database = open::open_database(&config.folder, Box::new(File::sync_all), COPY_TIMEOUT)?;
    start(&config.folder, Arc::new(database))
}

fn start(folder: &Path, database: Arc<OpenDatabase>) -> StoreResult<RowStore> {
    let started = database.store_row().and_then(|row| {
        row.check_complete()?;
        let damage = Arc::clone(&database.damage);
        RowStore::start_with(Arc::new(SledDatabase::new(database)), &row, damage)
    });
    started.map_err(|error| name_folder(folder, error))
}

/// Inspects an existing database without opening it, because sled writes to every folder that it
/// opens. Fails where [`open()`] would, except for damage that only sled detects.
pub fn inspect(config: &SledConfig) -> StoreResult<DatabaseState> {
    files::inspect_folder(&config.folder)
}

/// Accepts that the database lost commits: raises its sequences, appends an audit row with the
/// loss, and gives it a new identity. Refuses if no commit is missing.
pub fn accept_loss(config: &SledConfig, context: WriteContext) -> StoreResult<AcceptedLoss> {
    let accepted = catch_sled_panic(|| loss::accept_loss(&config.folder, context))?;
    // The caller may open it again at once.
    open::wait_until_closed(&config.folder)?;
    Ok(accepted)
}

#[cfg(test)]
mod tests;
