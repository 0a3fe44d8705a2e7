//! The open team database of a folder, and calls to it.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_local_state::LOCAL_STATE_DIR;
use reqlore_local_state::error::refused;
use reqlore_local_state::team_file::{self, CreationOptions, DISPLAY_PATH};
use reqlore_row_store::error::DATABASE_LABEL;
use reqlore_row_store::{RowStore, run_blocking};
use reqlore_storage_sqlite::team::TeamDatabase;

use crate::failpoint::{FailPoint, hit_failpoint};
use crate::layout::ProjectRoot;
use crate::lock::LOCK_TIMEOUT;

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

    /// Opens the team data of a folder, if there is any.
    pub(super) fn to_read(&self, base: &Path) -> StoreResult<Option<Arc<TeamDatabase>>> {
        // Held while the database is opened, so that concurrent calls open it once.
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(team) = open.as_ref() {
            return Ok(Some(Arc::clone(team)));
        }
        let root = ProjectRoot::open(base)?;
        let team = team_file::open(&root.dir, base, self.read_only, LOCK_TIMEOUT)?;
        *open = team.map(Arc::new);
        Ok(open.clone())
    }

    /// Opens the team data of a folder to write. Creates the database if needed.
    pub(super) fn to_write(&self, base: &Path) -> StoreResult<Arc<TeamDatabase>> {
        if let Some(team) = self.to_read(base)? {
            return Ok(team);
        }
        let root = ProjectRoot::open(base)?;
        let options = CreationOptions {
            lock_timeout: LOCK_TIMEOUT,
            checkpoint: |step| hit_failpoint(FailPoint::Team(step)),
        };
        team_file::create(&root.dir, base, &options)?;
        let removed = "was removed during the write; try again";
        self.to_read(base)?.ok_or_else(|| refused(LOCAL_STATE_DIR, removed))
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
