//! Users, tokens, the audit log and idempotency records, in memory.

use std::collections::BTreeMap;

use async_trait::async_trait;
use reqlore_domain::audit_log::{AuditEvent, AuditRow, ChainHead};
use reqlore_domain::identity::{Token, TokenId, TokenOwner, User};
use reqlore_domain::ports::audit::AuditLog;
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::ports::idempotency::{IdempotencyRecord, IdempotencyStore};
use reqlore_domain::ports::identity::{IdentityChange, IdentityCommit, IdentityRepository};
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::timestamp::Timestamp;

use crate::MemoryStore;

/// Everything that is stored besides documents.
#[derive(Debug, Default)]
pub(crate) struct TeamState {
    /// By the key of the name.
    pub(crate) users: BTreeMap<String, User>,
    pub(crate) tokens: BTreeMap<TokenId, Token>,
    epoch: u64,
    pub(crate) rows: Vec<AuditRow>,
    pub(crate) idempotency_records: BTreeMap<String, IdempotencyRecord>,
}

impl TeamState {
    pub(crate) fn check_idempotency(&self, act: &WriteContext) -> StoreResult<()> {
        let earlier =
            act.idempotency_key.as_ref().and_then(|once| self.idempotency_records.get(&once.key));
        act.check_idempotency(earlier.cloned())
    }

    pub(crate) fn newest_row(&self) -> ChainHead {
        self.rows.last().map(AuditRow::head).unwrap_or_default()
    }

    pub(crate) fn append_events(&mut self, entries: impl IntoIterator<Item = AuditEvent>) {
        for entry in entries {
            self.rows.push(AuditRow::after(self.newest_row(), entry));
        }
    }

    /// The oldest first.
    pub(crate) fn tokens_by_age(&self) -> Vec<Token> {
        let mut tokens: Vec<Token> = self.tokens.values().cloned().collect();
        tokens.sort_by_key(|token| token.created_at);
        tokens
    }

    fn commit_identities(&mut self, mut commit: IdentityCommit) -> StoreResult<()> {
        let users: Vec<_> =
            commit.users.iter().map(|name| self.users.get(&name.key()).cloned()).collect();
        let tokens: Vec<_> = commit.tokens.iter().map(|id| self.tokens.get(id).cloned()).collect();
        let (changes, audit) = commit.decide(&users, &tokens)?;
        self.epoch += u64::from(!changes.is_empty());
        for change in changes {
            match change {
                IdentityChange::User(user) => drop(self.users.insert(user.name.key(), user)),
                IdentityChange::Token(token) => drop(self.tokens.insert(token.id.clone(), token)),
            }
        }
        self.append_events(audit);
        Ok(())
    }
}

#[async_trait]
impl IdentityRepository for MemoryStore {
    async fn users(&self) -> StoreResult<Vec<User>> {
        Ok(self.lock_state().team.users.values().cloned().collect())
    }

    async fn tokens(&self) -> StoreResult<Vec<Token>> {
        Ok(self.lock_state().team.tokens_by_age())
    }

    async fn token_owner(&self, id: &TokenId) -> StoreResult<Option<TokenOwner>> {
        let team = &self.lock_state().team;
        let token = team.tokens.get(id).cloned();
        Ok(token.and_then(|token| {
            let user = team.users.get(&token.user.key()).cloned()?;
            Some(TokenOwner { token, user })
        }))
    }

    async fn epoch(&self) -> StoreResult<u64> {
        Ok(self.lock_state().team.epoch)
    }

    async fn commit_identities(&self, commit: IdentityCommit) -> StoreResult<()> {
        self.lock_state().team.commit_identities(commit)
    }

    async fn record_use(&self, uses: Vec<(TokenId, Timestamp)>) -> StoreResult<()> {
        let mut state = self.lock_state();
        for (id, at) in uses {
            if let Some(token) = state.team.tokens.get_mut(&id) {
                token.last_used_at = token.last_used_at.max(Some(at));
            }
        }
        Ok(())
    }
}

#[async_trait]
impl AuditLog for MemoryStore {
    async fn record(&self, entries: Vec<AuditEvent>) -> StoreResult<()> {
        self.lock_state().team.append_events(entries);
        Ok(())
    }

    async fn rows(&self, from: u64, limit: usize) -> StoreResult<Vec<AuditRow>> {
        let state = self.lock_state();
        let rows = state.team.rows.iter().filter(|row| row.number >= from);
        Ok(rows.take(limit).cloned().collect())
    }

    async fn newest(&self) -> StoreResult<ChainHead> {
        Ok(self.lock_state().team.newest_row())
    }

    async fn prune(&self, older_than: Timestamp, now: Timestamp) -> StoreResult<u64> {
        let team = &mut self.lock_state().team;
        let is_old = |row: &&AuditRow| row.entry().is_some_and(|entry| entry.at < older_than);
        let old: Vec<&AuditRow> = team.rows.iter().take_while(is_old).collect();
        let Some(last) = old.last() else { return Ok(0) };
        let gone = old.len();
        let entry = AuditEvent::pruned(last.number, now);
        // After the newest row, which may be pruned as well.
        team.append_events([entry]);
        team.rows.drain(..gone);
        Ok(gone as u64)
    }
}

#[async_trait]
impl IdempotencyStore for MemoryStore {
    async fn find_record(&self, key: &str) -> StoreResult<Option<IdempotencyRecord>> {
        Ok(self.lock_state().team.idempotency_records.get(key).cloned())
    }

    async fn save_response(&self, key: &str, answer: String) -> StoreResult<()> {
        if let Some(earlier) = self.lock_state().team.idempotency_records.get_mut(key) {
            earlier.answer = Some(answer.into());
        }
        Ok(())
    }

    async fn expire_records(&self, before: Timestamp) -> StoreResult<()> {
        self.lock_state().team.idempotency_records.retain(|_, earlier| earlier.at >= before);
        Ok(())
    }
}
