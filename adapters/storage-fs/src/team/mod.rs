//! Stores users, tokens, the audit log and idempotency records for all projects of a store.
//!
//! They are in `.reqlore/local/team.db` of the default project. The file exists only after
//! something was stored. Locks are taken in one order: a project's, then that of `.reqlore/local`.

pub(crate) mod handle;
pub(crate) mod pending_audit;

use std::sync::{Arc, PoisonError};

use async_trait::async_trait;
use futures_util::FutureExt as _;
use reqlore_domain::audit_log::{AuditEvent, AuditRow, ChainHead};
use reqlore_domain::idempotency::IdempotencyRecord;
use reqlore_domain::identity::{Token, TokenId, TokenOwner, User};
use reqlore_domain::ports::accepted_loss::AcceptedLoss;
use reqlore_domain::ports::archive;
use reqlore_domain::ports::audit::AuditLog;
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::ports::idempotency::IdempotencyStore;
use reqlore_domain::ports::identity::{IdentityCommit, IdentityRepository};
use reqlore_domain::ports::storage_health::StorageHealth;
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use reqlore_local_state::error::refused;
use reqlore_local_state::team_file::{self, CreationOptions, DISPLAY_PATH};
use reqlore_local_state::{LOCAL_STATE_DIR, current_time};
use reqlore_row_store::RowStore;
use reqlore_storage_sqlite::team::TeamDatabase;

use crate::failpoint::{FailPoint, hit_failpoint};
use crate::layout::{ProjectRoot, ProjectTree};
use crate::lock::{LOCK_TIMEOUT, ProjectLock};
use crate::store_inner::StoreInner;
use crate::{Config, FsStore};
use handle::{call_team, name_database, name_in_error};

/// Longer answers are not stored.
const MAX_ANSWER_BYTES: usize = 4 * 1024 * 1024;
const COPY_BATCH_ROWS: usize = 5_000;

impl StoreInner {
    /// Opens the team data, if there is any.
    fn team_to_read(&self) -> StoreResult<Option<Arc<TeamDatabase>>> {
        let base = self.folders.default_path();
        // Held while the database is opened, so that concurrent calls open it once.
        let mut open = self.team.open.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(team) = open.as_ref() {
            return Ok(Some(Arc::clone(team)));
        }
        let root = ProjectRoot::open(base)?;
        let team = team_file::open(&root.dir, base, self.team.read_only, LOCK_TIMEOUT)?;
        *open = team.map(Arc::new);
        Ok(open.clone())
    }

    /// Opens the team data to write. Creates the database if needed.
    pub(crate) fn team_to_write(&self) -> StoreResult<Arc<TeamDatabase>> {
        if let Some(team) = self.team_to_read()? {
            return Ok(team);
        }
        let base = self.folders.default_path();
        let root = ProjectRoot::open(base)?;
        let options = CreationOptions {
            lock_timeout: LOCK_TIMEOUT,
            checkpoint: |step| hit_failpoint(FailPoint::Team(step)),
        };
        team_file::create(&root.dir, base, &options)?;
        let removed = "was removed during the write; try again";
        self.team_to_read()?.ok_or_else(|| refused(LOCAL_STATE_DIR, removed))
    }

    /// Opens the team data to recover interrupted commits.
    fn team_to_recover(&self) -> StoreResult<Option<Arc<TeamDatabase>>> {
        if team_file::exists(self.folders.default_path()) { self.team_to_read() } else { Ok(None) }
    }

    /// Calls the team data; without any, returns the default value.
    fn with_team_data<T: Default>(
        &self,
        call: impl AsyncFnOnce(&RowStore) -> StoreResult<T>,
    ) -> StoreResult<T> {
        match self.team_to_read()? {
            Some(team) => call_team(&team.store, call),
            None => Ok(T::default()),
        }
    }

    /// Like [`Self::with_team_data`], and creates the database if needed.
    fn write_team<T>(&self, call: impl AsyncFnOnce(&RowStore) -> StoreResult<T>) -> StoreResult<T> {
        call_team(&self.team_to_write()?.store, call)
    }

    /// Reads few rows without waiting; `None` if the database is not open or a read would wait.
    fn try_read_team<T>(
        &self,
        read: impl AsyncFnOnce(&RowStore) -> StoreResult<T>,
    ) -> Option<StoreResult<T>> {
        let team = self.team.open.try_read().ok()?.as_ref().map(Arc::clone)?;
        Some(read(&team.store).now_or_never()?.map_err(name_in_error))
    }

