//! Users, tokens, the audit log and idempotency records, for all projects of a store.
//!
//! They are in `.reqlore/local/team.db` of the default project, which exists only when something
//! was stored. Locks are taken in one order: a project's, then that of `.reqlore/local`.

pub(crate) mod pending_audit;

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use reqlore_domain::audit_log::{AuditEvent, AuditRow, ChainHead};
use reqlore_domain::identity::{Token, TokenId, TokenOwner, User};
use reqlore_domain::ports::archive;
use reqlore_domain::ports::audit::AuditLog;
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::ports::idempotency::{IdempotencyRecord, IdempotencyStore};
use reqlore_domain::ports::identity::{IdentityCommit, IdentityRepository};
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use reqlore_local_state::team_file::{self, CreationOptions};
use reqlore_local_state::{LOCAL_STATE_DIR, current_time};
use reqlore_sqlite_team::error::DatabaseError;
use reqlore_sqlite_team::team_database::{TeamConnection, TeamDatabase};
use reqlore_sqlite_team::{audit, idempotency, identity, pending};

use crate::FsStore;
use crate::error::refused;
use crate::failpoint::{FailPoint, hit_failpoint};
use crate::layout::{ProjectRoot, ProjectTree};
use crate::lock::{LOCK_TIMEOUT, ProjectLock};
use crate::store_inner::StoreInner;

/// A longer response is not stored, in bytes.
const MAX_RESPONSE_BYTES: usize = 4 * 1024 * 1024;
/// The most rows of one batch of a copy.
const COPY_BATCH_ROWS: usize = 5_000;

/// The team data as this process has it open.
#[derive(Debug, Default)]
pub(crate) struct TeamHandle {
    read_only: bool,
    open: Mutex<Option<Arc<TeamDatabase>>>,
}

impl TeamHandle {
    /// For a store that is inspected.
    pub(crate) fn read_only() -> Self {
        Self { read_only: true, ..Self::default() }
    }
}

impl StoreInner {
    /// The team data to read. That of 0.1.0 is read without changing anything.
    fn team_to_read(&self) -> StoreResult<Option<Arc<TeamDatabase>>> {
        let base = self.folders.default_path();
        let exists = team_file::exists(base);
        let mut open = self.team.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(team) = open.as_ref().filter(|team| team.is_stored() || !exists) {
            return Ok(Some(Arc::clone(team)));
        }
        let root = ProjectRoot::open(base)?;
        let found = team_file::open(&root.dir, base, self.team.read_only, LOCK_TIMEOUT)?;
        *open = found.map(Arc::new);
        Ok(open.clone())
    }

    /// The team data to write: it is created if that is wanted, and that of 0.1.0 is migrated.
    /// `held` is the default project's lock, where the caller has it.
    pub(crate) fn team_to_write(
        &self,
        create: bool,
        held: Option<&ProjectLock>,
    ) -> StoreResult<Option<Arc<TeamDatabase>>> {
        let base = self.folders.default_path();
        if !team_file::must_migrate(base) {
            let found = self.team_to_read()?;
            if found.is_some() || !create {
                return Ok(found);
            }
        }
        let root = ProjectRoot::open(base)?;
        let checkpoint = |step| hit_failpoint(FailPoint::Team(step));
        let creation = CreationOptions { lock_timeout: LOCK_TIMEOUT, checkpoint };
        team_file::create(&root.dir, base, held.is_some(), &creation)?;
        self.team_to_read()
    }

    /// The team data as far as it can be recovered: that of 0.1.0 is left alone.
    fn team_to_recover(&self) -> StoreResult<Option<Arc<TeamDatabase>>> {
        if team_file::exists(self.folders.default_path()) { self.team_to_read() } else { Ok(None) }
    }

    /// Reads; with no team data, the answer is the default.
    fn read_team<T: Default>(
        &self,
        read: impl FnOnce(&TeamConnection) -> Result<T, DatabaseError>,
    ) -> StoreResult<T> {
        self.team_to_read()?.map_or_else(|| Ok(T::default()), |team| team.read(read))
    }

    /// The same without waiting; `None` where the database is not open yet, or busy.
    fn try_read_team<T>(
        &self,
        read: impl FnOnce(&TeamConnection) -> Result<T, DatabaseError>,
    ) -> Option<StoreResult<T>> {
        let team = self.team.open.try_lock().ok()?.as_ref().map(Arc::clone)?;
        team.is_stored().then(|| team.try_read(read)).flatten()
    }

