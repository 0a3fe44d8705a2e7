//! Detects that a database lost commits, and accepts the loss on request.
//!
//! The database, its log and its side file belong together: without one of them, or with an older
//! one, acknowledged commits may be missing, and references would be issued again.

use std::fmt;
use std::sync::Arc;

use reqlore_domain::ports::accepted_loss::{AcceptedLoss, nothing_to_accept};
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_durable_fs::commit_counter::CommitCounter;
use reqlore_row_store::loss::{accept_team_loss, issued_references};
use rusqlite::Connection;

use crate::commit_count::CommitCount;
use crate::connection::open_and_access;
use crate::connection::{ConnectionUse, Connector, OpenMode};
use crate::database_file::DatabaseFile;
use crate::database_file::SqliteConfig;
use crate::error::{QueryError, RESTORE_HINT, is_busy, refused};
use crate::integrity_check::refuse_damage;
use crate::schema::{enable_wal, read_store_row};
use crate::session::SqliteSession;
use crate::settings::keep_log_on_close;
use crate::torn_copy;

/// Why a database may lack commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommitLoss {
    MissingLog,
    /// The side file is missing or damaged.
    MissingCounter,
    /// The side file belongs to another database.
    ForeignCounter,
    /// The database has fewer commits than its side file.
    OlderDatabase {
        commits: u64,
        recorded: u64,
    },
}

impl fmt::Display for CommitLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingLog => write!(f, "its -wal file is missing, so commits may be missing"),
            Self::MissingCounter => {
                write!(f, "its -commits file is missing or damaged, so commits may be missing")
            }
            Self::ForeignCounter => {
                write!(
                    f,
                    "its -commits file belongs to another database, so commits may be missing"
                )
            }
            Self::OlderDatabase { commits, recorded } => write!(
                f,
                "it has {commits} of {recorded} commits: it is older than its -commits file, or \
                 its -wal file was replaced"
            ),
        }
    }
}

impl CommitLoss {
    pub(crate) fn into_error(self, file: &DatabaseFile) -> StoreError {
        let reason = format!(
            "{self}; put all its files back, accept the loss with `reqlore check --accept-loss`, \
             or {RESTORE_HINT}"
        );
        refused(&file.shown_path, reason)
    }
}

/// True if a database lost its log. Must be called before the first connection, which creates one.
pub(crate) fn is_log_missing(file: &Arc<DatabaseFile>) -> Result<bool, QueryError> {
    if file.has_log() || !file.exists() {
        return Ok(false);
    }
    // Reads the file alone and creates no log.
    let connector = Connector { file: Arc::clone(file), mode: OpenMode::Immutable };
    let connection = connector.open(ConnectionUse::Read)?;
    file.schema.format.check(&connection, &file.shown_path)?;
    // Another process may have created it meanwhile, and creates the log first.
    Ok(!file.has_log())
}

/// Compares a database with its side file.
pub(crate) fn find_loss(
    file: &DatabaseFile,
    connection: &Connection,
) -> Result<Option<CommitLoss>, QueryError> {
    // The side file is read first, because other processes commit meanwhile.
    let recorded = file.read_commits()?;
    let CommitCounter { database_id, commits } = CommitCount::read(connection)?.counter;
    Ok(match recorded.map(|recorded| recorded.counter) {
        None => Some(CommitLoss::MissingCounter),
        Some(recorded) if recorded.database_id != database_id => Some(CommitLoss::ForeignCounter),
        Some(CommitCounter { commits: recorded, .. }) if commits < recorded => {
            Some(CommitLoss::OlderDatabase { commits, recorded })
        }
        Some(_) => None,
    })
}

/// Accepts that the database lost commits: raises its sequences, appends an audit row with the
/// loss, and gives it a new ID. Refuses if no commit is missing or a process has it open.
pub fn accept_loss(config: &SqliteConfig, context: WriteContext) -> StoreResult<AcceptedLoss> {
    let file = Arc::new(DatabaseFile::prepare(&config.file)?);
    let shown_path = file.shown_path.clone();
    if !file.exists() {
        let reason = format!("does not exist, so there is no loss to accept; {RESTORE_HINT}");
        return Err(refused(&shown_path, reason));
    }
    accept(&file, || Ok(None), context).map_err(|error| error.into_store_error(&shown_path))
}

/// `recreate` is called when no other process can have the database open. It names lost files,
/// which it creates again.
pub(crate) fn accept(
    file: &Arc<DatabaseFile>,
    recreate: impl FnOnce() -> StoreResult<Option<String>>,
    context: WriteContext,
) -> Result<AcceptedLoss, QueryError> {
    let is_log_missing = is_log_missing(file)?;
    let connector = Connector { file: Arc::clone(file), mode: OpenMode::Shared };
    // Keeps all other processes out until the end.
    let connection = match open_and_access(&connector, ConnectionUse::Exclusive) {
        Err(error) if is_busy(&error) => {
            let reason = "is open in another process; stop the server and try again";
            return Err(refused(&file.shown_path, reason).into());
        }
        connection => connection?,
    };
    file.schema.format.check(&connection, &file.shown_path)?;
    let loss =
        if is_log_missing { Some(CommitLoss::MissingLog) } else { find_loss(file, &connection)? };
    // A torn copy mixes two states, so its loss cannot be accepted.
    if file.has_pending_log() {
        torn_copy::check_log(file)?;
    }
    let recorded = file.read_commits()?;
    let Some(mut text) = recreate()?.or_else(|| loss.map(|loss| loss.to_string())) else {
        return Err(nothing_to_accept(&file.shown_path).into());
    };
    // A file without its log may have been copied in the middle of a checkpoint.
    refuse_damage(&connection)?;
    read_store_row(&connection)?.check_complete()?;
    keep_log_on_close(&connection, true)?;
    // `VACUUM INTO` makes a database without it.
    enable_wal(file, &connection)?;
    if file.guard.is_some() {
        let session = SqliteSession::exclusive(connector, connection)?;
        return Ok(accept_team_loss(Box::new(session), &text, context)?);
    }
    if recorded.is_none() {
        text += "; the numbers of lost items are unknown and may be issued again";
    }
    // The side file also has the numbers of lost commits.
    let issued = recorded.into_iter().flat_map(|recorded| issued_references(recorded.numbers));
    let session = SqliteSession::exclusive(connector, connection)?;
    Ok(reqlore_row_store::loss::accept_loss(Box::new(session), text, issued, context)?)
}
