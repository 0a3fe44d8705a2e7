//! The open team database of this process, and calls to it.

use std::sync::{Arc, RwLock};

use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_local_state::error::refused;
use reqlore_local_state::team_file::DISPLAY_PATH;
use reqlore_row_store::error::DATABASE_LABEL;
use reqlore_row_store::{RowStore, run_blocking};
use reqlore_storage_sqlite::team::TeamDatabase;

#[derive(Debug, Default)]
pub(crate) struct TeamHandle {
    pub(super) read_only: bool,
    pub(super) open: RwLock<Option<Arc<TeamDatabase>>>,
}

impl TeamHandle {
    /// Creates a handle for a store that is only inspected.
    pub(crate) fn read_only() -> Self {
        Self { read_only: true, ..Self::default() }
    }
}

/// Calls the team data on this thread. Names the database in errors.
pub(crate) fn call_team<T>(
    team: &RowStore,
    call: impl AsyncFnOnce(&RowStore) -> StoreResult<T>,
) -> StoreResult<T> {
    run_blocking(call(team)).map_err(name_in_error)
}

pub(super) fn name_in_error(error: StoreError) -> StoreError {
    match error {
        StoreError::Unavailable { subject, reason, source } => {
            StoreError::Unavailable { subject: name_database(&subject), reason, source }
        }
        StoreError::Refused { subject, reason } => refused(&name_database(&subject), reason),
        StoreError::Unreadable { subject, reason } => {
            StoreError::Unreadable { subject: name_database(&subject), reason }
        }
        StoreError::Busy { reason } => StoreError::Busy { reason: name_database(&reason) },
        error => error,
    }
}

pub(super) fn name_database(text: &str) -> String {
    text.replace("the database team.db", DISPLAY_PATH).replace(DATABASE_LABEL, DISPLAY_PATH)
}
