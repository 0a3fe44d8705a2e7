//! Users, tokens, the audit log and idempotency records.
//!
//! The newest audit row may be pending, so new rows are chained to [`CommitGroup::newest`]. It
//! changes only when a batch becomes pending, so rows of a failed batch are not in the chain.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use reqlore_domain::audit_log::{AuditEvent, AuditRow, ChainHead, RowHash};
use reqlore_domain::identity::{Token, TokenId, TokenOwner, User, UserName};
use reqlore_domain::ports::audit::AuditLog;
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::ports::idempotency::{IdempotencyRecord, IdempotencyStore};
use reqlore_domain::ports::identity::{IdentityChange, IdentityCommit, IdentityRepository};
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::timestamp::Timestamp;
use reqlore_group_commit::catch_panic;
use serde::de::DeserializeOwned;

use crate::database::{AUDIT, EPOCH_KEY, KEYS, META, SledDatabase, TOKENS, TreeBatch, USERS};
use crate::error::from_sled;
use crate::records::{damaged_row, encode, first_piece, from_json, put_new_long, to_json};
use crate::write::CommitGroup;
use crate::{INLINE_READS, SledStore};

/// Maximum number of audit rows that one prune removes, because they share one transaction.
const MAX_PRUNED_ROWS: usize = if cfg!(test) { 50 } else { 5_000 };

#[async_trait]
impl IdentityRepository for SledStore {
    async fn list_users(&self) -> StoreResult<Vec<User>> {
        self.run_query(false, SledDatabase::list_users).await
    }

    async fn list_tokens(&self) -> StoreResult<Vec<Token>> {
        self.run_query(false, SledDatabase::list_tokens).await
    }

    async fn token_owner(&self, id: &TokenId) -> StoreResult<Option<TokenOwner>> {
        let id = id.clone();
        self.run_query(true, move |database| database.read_token_owner(&id)).await
    }

    /// Does not wait for the writer. The epoch changes before the gate opens, so a caller with the
    /// new epoch reads the new users and tokens.
    async fn identity_epoch(&self) -> StoreResult<u64> {
        Ok(self.open_store()?.database.epoch.load(Ordering::Acquire))
    }

    async fn commit_identities(&self, commit: IdentityCommit) -> StoreResult<()> {
        self.run_write(|group| group.commit_identities(commit)).await
    }

    async fn record_use(&self, uses: Vec<(TokenId, Timestamp)>) -> StoreResult<()> {
        self.run_write(|group| group.record_uses(uses)).await
    }

    async fn expire_sessions(&self, now: Timestamp) -> StoreResult<()> {
        self.run_write(move |group| group.expire_sessions(now)).await
    }
}

#[async_trait]
impl AuditLog for SledStore {
    async fn append_events(&self, events: Vec<AuditEvent>) -> StoreResult<()> {
        self.run_write(|group| group.record_events(events)).await
    }

    async fn rows(&self, from: u64, limit: usize) -> StoreResult<Vec<AuditRow>> {
        let is_quick = limit <= INLINE_READS;
        self.run_query(is_quick, move |database| database.audit_rows(from).take(limit).collect())
            .await
    }

    async fn newest(&self) -> StoreResult<ChainHead> {
        self.run_query(true, SledDatabase::newest_row).await
    }

    async fn prune(&self, older_than: Timestamp, now: Timestamp) -> StoreResult<u64> {
        self.run_write(move |group| group.prune_rows(older_than, now)).await
    }
}

#[async_trait]
impl IdempotencyStore for SledStore {
    async fn find_record(&self, key: &str) -> StoreResult<Option<IdempotencyRecord>> {
        let key = key.to_owned();
        self.run_query(true, move |database| database.find_record(&key)).await
    }

    async fn save_response(&self, key: &str, response: String) -> StoreResult<()> {
        let key = key.to_owned();
        self.run_write(move |group| group.save_response(&key, response)).await
    }

    async fn expire_records(&self, before: Timestamp) -> StoreResult<()> {
        self.run_write(move |group| group.expire_records(before)).await
    }
}

