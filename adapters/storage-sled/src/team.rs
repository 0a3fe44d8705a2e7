//! Users, tokens, the audit log and idempotency records.
//!
//! The newest audit row may be pending, so rows are chained to [`Group::newest`]. It changes when a
//! batch is taken: rows that were chained into a batch that failed do not count.

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

use crate::database::{AUDIT, Batch, Database, EPOCH, KEYS, META, TOKENS, USERS};
use crate::error::of_sled;
use crate::records::{damaged_row, encode, first_piece, from_json, put_new_long, to_json};
use crate::write::Group;
use crate::{INLINE_READS, SledStore};

/// The most audit rows that are pruned at once: one transaction holds them all.
const MAX_PRUNED: usize = if cfg!(test) { 50 } else { 5_000 };

#[async_trait]
impl IdentityRepository for SledStore {
    async fn users(&self) -> StoreResult<Vec<User>> {
        self.query(false, Database::users).await
    }

    async fn tokens(&self) -> StoreResult<Vec<Token>> {
        self.query(false, Database::tokens).await
    }

    async fn token_owner(&self, id: &TokenId) -> StoreResult<Option<TokenOwner>> {
        let id = id.clone();
        let find = move |database: &Database| {
            let Some(token) = database.token(&id)? else { return Ok(None) };
            let user = database.user(&token.user)?;
            Ok(user.map(|user| TokenOwner { token, user }))
        };
        self.query(true, find).await
    }

    /// Does not wait for the writer. The epoch changes before the gate opens, so a caller that sees
    /// the new one reads the new users and tokens.
    async fn epoch(&self) -> StoreResult<u64> {
        Ok(self.opened()?.database.epoch.load(Ordering::Acquire))
    }

    async fn commit_identities(&self, commit: IdentityCommit) -> StoreResult<()> {
        self.write(|group| group.commit_identities(commit)).await
    }

    async fn record_use(&self, uses: Vec<(TokenId, Timestamp)>) -> StoreResult<()> {
        self.write(|group| group.record_uses(uses)).await
    }
}

#[async_trait]
impl AuditLog for SledStore {
    async fn record(&self, entries: Vec<AuditEvent>) -> StoreResult<()> {
        self.write(|group| group.record(entries)).await
    }

    async fn rows(&self, from: u64, limit: usize) -> StoreResult<Vec<AuditRow>> {
        let is_quick = limit <= INLINE_READS;
        self.query(is_quick, move |database| database.audit_rows(from).take(limit).collect()).await
    }

    async fn newest(&self) -> StoreResult<ChainHead> {
        self.query(true, Database::newest_row).await
    }

    async fn prune(&self, older_than: Timestamp, now: Timestamp) -> StoreResult<u64> {
        self.write(move |group| group.prune(older_than, now)).await
    }
}

#[async_trait]
impl IdempotencyStore for SledStore {
    async fn find_record(&self, key: &str) -> StoreResult<Option<IdempotencyRecord>> {
        let key = key.to_owned();
        self.query(true, move |database| database.find_record(&key)).await
    }

    async fn save_response(&self, key: &str, response: String) -> StoreResult<()> {
        let key = key.to_owned();
        self.write(move |group| group.save_response(&key, response)).await
    }

    async fn expire_records(&self, before: Timestamp) -> StoreResult<()> {
        self.write(move |group| group.expire_records(before)).await
    }
}

impl Database {
    pub(crate) fn users(&self) -> StoreResult<Vec<User>> {
        self.all_json(USERS)
    }

    /// The oldest first.
    pub(crate) fn tokens(&self) -> StoreResult<Vec<Token>> {
        let mut tokens: Vec<Token> = self.all_json(TOKENS)?;
        tokens.sort_by_key(|token| token.created_at);
        Ok(tokens)
    }

    fn user(&self, name: &UserName) -> StoreResult<Option<User>> {
        let value = self.long_value(USERS, name.key().as_bytes())?;
        value.map(|value| from_json(USERS, &value)).transpose()
    }

