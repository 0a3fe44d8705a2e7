//! Detects that a database lost commits, and accepts the loss on request.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use reqlore_domain::ports::accepted_loss::{AcceptedLoss, nothing_to_accept};
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_durable_fs::commit_counter::{CommitCounter, DatabaseId};
use reqlore_row_store::loss::issued_references;

use crate::COPY_TIMEOUT;
use crate::database::lock;
use crate::error::{PUT_BACK_HINT, folder_error, folder_refused, name_folder};
use crate::files::{DB, FolderState};
use crate::open::{OpenedDatabase, open_unchecked};
use crate::session::SledSession;

/// Why a database may lack commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommitLoss {
    /// The commit counter is missing or damaged.
    MissingCounter,
    /// The commit counter belongs to another database.
    ForeignCounter,
    OlderDatabase {
        commits: u64,
        acknowledged: u64,
    },
}

impl fmt::Display for CommitLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingCounter => {
                write!(f, "its file acknowledged is missing or damaged, so commits may be missing")
            }
            Self::ForeignCounter => {
                write!(f, "its file acknowledged belongs to another database")
            }
            Self::OlderDatabase { commits, acknowledged } => {
                write!(f, "it lacks changes that were acknowledged ({commits} of {acknowledged})")
            }
        }
    }
}

impl CommitLoss {
    pub(crate) fn into_error(self, folder: &Path) -> StoreError {
        let reason = format!(
            "{self}; {PUT_BACK_HINT}, or accept the loss with `reqlore check --accept-loss`"
        );
        folder_refused(folder, &reason)
    }
}

/// Compares a database with its commit counter.
pub(crate) fn find_loss(found: CommitCounter, folder: &FolderState) -> Option<CommitLoss> {
    let Some((counter, _)) = &folder.counter else {
        return (!folder.is_unfinished).then_some(CommitLoss::MissingCounter);
    };
    if counter.database_id != found.database_id {
        return Some(CommitLoss::ForeignCounter);
    }
    let (commits, acknowledged) = (found.commits, counter.commits);
    let is_older = commits < acknowledged;
    is_older.then_some(CommitLoss::OlderDatabase { commits, acknowledged })
}

/// Accepts that the database lost commits.
pub(crate) fn accept_loss(folder: &Path, context: WriteContext) -> StoreResult<AcceptedLoss> {
    if !std::fs::metadata(folder.join(DB)).is_ok_and(|db| db.len() > 0) {
        let reason = format!("has no file db, so the loss cannot be accepted; {PUT_BACK_HINT}");
        return Err(folder_refused(folder, &reason));
    }
    let OpenedDatabase { database, state, loss, .. } =
        open_unchecked(folder, Box::new(std::fs::File::sync_all), COPY_TIMEOUT, true)?;
    let Some(loss) = loss else { return Err(nothing_to_accept(&folder.display().to_string())) };
    if let Some((counter, _)) = &state.counter {
        // Higher than the old counter, so that the new slot of the file is the newest one.
        let mut state = lock(&database.state);
        state.commits = state.commits.max(counter.commits);
    }
    let mut session = SledSession::new(Arc::new(database));
    // The history of this database differs from that of every copy from now on.
    let new_id = DatabaseId::random().map_err(|error| folder_error(folder, "name it", error))?;
    session.new_id = Some(new_id);
    let issued = state.counter.into_iter().flat_map(|(_, numbers)| issued_references(numbers));
    let text = loss.to_string();
    let accepted = reqlore_row_store::loss::accept_loss(Box::new(session), text, issued, context);
    accepted.map_err(|error| name_folder(folder, error))
}