    /// Writes, if there is team data.
    fn update_team<T: Default>(
        &self,
        write: impl FnOnce(&TeamConnection) -> Result<T, DatabaseError>,
    ) -> StoreResult<T> {
        self.team_to_write(false, None)?.map_or_else(|| Ok(T::default()), |team| team.write(write))
    }

    /// Writes, and creates the database where there is none.
    fn write_team(
        &self,
        held: Option<&ProjectLock>,
        write: impl FnOnce(&TeamConnection) -> Result<(), DatabaseError>,
    ) -> StoreResult<()> {
        match self.team_to_write(true, held)? {
            Some(team) => team.write(write),
            None => Err(refused(LOCAL_STATE_DIR, "went away while it was written; try again")),
        }
    }

    /// Recovers what killed processes left, when the store is opened. What can't be recovered now,
    /// such as on a read-only disk, waits for the next time.
    pub(crate) fn recover_team(&self) {
        if let Err(error) = pending_audit::recover_all(self, current_time()) {
            tracing::warn!(%error, "an interrupted commit stays open in the audit");
        }
    }

    /// The same for one project, whose lock is held.
    pub(crate) fn recover_project(&self, project: &ProjectKey, lock: &ProjectLock) {
        let tree = ProjectTree::new(&lock.root, &self.layout);
        // Failures are in the log.
        let _ = pending_audit::recover(self, project, &tree, current_time(), (false, lock));
    }

    /// Rejects a key that was used. The project's lock is held.
    pub(crate) fn check_idempotency(&self, context: &WriteContext) -> StoreResult<()> {
        let Some(once) = &context.idempotency_key else { return Ok(()) };
        let found = self.read_team(|connection| pending::find_confirmed(connection, &once.key))?;
        context.check_idempotency(found)
    }

    /// Rejects a place that has users or rows, before it is filled.
    pub(crate) fn check_no_team(&self) -> StoreResult<()> {
        let archive::IdentityRecords { users, tokens } = self.all_identities()?;
        let found = if !users.is_empty() || !tokens.is_empty() {
            "users"
        } else if self.read_team(audit::newest)?.number > 0 {
            "rows of an audit"
        } else {
            return Ok(());
        };
        Err(refused(
            LOCAL_STATE_DIR,
            format!("is not empty: it holds {found}. Name an empty place"),
        ))
    }

    pub(crate) fn all_identities(&self) -> StoreResult<archive::IdentityRecords> {
        self.read_team(identity::all)
    }

    /// The numbers of the first and the newest row; `None` without rows.
    pub(crate) fn audit_span(&self) -> StoreResult<Option<(u64, u64)>> {
        self.read_team(|connection| {
            let first = audit::rows(connection, 0, 1, usize::MAX)?;
            let newest = audit::newest(connection)?.number;
            Ok(first.first().map(|row| (row.number, newest)))
        })
    }

    /// The next rows of a copy, from this number to that one.
    pub(crate) fn copied_rows(&self, from: u64, to: u64) -> StoreResult<Vec<AuditRow>> {
        let read = |connection: &_| audit::rows(connection, from, COPY_BATCH_ROWS, usize::MAX);
        let mut rows = self.read_team(read)?;
        rows.retain(|row| row.number <= to);
        if rows.first().is_some_and(|row| row.number != from) {
            return Err(refused(
                LOCAL_STATE_DIR,
                "lost old audit rows while they were read; try again",
            ));
        }
        Ok(rows)
    }

    /// Inserts users, tokens and sealed rows of an archive. Rejects rows if another process
    /// appended one in the meantime.
    pub(crate) fn import_team(
        &self,
        identities: &archive::IdentityRecords,
        rows: &[AuditRow],
        lock: &ProjectLock,
    ) -> StoreResult<()> {
        let has_identities = !identities.users.is_empty() || !identities.tokens.is_empty();
        if !has_identities && rows.is_empty() {
            return Ok(());
        }
        self.write_team(Some(lock), |connection| {
            if has_identities {
                identity::put_all(connection, identities)?;
            }
            let newest = audit::newest(connection)?.number;
            if newest > 0 && rows.first().is_some_and(|first| first.number != newest + 1) {
                let reason = "got audit rows from another process while it was being filled; stop \
                              the servers that use this place, remove what was copied and copy \
                              again";
                return Err(refused(LOCAL_STATE_DIR, reason).into());
            }
            rows.iter().try_for_each(|row| audit::put(connection, row))
        })
    }
}