impl SledDatabase {
    pub(crate) fn list_users(&self) -> StoreResult<Vec<User>> {
        self.read_all_json(USERS)
    }

    /// Returns all tokens without sessions, the oldest first.
    pub(crate) fn list_tokens(&self) -> StoreResult<Vec<Token>> {
        let mut tokens: Vec<Token> = self.read_all_json(TOKENS)?;
        tokens.retain(|token| !token.is_session());
        tokens.sort_by_key(|token| token.created_at);
        Ok(tokens)
    }

    fn read_user(&self, name: &UserName) -> StoreResult<Option<User>> {
        match self.long_value(USERS, name.key().as_bytes())? {
            Some(value) => Ok(Some(from_json(USERS, &value)?)),
            None => Ok(None),
        }
    }

    fn read_token(&self, id: &TokenId) -> StoreResult<Option<Token>> {
        match self.long_value(TOKENS, id.as_str().as_bytes())? {
            Some(value) => Ok(Some(from_json(TOKENS, &value)?)),
            None => Ok(None),
        }
    }

    fn read_token_owner(&self, id: &TokenId) -> StoreResult<Option<TokenOwner>> {
        let Some(token) = self.read_token(id)? else { return Ok(None) };
        match self.read_user(&token.user)? {
            Some(user) => Ok(Some(TokenOwner { token, user })),
            None => Ok(None),
        }
    }

    /// Returns all values of a tree, sorted by key.
    fn read_all_json<T: DeserializeOwned>(&self, tree: usize) -> StoreResult<Vec<T>> {
        let mut values = Vec::new();
        for entry in self.tree(tree) {
            let (key, row) = entry.map_err(from_sled)?;
            values.push(from_json(tree, &self.join_pieces(tree, &key, &row)?)?);
        }
        Ok(values)
    }

    pub(crate) fn put_user(&self, batch: &mut TreeBatch, user: &User) -> StoreResult<()> {
        self.put_long(batch, USERS, user.name.key().as_bytes(), &to_json(user)?)
    }

    pub(crate) fn put_token(&self, batch: &mut TreeBatch, token: &Token) -> StoreResult<()> {
        self.put_long(batch, TOKENS, token.id.as_str().as_bytes(), &to_json(token)?)
    }

    /// Returns the epoch to store in [`SledDatabase::epoch`] after the batch is written.
    pub(crate) fn put_next_epoch(&self, batch: &mut TreeBatch) -> u64 {
        let epoch = self.epoch.load(Ordering::Acquire) + 1;
        batch.put(META, EPOCH_KEY, encode(EPOCH_KEY, &epoch));
        epoch
    }

    /// Iterates over the audit rows from this number on.
    pub(crate) fn audit_rows(&self, from: u64) -> impl Iterator<Item = StoreResult<AuditRow>> {
        self.tree(AUDIT).range(from.to_be_bytes()..).map(|entry| {
            let (key, row) = entry.map_err(from_sled)?;
            self.audit_row(&key, &row)
        })
    }

    /// Adds an event to the batch of a database without pending rows.
    pub(crate) fn append_event(
        &self,
        batch: &mut TreeBatch,
        event: Option<AuditEvent>,
    ) -> StoreResult<()> {
        if let Some(event) = event {
            put_row(batch, &AuditRow::seal_after(self.newest_row()?, event));
        }
        Ok(())
    }

    fn newest_row(&self) -> StoreResult<ChainHead> {
        match self.tree(AUDIT).last().map_err(from_sled)? {
            Some((key, row)) => Ok(self.audit_row(&key, &row)?.head()),
            None => Ok(ChainHead::default()),
        }
    }

    pub(crate) fn audit_row(&self, key: &[u8], row: &[u8]) -> StoreResult<AuditRow> {
        let value = self.join_pieces(AUDIT, key, row)?;
        decode_row(key, &value).ok_or_else(|| damaged_row(AUDIT))
    }

    fn find_record(&self, key: &str) -> StoreResult<Option<IdempotencyRecord>> {
        let Some(value) = self.long_value(KEYS, key.as_bytes())? else { return Ok(None) };
        let Some((_time, json)) = value.split_first_chunk::<8>() else {
            return Err(damaged_row(KEYS));
        };
        Ok(Some(from_json(KEYS, json)?))
    }

