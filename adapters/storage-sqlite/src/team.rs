//! The ports of users, tokens, the audit and idempotency records. The work is in `sqlite-team`.

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
use crate::error::QueryError;

impl SqliteStore {
    async fn run_write<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Connection) -> Result<T, QueryError> + Send + 'static,
    ) -> StoreResult<T> {
        self.writer.run(move |engine| engine.run_step(act)).await
    }
}

#[async_trait]
impl IdentityRepository for SqliteStore {
    async fn users(&self) -> StoreResult<Vec<User>> {
        self.pool.read_blocking(identity::users).await
    }

    async fn tokens(&self) -> StoreResult<Vec<Token>> {
        self.pool.read_blocking(identity::tokens).await
    }

    async fn token_owner(&self, id: &TokenId) -> StoreResult<Option<TokenOwner>> {
        let id = id.clone();
        self.pool.read_inline_statement(move |connection| identity::owner(connection, &id)).await
    }

    async fn epoch(&self) -> StoreResult<u64> {
        self.pool.read_inline_statement(identity::epoch).await
    }

    async fn commit_identities(&self, commit: IdentityCommit) -> StoreResult<()> {
        self.run_write(|connection| identity::commit(connection, commit)).await
    }

    async fn record_use(&self, uses: Vec<(TokenId, Timestamp)>) -> StoreResult<()> {
        if uses.is_empty() {
            return Ok(());
        }
        self.run_write(move |connection| identity::record_uses(connection, &uses)).await
    }
}

#[async_trait]
impl AuditLog for SqliteStore {
    async fn record(&self, entries: Vec<AuditEvent>) -> StoreResult<()> {
        if entries.is_empty() {
            return Ok(());
        }
        self.run_write(|connection| audit::append(connection, entries).map(drop)).await
    }

    async fn rows(&self, from: u64, limit: usize) -> StoreResult<Vec<AuditRow>> {
        let rows = move |connection: &_| audit::rows(connection, from, limit, usize::MAX);
        self.pool.read_blocking(rows).await
    }

    async fn newest(&self) -> StoreResult<ChainHead> {
        self.pool.read_inline_statement(audit::newest).await
    }

    async fn prune(&self, older_than: Timestamp, now: Timestamp) -> StoreResult<u64> {
        let mut removed = 0;
        loop {
            let step = move |connection: &_| audit::prune(connection, older_than, now);
            let pruned = self.run_write(step).await?;
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
        self.pool.read_inline_statement(move |connection| idempotency::find(connection, &key)).await
    }

    async fn save_response(&self, key: &str, answer: String) -> StoreResult<()> {
        let key = key.to_owned();
        let save = move |connection: &_| idempotency::save_response(connection, &key, &answer);
        self.run_write(save).await
    }

    async fn expire_records(&self, before: Timestamp) -> StoreResult<()> {
        let expire = move |connection: &_| idempotency::expire(connection, before);
        while self.run_write(expire).await? == idempotency::EXPIRE_LIMIT {}
        Ok(())
    }
}
