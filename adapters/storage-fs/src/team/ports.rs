//! The ports of a team on files.

use async_trait::async_trait;
use reqlore_domain::audit::{AuditEvent, AuditRow, ChainHead};
use reqlore_domain::identity::{Token, TokenId, TokenOwner, User};
use reqlore_domain::ports::audit::AuditLog;
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::ports::idempotency::{IdempotencyRecord, IdempotencyStore};
use reqlore_domain::ports::identity::{IdentityCommit, IdentityRepository};
use reqlore_domain::project::ProjectKey;
use reqlore_domain::time::Timestamp;

use super::identity::Identities;
use super::{chain, folder, keys};
use crate::FsStore;
use crate::shared::Shared;

#[async_trait]
impl IdentityRepository for FsStore {
    async fn users(&self) -> StoreResult<Vec<User>> {
        Ok(self.blocking(Shared::all_identities).await?.users)
    }

    async fn tokens(&self) -> StoreResult<Vec<Token>> {
        Ok(self.blocking(Shared::all_identities).await?.tokens)
    }

    async fn holder(&self, id: &TokenId) -> StoreResult<Option<TokenOwner>> {
        let base = self.shared.folders.base();
        if let Some(known) = self.shared.team.identities.now(base) {
            return Ok(known.holder(id));
        }
        let load = |shared: &Shared| shared.team.identities.load(&shared.team_root()?);
        Ok(self.blocking(load).await?.holder(id))
    }

    async fn epoch(&self) -> StoreResult<u64> {
        Identities::epoch(self.shared.folders.base())
    }

    async fn commit_identities(&self, commit: IdentityCommit) -> StoreResult<()> {
        let lock = self.lock(&ProjectKey::default()).await?;
        self.blocking(move |shared| shared.commit_identities(commit, &lock)).await
    }

    async fn used(&self, uses: Vec<(TokenId, Timestamp)>) -> StoreResult<()> {
        self.blocking(move |shared| shared.team.identities.used(&shared.team_root()?, uses)).await
    }
}

#[async_trait]
impl AuditLog for FsStore {
    async fn record(&self, entries: Vec<AuditEvent>) -> StoreResult<()> {
        if entries.is_empty() {
            return Ok(());
        }
        self.blocking(move |shared| shared.record_rows(entries)).await
    }

    async fn rows(&self, from: u64, limit: usize) -> StoreResult<Vec<AuditRow>> {
        let work = move |shared: &Shared| match folder::local(&shared.team_root()?)? {
            Some(local) => chain::rows(&local, from, limit),
            None => Ok(Vec::new()),
        };
        self.blocking(work).await
    }

    async fn newest(&self) -> StoreResult<ChainHead> {
        let work = |shared: &Shared| match folder::local(&shared.team_root()?)? {
            Some(local) => chain::newest(&local),
            None => Ok(ChainHead::default()),
        };
        self.blocking(work).await
    }

    async fn prune(&self, older_than: Timestamp, now: Timestamp) -> StoreResult<u64> {
        let work = move |shared: &Shared| match folder::local(&shared.team_root()?)? {
            Some(local) => shared.team.chain.prune(&local, older_than, now),
            None => Ok(0),
        };
        self.blocking(work).await
    }
}

#[async_trait]
impl IdempotencyStore for FsStore {
    async fn find_record(&self, key: &str) -> StoreResult<Option<IdempotencyRecord>> {
        let key = key.to_owned();
        let work = move |shared: &Shared| {
            let local = folder::local(&shared.team_root()?)?;
            let kept = local.map(|local| keys::find(&local, &key)).transpose()?.flatten();
            Ok(kept.map(|kept| kept.earlier))
        };
        self.blocking(work).await
    }

    async fn save_response(&self, key: &str, answer: String) -> StoreResult<()> {
        let key = key.to_owned();
        let work = move |shared: &Shared| match folder::local(&shared.team_root()?)? {
            Some(local) => keys::keep(&local, &key, answer),
            None => Ok(()),
        };
        self.blocking(work).await
    }

    async fn expire_records(&self, before: Timestamp) -> StoreResult<()> {
        let work = move |shared: &Shared| match folder::local(&shared.team_root()?)? {
            Some(local) => keys::forget(&local, before),
            None => Ok(()),
        };
        self.blocking(work).await
    }
}