    /// Stores a record after its time, so that the expiry reads only the first piece.
    pub(crate) fn put_record(
        &self,
        batch: &mut TreeBatch,
        key: &str,
        record: &IdempotencyRecord,
    ) -> StoreResult<()> {
        let value = [&record.at.0.to_be_bytes()[..], &to_json(record)?].concat();
        self.put_long(batch, KEYS, key.as_bytes(), &value)
    }
}

/// Stores a row under a number that was never used before.
pub(crate) fn put_row(batch: &mut TreeBatch, row: &AuditRow) {
    let value = [&row.hash.0, row.text.as_bytes()].concat();
    put_new_long(batch, AUDIT, &row.number.to_be_bytes(), &value);
}

fn decode_row(key: &[u8], value: &[u8]) -> Option<AuditRow> {
    let number = u64::from_be_bytes(key.try_into().ok()?);
    let (hash, text) = value.split_first_chunk()?;
    let text = std::str::from_utf8(text).ok()?;
    Some(AuditRow { number, hash: RowHash(*hash), text: text.into() })
}

impl CommitGroup {
    /// Writes its changes without waiting for more, because the next identity commit reads the
    /// trees. Identity commits are rare.
    fn commit_identities(&mut self, mut commit: IdentityCommit) -> StoreResult<()> {
        let mut users = Vec::with_capacity(commit.users.len());
        for name in &commit.users {
            users.push(self.database.read_user(name)?);
        }
        let mut tokens = Vec::with_capacity(commit.tokens.len());
        for id in &commit.tokens {
            tokens.push(self.database.read_token(id)?);
        }
        let (changes, audit) = catch_panic(|| commit.decide(&users, &tokens))?;
        if changes.is_empty() {
            return Ok(());
        }
        let mut batch = TreeBatch::default();
        for change in &changes {
            match change {
                IdentityChange::User(user) => self.database.put_user(&mut batch, user)?,
                IdentityChange::Token(token) => self.database.put_token(&mut batch, token)?,
            }
        }
        let epoch = self.database.put_next_epoch(&mut batch);
        let newest = self.append_events(&mut batch, audit)?;
        self.add_pending(batch, newest);
        self.write_pending()?;
        // Readers wait for the gate, so they see the new users with the new epoch.
        self.database.epoch.store(epoch, Ordering::Release);
        Ok(())
    }

    fn record_uses(&mut self, uses: Vec<(TokenId, Timestamp)>) -> StoreResult<()> {
        // A token is read from the tree, so a second put in one batch would undo the first.
        let mut last_uses = BTreeMap::new();
        for (id, at) in uses {
            let last_use = last_uses.entry(id).or_insert(at);
            *last_use = at.max(*last_use);
        }
        let mut batch = TreeBatch::default();
        for (id, at) in last_uses {
            let Some(token) = self.database.read_token(&id)? else { continue };
            if token.last_used_at < Some(at) {
                let token = Token { last_used_at: Some(at), ..token };
                self.database.put_token(&mut batch, &token)?;
            }
        }
        self.add_pending(batch, None);
        self.write_pending()
    }

    fn expire_sessions(&mut self, now: Timestamp) -> StoreResult<()> {
        let tokens: Vec<Token> = self.database.read_all_json(TOKENS)?;
        let mut batch = TreeBatch::default();
        for token in tokens {
            if token.is_ended_session(now) {
                self.database.remove_long(&mut batch, TOKENS, token.id.as_str().as_bytes())?;
            }
        }
        self.add_pending(batch, None);
        self.write_pending()
    }

    /// Chains events to the newest row. The caller passes the returned head to
    /// [`CommitGroup::add_pending`].
    pub(crate) fn append_events(
        &self,
        batch: &mut TreeBatch,
        events: impl IntoIterator<Item = AuditEvent>,
    ) -> StoreResult<Option<ChainHead>> {
        let mut newest = None;
        for event in events {
            let head = match newest.or(self.newest) {
                Some(head) => head,
                None => self.database.newest_row()?,
            };
            let row = AuditRow::seal_after(head, event);
            put_row(batch, &row);
            newest = Some(row.head());
        }
        Ok(newest)
    }

