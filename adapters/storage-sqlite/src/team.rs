//! Ports for users, tokens, the audit log and idempotency records, implemented by `sqlite-team`.

use async_trait::async_trait;
use reqlore_domain::audit_log::{AuditEvent, AuditRow, ChainHead};
use reqlore_domain::identity::{Token, TokenId, TokenOwner, User};
use reqlore_domain::ports::audit::AuditLog;
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::ports::idempotency::{IdempotencyRecord, IdempotencyStore};
use reqlore_domain::ports::identity::{IdentityCommit, IdentityRepository};
use reqlore_domain::timestamp::Timestamp;
use reqlore_sqlite_team::{audit, idempotency, identity};
use rusqlite::Connection;

use crate::SqliteStore;
use crate::damage::CheckStage;
use crate::error::QueryError;

impl SqliteStore {
    pub(crate) async fn run_write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, QueryError> + Send + 'static,
    ) -> StoreResult<T> {
        self.writer.run(move |engine| engine.run_step(work)).await
    }
}

#[async_trait]
impl IdentityRepository for SqliteStore {
    async fn list_users(&self) -> StoreResult<Vec<User>> {
        self.damage.wait_for_stage(CheckStage::Projects).await?;
        self.pool.read_blocking(identity::users).await
    }

    async fn list_tokens(&self) -> StoreResult<Vec<Token>> {
        self.damage.wait_for_stage(CheckStage::Projects).await?;
        self.pool.read_blocking(identity::tokens).await
    }

    async fn token_owner(&self, id: &TokenId) -> StoreResult<Option<TokenOwner>> {
        let id = id.clone();
        let owner = self
            .pool
            .read_inline_statement(move |connection| identity::token_owner(connection, &id))
            .await?;
        if owner.is_none() {
            self.damage.wait_for_stage(CheckStage::Projects).await?;
        }
        Ok(owner)
    }

    async fn identity_epoch(&self) -> StoreResult<u64> {
        self.pool.read_inline_statement(identity::epoch).await
    }

    async fn commit_identities(&self, commit: IdentityCommit) -> StoreResult<()> {
        self.run_write(|connection| identity::commit(connection, commit)).await
    }

    async fn record_use(&self, uses: Vec<(TokenId, Timestamp)>) -> StoreResult<()> {
        // A group without changes would still cost a transaction.
        if uses.is_empty() {
            return Ok(());
        }
        self.run_write(move |connection| identity::record_uses(connection, &uses)).await
    }

    async fn expire_sessions(&self, now: Timestamp) -> StoreResult<()> {
        self.run_write(move |connection| identity::expire_sessions(connection, now)).await
    }
}

#[async_trait]
impl AuditLog for SqliteStore {
    async fn append_events(&self, events: Vec<AuditEvent>) -> StoreResult<()> {
        if events.is_empty() {
            return Ok(());
        }
        self.run_write(|connection| audit::append_events(connection, events).map(drop)).await
    }

    async fn rows(&self, from: u64, limit: usize) -> StoreResult<Vec<AuditRow>> {
        self.damage.wait_for_stage(CheckStage::WholeFile).await?;
        self.pool
            .read_blocking(move |connection| audit::rows(connection, from, limit, usize::MAX))
            .await
    }

    async fn newest(&self) -> StoreResult<ChainHead> {
        self.damage.wait_for_stage(CheckStage::WholeFile).await?;
        self.pool.read_inline_statement(audit::newest).await
    }

    async fn prune(&self, older_than: Timestamp, now: Timestamp) -> StoreResult<u64> {
        let mut removed = 0;
        // Each step is one job, so that other commits run in between.
        loop {
            let step = self.run_write(move |connection| audit::prune(connection, older_than, now));
            let pruned = step.await?;
            pruned.warn_once();
            removed += pruned.removed as u64;
            if pruned.removed < audit::PRUNE_LIMIT {
                return Ok(removed);
            }
        }
    }
}

#[async_trait]
impl IdempotencyStore for SqliteStore {
    async fn find_record(&self, key: &str) -> StoreResult<Option<IdempotencyRecord>> {
        let key = key.to_owned();
        let found = self
            .pool
            .read_inline_statement(move |connection| idempotency::find(connection, &key))
            .await?;
        if found.is_none() {
            self.damage.wait_for_stage(CheckStage::WholeFile).await?;
        }
        Ok(found)
    }

    async fn save_response(&self, key: &str, response: String) -> StoreResult<()> {
        let key = key.to_owned();
        self.run_write(move |connection| idempotency::save_response(connection, &key, &response))
            .await
    }

    async fn expire_records(&self, before: Timestamp) -> StoreResult<()> {
        loop {
            let step = self.run_write(move |connection| idempotency::expire(connection, before));
            if step.await? < idempotency::EXPIRE_LIMIT {
                return Ok(());
            }
        }
    }
}