    fn token(&self, id: &TokenId) -> StoreResult<Option<Token>> {
        let value = self.long_value(TOKENS, id.as_str().as_bytes())?;
        value.map(|value| from_json(TOKENS, &value)).transpose()
    }

    /// All values of a tree by key.
    fn all_json<T: DeserializeOwned>(&self, tree: usize) -> StoreResult<Vec<T>> {
        let mut values = Vec::new();
        for entry in self.tree(tree) {
            let (key, row) = entry.map_err(of_sled)?;
            values.push(from_json(tree, &self.join_pieces(tree, &key, &row)?)?);
        }
        Ok(values)
    }

    pub(crate) fn put_user(&self, batch: &mut Batch, user: &User) -> StoreResult<()> {
        self.put_long(batch, USERS, user.name.key().as_bytes(), &to_json(user)?)
    }

    pub(crate) fn put_token(&self, batch: &mut Batch, token: &Token) -> StoreResult<()> {
        self.put_long(batch, TOKENS, token.id.as_str().as_bytes(), &to_json(token)?)
    }

    /// Returns the epoch to store in [`Database::epoch`] once the batch is written.
    pub(crate) fn put_next_epoch(&self, batch: &mut Batch) -> u64 {
        let epoch = self.epoch.load(Ordering::Acquire) + 1;
        batch.put(META, EPOCH, encode(EPOCH, &epoch));
        epoch
    }

    /// The audit rows from this number on.
    pub(crate) fn audit_rows(&self, from: u64) -> impl Iterator<Item = StoreResult<AuditRow>> {
        self.tree(AUDIT).range(from.to_be_bytes()..).map(|entry| {
            let (key, row) = entry.map_err(of_sled)?;
            self.audit_row(&key, &row)
        })
    }

    fn newest_row(&self) -> StoreResult<ChainHead> {
        match self.tree(AUDIT).last().map_err(of_sled)? {
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
        let (_, json) = value.split_first_chunk::<8>().ok_or_else(|| damaged_row(KEYS))?;
        from_json(KEYS, json).map(Some)
    }

    /// A record starts with its time, so that expiry needs the first piece only.
    pub(crate) fn put_record(
        &self,
        batch: &mut Batch,
        key: &str,
        record: &IdempotencyRecord,
    ) -> StoreResult<()> {
        let value = [&record.at.0.to_be_bytes()[..], &to_json(record)?].concat();
        self.put_long(batch, KEYS, key.as_bytes(), &value)
    }
}

/// Puts a row with a number that was never used before.
pub(crate) fn put_row(batch: &mut Batch, row: &AuditRow) {
    let value = [&row.hash.0, row.text.as_bytes()].concat();
    put_new_long(batch, AUDIT, &row.number.to_be_bytes(), &value);
}

fn decode_row(key: &[u8], value: &[u8]) -> Option<AuditRow> {
    let number = u64::from_be_bytes(key.try_into().ok()?);
    let (hash, text) = value.split_first_chunk()?;
    let text = std::str::from_utf8(text).ok()?;
    Some(AuditRow { number, hash: RowHash(*hash), text: text.into() })
}

impl Group {
    /// Commits at once, because the next identity commit reads the trees. It is rare.
    fn commit_identities(&mut self, mut commit: IdentityCommit) -> StoreResult<()> {
        let users = commit.users.iter().map(|name| self.database.user(name));
        let users: Vec<_> = users.collect::<StoreResult<_>>()?;
        let tokens = commit.tokens.iter().map(|id| self.database.token(id));
        let tokens: Vec<_> = tokens.collect::<StoreResult<_>>()?;
        let (changes, audit) = catch_panic(|| commit.decide(&users, &tokens))?;
        if changes.is_empty() {
            return Ok(());
        }
        let mut batch = Batch::default();
        for change in &changes {
            match change {
                IdentityChange::User(user) => self.database.put_user(&mut batch, user)?,
                IdentityChange::Token(token) => self.database.put_token(&mut batch, token)?,
            }
        }
        let epoch = self.database.put_next_epoch(&mut batch);
        let newest = self.append_events(&mut batch, audit)?;
        self.take(batch, newest);
        self.write()?;
        self.database.epoch.store(epoch, Ordering::Release);
        Ok(())
    }

