//! Accepts that a team database lost commits.

use std::path::Path;
use std::time::Duration;

use reqlore_domain::audit_log::AuditEvent;
use reqlore_domain::identity::Token;
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_domain::timestamp::Timestamp;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::connection::{configure, keep_log_on_close};
use crate::error::{DatabaseError, RESTORE_HINT, is_busy, refused};
use crate::{audit, identity, team_schema};

/// A database with an exclusive lock, whose loss can be accepted. SQLite creates a missing log.
#[derive(Debug)]
pub struct LossAcceptance {
    connection: Connection,
    place: &'static str,
    /// The number of commits that the database has.
    pub commits: u64,
}

impl LossAcceptance {
    /// Fails if the database is damaged or another process has it open.
    pub fn open(file: &Path, place: &'static str) -> StoreResult<Self> {
        open(file, place).map_err(|error| match error {
            DatabaseError::Sql(error) if is_busy(&error) => StoreError::Busy {
                reason: format!("Another process has {place} open; stop it and try again."),
            },
            error => error.into_store_error(place),
        })
    }

    /// Revokes all tokens, because a revocation may be lost, appends the event to the audit log and
    /// continues to count after `recorded`. Returns the number of commits.
    pub fn accept(
        mut self,
        recorded: u64,
        event: Option<AuditEvent>,
        now: Timestamp,
    ) -> StoreResult<u64> {
        let place = self.place;
        self.write(recorded, event, now).map_err(|error| error.into_store_error(place))
    }

    fn write(
        &mut self,
        recorded: u64,
        event: Option<AuditEvent>,
        now: Timestamp,
    ) -> Result<u64, DatabaseError> {
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for token in identity::tokens(&transaction)? {
            if token.revoked_at.is_none() {
                identity::put_token(&transaction, &Token { revoked_at: Some(now), ..token })?;
            }
        }
        identity::raise_epoch(&transaction)?;
        audit::append_events(&transaction, event)?;
        let commits = team_schema::continue_count(&transaction, recorded)?;
        transaction.commit()?;
        Ok(commits)
    }
}

fn open(file: &Path, place: &'static str) -> Result<LossAcceptance, DatabaseError> {
    let connection = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.busy_timeout(Duration::ZERO)?;
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    keep_log_on_close(&connection, true)?;
    configure(&connection, team_schema::CACHE_KIB)?;
    team_schema::FORMAT.check(&connection, place)?;
    if let Some(damage) = team_schema::find_damage(&connection)?.first() {
        let reason =
            format!("is damaged ({damage}), so its loss cannot be accepted; {RESTORE_HINT}");
        return Err(refused(place, reason).into());
    }
    let commits = team_schema::commits(&connection)?;
    Ok(LossAcceptance { connection, place, commits })
}