    /// Recovers the interrupted commits of killed processes. Failures, such as a read-only disk,
    /// are logged; the next start tries again.
    pub(crate) fn recover_team(&self) {
        if let Err(error) = pending_audit::recover_all(self, current_time()) {
            tracing::warn!(%error, "the audit could not recover an interrupted commit");
        }
    }

    /// Recovers the interrupted commits of one project.
    pub(crate) fn recover_project(&self, project: &ProjectKey, lock: &ProjectLock) {
        let tree = ProjectTree::new(&lock.root, &self.layout);
        // Logs its own failures.
        let _ = pending_audit::recover(self, project, &tree, current_time(), false);
    }

    /// Rejects a commit whose idempotency key was used. The caller holds the project's lock.
    pub(crate) fn check_idempotency(&self, context: &WriteContext) -> StoreResult<()> {
        let Some(key) = &context.idempotency_key else { return Ok(()) };
        let record = self.with_team_data(async |team| team.confirmed_record(&key.key).await)?;
        IdempotencyRecord::check_unused(record, context.at)
    }

    /// Appends the audit row of a purge and erases the stored answers, which may quote the text.
    pub(crate) fn record_purge(&self, event: Option<AuditEvent>) -> StoreResult<()> {
        if event.is_some() {
            self.team_to_write()?;
        }
        self.with_team_data(async |team| team.record_purge(event).await)
    }

    /// Rejects an import if there are users or audit rows.
    pub(crate) fn check_no_team(&self) -> StoreResult<()> {
        let archive::IdentityRecords { users, tokens } = self.all_identities()?;
        let content = if !users.is_empty() || !tokens.is_empty() {
            "users"
        } else if self.with_team_data(async |team| team.newest().await)?.number > 0 {
            "audit rows"
        } else {
            return Ok(());
        };
        Err(refused(
            LOCAL_STATE_DIR,
            format!("is not empty: it holds {content}. Name an empty folder"),
        ))
    }

    pub(crate) fn all_identities(&self) -> StoreResult<archive::IdentityRecords> {
        self.with_team_data(async |team| {
            let users = team.list_users().await?;
            Ok(archive::IdentityRecords { users, tokens: team.list_tokens().await? })
        })
    }

    /// Returns the numbers of the first and the newest audit row; `None` without rows.
    pub(crate) fn audit_span(&self) -> StoreResult<Option<(u64, u64)>> {
        self.with_team_data(async |team| {
            let first = team.rows(0, 1).await?;
            let newest = team.newest().await?.number;
            Ok(first.first().map(|row| (row.number, newest)))
        })
    }

    /// Reads the next audit rows of a copy, from `from` to at most `to`.
    pub(crate) fn copied_rows(&self, from: u64, to: u64) -> StoreResult<Vec<AuditRow>> {
        let mut rows = self.with_team_data(async |team| team.rows(from, COPY_BATCH_ROWS).await)?;
        rows.retain(|row| row.number <= to);
        if rows.first().is_some_and(|row| row.number != from) {
            return Err(refused(LOCAL_STATE_DIR, "lost old audit rows during the copy; try again"));
        }
        Ok(rows)
    }

    /// Inserts users, tokens and audit rows of an archive. Rejects the rows if another process
    /// appended one since the import began.
    pub(crate) fn import_team(
        &self,
        identities: archive::IdentityRecords,
        rows: Vec<AuditRow>,
    ) -> StoreResult<()> {
        if identities.users.is_empty() && identities.tokens.is_empty() && rows.is_empty() {
            return Ok(());
        }
        if self.write_team(async |team| team.import_team(identities, rows).await)? {
            return Ok(());
        }
        // Rows of two chains can't be joined.
        let reason = "got audit rows from another process during the copy; stop the servers that \
                      use this folder, remove what was copied and copy again";
        Err(refused(LOCAL_STATE_DIR, reason))
    }
}

impl FsStore {
    /// Accepts that the team data lost commits. No process may have it open.
    pub fn accept_loss(config: &Config, context: WriteContext) -> StoreResult<AcceptedLoss> {
        let store = Self::new(config);
        let base = store.inner.folders.default_path();
        let root = ProjectRoot::open(base)?;
        team_file::accept_loss(&root.dir, base, LOCK_TIMEOUT, context)
    }

    async fn with_team_data<T: Default + Send + 'static>(
        &self,
        call: impl AsyncFnOnce(&RowStore) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        self.run_blocking(move |store| store.with_team_data(call)).await
    }
}