    fn record_uses(&mut self, uses: Vec<(TokenId, Timestamp)>) -> StoreResult<()> {
        let mut last = BTreeMap::new();
        for (id, at) in uses {
            let known = last.entry(id).or_insert(at);
            *known = at.max(*known);
        }
        let mut batch = Batch::default();
        for (id, at) in last {
            let Some(token) = self.database.token(&id)? else { continue };
            if token.last_used_at.is_none_or(|known| known < at) {
                let token = Token { last_used_at: Some(at), ..token };
                self.database.put_token(&mut batch, &token)?;
            }
        }
        self.take(batch, None);
        self.write()
    }

    /// Chains events to the newest row. The caller passes the returned head to [`Group::take`].
    pub(crate) fn append_events(
        &self,
        batch: &mut Batch,
        events: impl IntoIterator<Item = AuditEvent>,
    ) -> StoreResult<Option<ChainHead>> {
        let mut newest = None;
        for event in events {
            let head = match newest.or(self.newest) {
                Some(head) => head,
                None => self.database.newest_row()?,
            };
            let row = AuditRow::after(head, event);
            put_row(batch, &row);
            newest = Some(row.head());
        }
        Ok(newest)
    }

    fn record(&mut self, events: Vec<AuditEvent>) -> StoreResult<()> {
        self.make_room()?;
        let mut batch = Batch::default();
        let newest = self.append_events(&mut batch, events)?;
        self.take(batch, newest);
        Ok(())
    }

    fn prune(&mut self, older_than: Timestamp, now: Timestamp) -> StoreResult<u64> {
        // The oldest rows may be pending.
        self.write()?;
        let mut batch = Batch::default();
        let (mut last, mut pruned) = (0, 0);
        let database = Arc::clone(&self.database);
        for row in database.audit_rows(0).take(MAX_PRUNED) {
            let row = row?;
            let Some(event) = row.entry() else {
                tracing::warn!(
                    row = row.number,
                    "an audit row can't be read, so its age is unknown; it stays, and so do all \
                     rows after it. `reqlore audit verify` says more"
                );
                break;
            };
            if event.at >= older_than {
                break;
            }
            database.remove_long(&mut batch, AUDIT, &row.number.to_be_bytes())?;
            (last, pruned) = (row.number, pruned + 1);
        }
        if pruned > 0 {
            let newest = self.append_events(&mut batch, [AuditEvent::pruned(last, now)])?;
            self.take(batch, newest);
        }
        Ok(pruned)
    }

    pub(crate) fn check_idempotency(&mut self, act: &WriteContext) -> StoreResult<()> {
        let Some(once) = &act.idempotency_key else { return Ok(()) };
        let record = self.find_record(&once.key)?;
        act.check_idempotency(record)
    }

    fn find_record(&mut self, key: &str) -> StoreResult<Option<IdempotencyRecord>> {
        if self.pending.get(KEYS, key.as_bytes()).is_some() {
            self.write()?;
        }
        self.database.find_record(key)
    }

    fn save_response(&mut self, key: &str, response: String) -> StoreResult<()> {
        self.make_room()?;
        let Some(record) = self.find_record(key)? else { return Ok(()) };
        let record = IdempotencyRecord { answer: Some(response.into()), ..record };
        let mut batch = Batch::default();
        self.database.put_record(&mut batch, key, &record)?;
        self.take(batch, None);
        Ok(())
    }

    /// Damaged records stay: their keys may be valid.
    fn expire_records(&mut self, before: Timestamp) -> StoreResult<()> {
        self.write()?;
        let rows = self.database.tree(KEYS).iter();
        for entry in rows {
            let (key, row) = entry.map_err(of_sled)?;
            let time = first_piece(&key, &row).and_then(|(_, first)| first.first_chunk());
            if time.is_some_and(|time| Timestamp(i64::from_be_bytes(*time)) < before) {
                let mut batch = Batch::default();
                self.database.remove_long(&mut batch, KEYS, &key)?;
                self.take(batch, None);
                self.make_room()?;
            }
        }
        Ok(())
    }
}
