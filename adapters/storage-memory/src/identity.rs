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

/// Everything that the store keeps besides documents.
#[derive(Debug, Default)]
pub(crate) struct TeamState {
    /// Users by [`UserName::key`](reqlore_domain::identity::UserName::key).
    pub(crate) users: BTreeMap<String, User>,
    pub(crate) tokens: BTreeMap<TokenId, Token>,
    epoch: u64,
    pub(crate) rows: Vec<AuditRow>,
    pub(crate) idempotency_records: BTreeMap<String, IdempotencyRecord>,
}

impl TeamState {
    pub(crate) fn check_idempotency(&self, context: &WriteContext) -> StoreResult<()> {
        let record = match &context.idempotency_key {
            Some(idempotency) => self.idempotency_records.get(&idempotency.key).cloned(),
            None => None,
        };
        context.check_idempotency(record)
    }

    pub(crate) fn newest_row(&self) -> ChainHead {
        self.rows.last().map(AuditRow::head).unwrap_or_default()
    }

    pub(crate) fn append_events(&mut self, events: impl IntoIterator<Item = AuditEvent>) {
        for event in events {
            self.rows.push(AuditRow::seal_after(self.newest_row(), event));
        }
    }

    /// Returns all tokens without sessions, the oldest first.
    pub(crate) fn tokens_by_age(&self) -> Vec<Token> {
        let mut tokens: Vec<Token> = self.tokens.values().cloned().collect();
        tokens.retain(|token| !token.is_session());
        tokens.sort_by_key(|token| token.created_at);
        tokens
    }

    fn commit_identities(&mut self, mut commit: IdentityCommit) -> StoreResult<()> {
        let mut users = Vec::new();
        for name in &commit.users {
            users.push(self.users.get(&name.key()).cloned());
        }
        let mut tokens = Vec::new();
        for id in &commit.tokens {
            tokens.push(self.tokens.get(id).cloned());
        }
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
    async fn list_users(&self) -> StoreResult<Vec<User>> {
        Ok(self.lock_state().team.users.values().cloned().collect())
    }

    async fn list_tokens(&self) -> StoreResult<Vec<Token>> {
        Ok(self.lock_state().team.tokens_by_age())
    }

    async fn token_owner(&self, id: &TokenId) -> StoreResult<Option<TokenOwner>> {
        let team = &self.lock_state().team;
        let Some(token) = team.tokens.get(id) else { return Ok(None) };
        let Some(user) = team.users.get(&token.user.key()) else { return Ok(None) };
        Ok(Some(TokenOwner { token: token.clone(), user: user.clone() }))
    }

    async fn identity_epoch(&self) -> StoreResult<u64> {
        Ok(self.lock_state().team.epoch)
    }

    async fn commit_identities(&self, commit: IdentityCommit) -> StoreResult<()> {
        self.lock_state().team.commit_identities(commit)
    }

    async fn record_use(&self, uses: Vec<(TokenId, Timestamp)>) -> StoreResult<()> {
        let mut state = self.lock_state();
        for (id, at) in uses {
            if let Some(token) = state.team.tokens.get_mut(&id) {
                // Uses may arrive out of order.
                token.last_used_at = token.last_used_at.max(Some(at));
            }
        }
        Ok(())
    }

    async fn expire_sessions(&self, now: Timestamp) -> StoreResult<()> {
        self.lock_state().team.tokens.retain(|_, token| !token.is_ended_session(now));
        Ok(())
    }
}

#[async_trait]
impl AuditLog for MemoryStore {
    async fn append_events(&self, events: Vec<AuditEvent>) -> StoreResult<()> {
        self.lock_state().team.append_events(events);
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
        let mut count = 0;
        // An unreadable row has an unknown age, so it ends the pruning.
        while let Some(event) = team.rows.get(count).and_then(AuditRow::parse_event)
            && event.at < older_than
        {
            count += 1;
        }
        if count == 0 {
            return Ok(0);
        }
        let event = AuditEvent::pruned(team.rows[count - 1].number, now);
        // Appended before the removal, because the newest row may be pruned too.
        team.append_events([event]);
        team.rows.drain(..count);
        Ok(count as u64)
    }
}

#[async_trait]
impl IdempotencyStore for MemoryStore {
    async fn find_record(&self, key: &str) -> StoreResult<Option<IdempotencyRecord>> {
        Ok(self.lock_state().team.idempotency_records.get(key).cloned())
    }

    async fn save_response(&self, key: &str, answer: String) -> StoreResult<()> {
        if let Some(record) = self.lock_state().team.idempotency_records.get_mut(key) {
            record.answer = Some(answer.into());
        }
        Ok(())
    }

    async fn expire_records(&self, before: Timestamp) -> StoreResult<()> {
        self.lock_state().team.idempotency_records.retain(|_, record| record.at >= before);
        Ok(())
    }
}
