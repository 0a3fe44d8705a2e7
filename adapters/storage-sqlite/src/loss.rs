//! Detects that a database lost commits, and accepts the loss on request.
//!
//! The database, its log and its side file belong together: without one of them, or with an older
//! one, acknowledged commits may be missing, and references would be issued again.

use std::sync::Arc;

use reqlore_domain::ports::accepted_loss::{AcceptedLoss, nothing_to_accept};
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_row_store::loss::{accept_team_loss, issued_references};
use rusqlite::Connection;

use crate::commit_count::CommitCount;
use crate::connection::open_and_access;
use crate::connection::{ConnectionUse, Connector, OpenMode};
use crate::database_file::DatabaseFile;
use crate::database_file::SqliteConfig;
use crate::error::{QueryError, RESTORE_HINT, is_busy, refused};
use crate::integrity_check::refuse_damage;
use crate::schema::read_store_row;
use crate::session::SqliteSession;
use crate::settings::{enable_wal, keep_log_on_close};
use crate::torn_copy;

pub(crate) const MISSING_LOG: &str = "its -wal file is missing, so commits may be missing";

/// The error for a database that may lack commits for this reason.
pub(crate) fn loss_error(file: &DatabaseFile, loss: &str) -> StoreError {
    let reason = format!(
        "{loss}; put all its files back, accept the loss with `reqlore check --accept-loss`, \
         or {RESTORE_HINT}"
    );
    refused(&file.shown_path, reason)
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

/// Compares a database with its side file. Returns why it may lack commits.
pub(crate) fn find_loss(
    file: &Arc<DatabaseFile>,
    connection: &Connection,
) -> Result<Option<String>, QueryError> {
    // The side file is read first, because other processes commit meanwhile.
    let recorded = file.read_commits()?;
    let loss = compare_commits(connection, recorded.as_ref())?;
    if loss.is_some() {
        torn_copy::check_owner(file)?;
    }
    Ok(loss)
}

fn compare_commits(
    connection: &Connection,
    recorded: Option<&CommitCount>,
) -> Result<Option<String>, QueryError> {
    let recorded = recorded.map(|recorded| recorded.counter);
    Ok(CommitCount::read(connection)?.counter.find_loss(recorded, "-commits file"))
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
    accept(&file, || Ok(None), context).map_err(|error| torn_copy::explain(&file, error))
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
    let recorded = file.read_commits()?;
    let loss = if is_log_missing {
        Some(MISSING_LOG.to_owned())
    } else {
        compare_commits(&connection, recorded.as_ref())?
    };
    // A torn copy mixes two states, so its loss cannot be accepted.
    if file.has_pending_log() {
        torn_copy::check_log(file)?;
    }
    torn_copy::check_owner(file)?;
    let Some(mut text) = recreate()?.or(loss) else {
        return Err(nothing_to_accept(&file.shown_path).into());
    };
    // A file without its log may have been copied in the middle of a checkpoint.
    refuse_damage(&connection)?;
    read_store_row(&connection)?.check_complete()?;
    keep_log_on_close(&connection, true)?;
    // `VACUUM INTO` makes a database without it.
    enable_wal(&file.shown_path, &connection)?;
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