    fn record_events(&mut self, events: Vec<AuditEvent>) -> StoreResult<()> {
        self.write_if_full()?;
        let mut batch = TreeBatch::default();
        let newest = self.append_events(&mut batch, events)?;
        self.add_pending(batch, newest);
        Ok(())
    }

    fn prune_rows(&mut self, older_than: Timestamp, now: Timestamp) -> StoreResult<u64> {
        // The oldest rows may be pending.
        self.write_pending()?;
        let mut batch = TreeBatch::default();
        let (mut last_number, mut pruned) = (0, 0);
        let database = Arc::clone(&self.database);
        for row in database.audit_rows(0).take(MAX_PRUNED_ROWS) {
            let row = row?;
            let Some(event) = row.parse_event() else {
                tracing::warn!(
                    row = row.number,
                    "an audit row is unreadable, so it and all later rows are kept; run `reqlore \
                     audit verify`"
                );
                break;
            };
            if event.at >= older_than {
                break;
            }
            database.remove_long(&mut batch, AUDIT, &row.number.to_be_bytes())?;
            last_number = row.number;
            pruned += 1;
        }
        if pruned > 0 {
            // Removed rows are in the tree until the batch is written, so the chain continues.
            let newest = self.append_events(&mut batch, [AuditEvent::pruned(last_number, now)])?;
            self.add_pending(batch, newest);
        }
        Ok(pruned)
    }

    pub(crate) fn check_idempotency(&mut self, context: &WriteContext) -> StoreResult<()> {
        let Some(idempotency) = &context.idempotency_key else { return Ok(()) };
        let record = self.find_record(&idempotency.key)?;
        context.check_idempotency(record)
    }

    fn find_record(&mut self, key: &str) -> StoreResult<Option<IdempotencyRecord>> {
        // Long values are read from the trees only.
        if self.pending.get(KEYS, key.as_bytes()).is_some() {
            self.write_pending()?;
        }
        self.database.find_record(key)
    }

    fn save_response(&mut self, key: &str, response: String) -> StoreResult<()> {
        self.write_if_full()?;
        let Some(record) = self.find_record(key)? else { return Ok(()) };
        let record = IdempotencyRecord { answer: Some(response.into()), ..record };
        let mut batch = TreeBatch::default();
        self.database.put_record(&mut batch, key, &record)?;
        self.add_pending(batch, None);
        Ok(())
    }

    /// Erases all stored responses. Their writes still happen once.
    pub(crate) fn erase_responses(&mut self) -> StoreResult<()> {
        self.write_pending()?;
        let database = Arc::clone(&self.database);
        for key in database.tree(KEYS).iter().keys() {
            let key = key.map_err(from_sled)?;
            let Ok(key) = std::str::from_utf8(&key) else { continue };
            let Some(record) = database.find_record(key)? else { continue };
            if record.answer.is_some() {
                let mut batch = TreeBatch::default();
                let record = IdempotencyRecord { answer: None, ..record };
                database.put_record(&mut batch, key, &record)?;
                self.add_pending(batch, None);
                self.write_if_full()?;
            }
        }
        Ok(())
    }

    /// Keeps damaged records, because their keys may still be valid.
    fn expire_records(&mut self, before: Timestamp) -> StoreResult<()> {
        // Pending records are not in the tree yet.
        self.write_pending()?;
        let rows = self.database.tree(KEYS).iter();
        for entry in rows {
            let (key, row) = entry.map_err(from_sled)?;
            let Some((_, first)) = first_piece(&key, &row) else { continue };
            let Some(time) = first.first_chunk() else { continue };
            if Timestamp(i64::from_be_bytes(*time)) < before {
                let mut batch = TreeBatch::default();
                self.database.remove_long(&mut batch, KEYS, &key)?;
                self.add_pending(batch, None);
                self.write_if_full()?;
            }
        }
        Ok(())
    }
}