impl FsStore {
    /// Moves the team data of 0.1.0 into `team.db`, if that was not done yet.
    pub fn migrate_team(&self) -> StoreResult<()> {
        self.inner.team_to_write(false, None)?;
        self.inner.recover_team();
        Ok(())
    }

    async fn read_team<T: Default + Send + 'static>(
        &self,
        read: impl FnOnce(&TeamConnection) -> Result<T, DatabaseError> + Send + 'static,
    ) -> StoreResult<T> {
        self.run_blocking(move |store| store.read_team(read)).await
    }
}

#[async_trait]
impl IdentityRepository for FsStore {
    async fn users(&self) -> StoreResult<Vec<User>> {
        self.read_team(identity::users).await
    }

    async fn tokens(&self) -> StoreResult<Vec<Token>> {
        self.read_team(identity::tokens).await
    }

    async fn token_owner(&self, id: &TokenId) -> StoreResult<Option<TokenOwner>> {
        let owner = |connection: &_| identity::owner(connection, id);
        if let Some(found) = self.inner.try_read_team(owner) {
            return found;
        }
        let id = id.clone();
        self.read_team(move |connection| identity::owner(connection, &id)).await
    }

    async fn epoch(&self) -> StoreResult<u64> {
        match self.inner.try_read_team(identity::epoch) {
            Some(epoch) => epoch,
            None => self.read_team(identity::epoch).await,
        }
    }

    async fn commit_identities(&self, commit: IdentityCommit) -> StoreResult<()> {
        let lock = self.lock(&ProjectKey::default()).await?;
        let write = move |store: &StoreInner| {
            store.write_team(Some(&lock), |connection| identity::commit(connection, commit))
        };
        self.run_blocking(write).await
    }

    async fn record_use(&self, uses: Vec<(TokenId, Timestamp)>) -> StoreResult<()> {
        if uses.is_empty() {
            return Ok(());
        }
        let write = move |connection: &_| identity::record_uses(connection, &uses);
        self.run_blocking(move |store| store.update_team(write)).await
    }
}

#[async_trait]
impl AuditLog for FsStore {
    async fn record(&self, entries: Vec<AuditEvent>) -> StoreResult<()> {
        if entries.is_empty() {
            return Ok(());
        }
        let record = move |store: &StoreInner| {
            // A copy of another audit may be about to come.
            store.check_complete(&ProjectKey::default())?;
            store.write_team(None, |connection| audit::append(connection, entries).map(drop))
        };
        self.run_blocking(record).await
    }

    async fn rows(&self, from: u64, limit: usize) -> StoreResult<Vec<AuditRow>> {
        self.read_team(move |connection| audit::rows(connection, from, limit, usize::MAX)).await
    }

    async fn newest(&self) -> StoreResult<ChainHead> {
        self.read_team(audit::newest).await
    }

    async fn prune(&self, older_than: Timestamp, now: Timestamp) -> StoreResult<u64> {
        let prune = move |store: &StoreInner| {
            let mut removed = 0;
            loop {
                let step = |connection: &_| audit::prune(connection, older_than, now);
                let pruned = store.update_team(step)?;
                pruned.warn_once();
                removed += pruned.removed as u64;
                if pruned.removed < audit::PRUNE_LIMIT {
                    return Ok(removed);
                }
            }
        };
        self.run_blocking(prune).await
    }
}

#[async_trait]
impl IdempotencyStore for FsStore {
    async fn find_record(&self, key: &str) -> StoreResult<Option<IdempotencyRecord>> {
        let key = key.to_owned();
        self.read_team(move |connection| pending::find_confirmed(connection, &key)).await
    }

    async fn save_response(&self, key: &str, answer: String) -> StoreResult<()> {
        if answer.len() > MAX_RESPONSE_BYTES {
            tracing::warn!(bytes = answer.len(), "a response is too large to be stored");
            return Ok(());
        }
        let key = key.to_owned();
        let save = move |connection: &_| idempotency::save_response(connection, &key, &answer);
        self.run_blocking(move |store| store.update_team(save)).await
    }

    async fn expire_records(&self, before: Timestamp) -> StoreResult<()> {
        let expire = move |store: &StoreInner| {
            let step = |connection: &_| idempotency::expire(connection, before);
            while store.update_team(step)? == idempotency::EXPIRE_LIMIT {}
            Ok(())
        };
        self.run_blocking(expire).await
    }
}