#[async_trait]
impl StorageHealth for FsStore {
    fn known_damage(&self) -> Option<String> {
        let open = self.inner.team.open.read().unwrap_or_else(PoisonError::into_inner);
        let damage = open.as_ref()?.store.known_damage()?;
        Some(name_database(&damage))
    }

    /// Documents are plain files, and each read of a private file verifies it. So only the team
    /// data is searched.
    async fn find_damage(&self) -> StoreResult<Vec<String>> {
        let mut damage = self
            .run_blocking(|store| match store.team_to_read()? {
                Some(team) => team.find_damage(),
                None => Ok(Vec::new()),
            })
            .await?;
        for object in &mut damage {
            *object = format!("{DISPLAY_PATH}: {object}");
        }
        Ok(damage)
    }
}

#[async_trait]
impl IdentityRepository for FsStore {
    async fn list_users(&self) -> StoreResult<Vec<User>> {
        self.with_team_data(async |team| team.list_users().await).await
    }

    async fn list_tokens(&self) -> StoreResult<Vec<Token>> {
        self.with_team_data(async |team| team.list_tokens().await).await
    }

    async fn token_owner(&self, id: &TokenId) -> StoreResult<Option<TokenOwner>> {
        // Runs for each request, and two rows cost less than switching to another thread.
        if let Some(owner) = self.inner.try_read_team(async |team| team.token_owner(id).await) {
            return owner;
        }
        let id = id.clone();
        self.with_team_data(async move |team| team.token_owner(&id).await).await
    }

    async fn identity_epoch(&self) -> StoreResult<u64> {
        match self.inner.try_read_team(async |team| team.identity_epoch().await) {
            Some(epoch) => epoch,
            None => self.with_team_data(async |team| team.identity_epoch().await).await,
        }
    }

    async fn commit_identities(&self, commit: IdentityCommit) -> StoreResult<()> {
        // Locked here, so that a wait for other calls of this server occupies no thread.
        let lock = self.lock(&ProjectKey::default()).await?;
        self.run_blocking(move |store| {
            let _lock = lock;
            store.write_team(async |team| team.commit_identities(commit).await)
        })
        .await
    }

    async fn record_use(&self, uses: Vec<(TokenId, Timestamp)>) -> StoreResult<()> {
        if uses.is_empty() {
            return Ok(());
        }
        self.with_team_data(async move |team| team.record_use(uses).await).await
    }

    async fn expire_sessions(&self, now: Timestamp) -> StoreResult<()> {
        self.with_team_data(async move |team| team.expire_sessions(now).await).await
    }
}

#[async_trait]
impl AuditLog for FsStore {
    async fn append_events(&self, events: Vec<AuditEvent>) -> StoreResult<()> {
        if events.is_empty() {
            return Ok(());
        }
        self.run_blocking(move |store| {
            // An import may be about to insert the rows of another audit log.
            store.check_complete(&ProjectKey::default())?;
            store.write_team(async |team| team.append_events(events).await)
        })
        .await
    }

    async fn rows(&self, from: u64, limit: usize) -> StoreResult<Vec<AuditRow>> {
        self.with_team_data(async move |team| team.rows(from, limit).await).await
    }

    async fn newest(&self) -> StoreResult<ChainHead> {
        self.with_team_data(async |team| team.newest().await).await
    }

    async fn prune(&self, older_than: Timestamp, now: Timestamp) -> StoreResult<u64> {
        self.with_team_data(async move |team| team.prune(older_than, now).await).await
    }
}

#[async_trait]
impl IdempotencyStore for FsStore {
    async fn find_record(&self, key: &str) -> StoreResult<Option<IdempotencyRecord>> {
        let key = key.to_owned();
        self.with_team_data(async move |team| team.confirmed_record(&key).await).await
    }

    async fn save_answer(&self, key: &str, answer: String) -> StoreResult<()> {
        // The record itself stays, so a repeated request is still recognized.
        if answer.len() > MAX_ANSWER_BYTES {
            tracing::warn!(bytes = answer.len(), "an answer is too large to be stored");
            return Ok(());
        }
        let key = key.to_owned();
        self.with_team_data(async move |team| team.save_answer(&key, answer).await).await
    }

    async fn expire_records(&self, before: Timestamp) -> StoreResult<()> {
        self.with_team_data(async move |team| team.expire_records(before).await).await
    }
}
