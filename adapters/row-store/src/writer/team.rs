//! Changes of users, tokens, the audit log, idempotency records and claims.

use reqlore_domain::audit_log::AuditEvent;
use reqlore_domain::backlog::claim::{ClaimChange, ClaimDecision};
use reqlore_domain::idempotency::IdempotencyRecord;
use reqlore_domain::identity::{Token, TokenId};
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::ports::identity::{IdentityChange, IdentityCommit};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use reqlore_group_commit::catch_panic;

use crate::records::{
    claim_row_key, decode_audit_row, decode_claim, decode_record, decode_token, decode_user,
    encode_claim, encode_record, encode_token, encode_user, integer, project_key,
};
use crate::row::{RowQuery, TableRow, Value};
use crate::tables::{AUDIT, CLAIMS, IDEMPOTENCY, SERVER_GROUPS, TOKENS, USERS};
use crate::writer::history::STEP_ROWS;
use crate::writer::{GroupWriterEngine, random};

impl GroupWriterEngine {
    pub(crate) fn commit_identities(&mut self, commit: &mut IdentityCommit) -> StoreResult<()> {
        let mut users = Vec::with_capacity(commit.users.len());
        for name in &commit.users {
            let row = self.transaction.row(&USERS, &TableRow::of(&[(&name.key()).into()]))?;
            users.push(row.as_ref().map(decode_user).transpose()?);
        }
        let mut tokens = Vec::with_capacity(commit.tokens.len());
        for id in &commit.tokens {
            tokens.push(self.token(id)?);
        }
        let (changes, event) = catch_panic(|| commit.decide(&users, &tokens))?;
        if changes.is_empty() {
            return Ok(());
        }
        for change in &changes {
            match change {
                IdentityChange::User(user) => self.transaction.put(&USERS, encode_user(user)?),
                IdentityChange::Token(token) => {
                    self.transaction.put(&TOKENS, encode_token(token)?);
                }
            }
        }
        self.renew_epoch()?;
        self.append_events(event)
    }

    /// Invalidates the caches of all servers. A random number never returns, even if a standby
    /// that lacked the newest commits took over.
    pub(crate) fn renew_epoch(&mut self) -> StoreResult<()> {
        let mut row = self.store_row()?;
        row.epoch = i64::from_be_bytes(random()?) & i64::MAX;
        self.put_store_row(&row);
        Ok(())
    }

    fn token(&mut self, id: &TokenId) -> StoreResult<Option<Token>> {
        let row = self.transaction.row(&TOKENS, &TableRow::of(&[id.as_str().into()]))?;
        row.as_ref().map(decode_token).transpose()
    }

    /// Records last uses. A stored later time is kept.
    pub(crate) fn record_uses(&mut self, uses: &[(TokenId, Timestamp)]) -> StoreResult<()> {
        let key = |(id, _): &(TokenId, _)| TableRow::of(&[id.as_str().into()]);
        self.transaction.load(uses.iter().map(|one| (&TOKENS as _, key(one))))?;
        for (id, at) in uses {
            let Some(token) = self.token(id)? else { continue };
            if token.last_used_at < Some(*at) {
                let token = Token { last_used_at: Some(*at), ..token };
                self.transaction.put(&TOKENS, encode_token(&token)?);
            }
        }
        Ok(())
    }

    pub(crate) fn expire_sessions(&mut self, now: Timestamp) -> StoreResult<()> {
        for row in self.transaction.select(&[RowQuery::all(&TOKENS)])?.into_iter().flatten() {
            let token = decode_token(&row)?;
            if token.is_ended_session(now) {
                self.transaction.delete(&TOKENS, row.prefix(TOKENS.key_width));
            }
        }
        Ok(())
    }

    /// Removes the oldest rows of the audit log, at most [`STEP_ROWS`]. Returns their number.
    pub(crate) fn prune_rows(
        &mut self,
        older_than: Timestamp,
        now: Timestamp,
    ) -> StoreResult<usize> {
        let query = RowQuery::all(&AUDIT).sorted_by(&["number"]).limited_to(STEP_ROWS);
        let mut old = Vec::new();
        for row in self.transaction.select_one(query)? {
            let row = decode_audit_row(&row)?;
            match row.parse_event() {
                Some(event) if event.at < older_than => old.push(row.number),
                // Only the oldest rows are removed, so that the chain has no gap.
                Some(_) => break,
                None => {
                    tracing::warn!(
                        row = row.number,
                        "an audit row is unreadable, so it and all later rows are kept; run \
                         `reqlore audit verify`"
                    );
                    break;
                }
            }
        }
        let Some(last) = old.last() else { return Ok(0) };
        self.append_events([AuditEvent::pruned(*last, now)])?;
        for number in &old {
            self.transaction.delete(&AUDIT, TableRow::of(&[integer(*number)]));
        }
        Ok(old.len())
    }

    pub(crate) fn save_answer(&mut self, key: &str, answer: &str) -> StoreResult<()> {
        let row = self.transaction.row(&IDEMPOTENCY, &TableRow::of(&[key.into()]))?;
        if let Some(row) = row {
            let record = decode_record(&row)?;
            let record = IdempotencyRecord { answer: Some(answer.into()), ..record };
            self.transaction.put(&IDEMPOTENCY, encode_record(key, &record)?);
        }
        Ok(())
    }

    /// Deletes the oldest records of writes before this time, at most [`STEP_ROWS`]. Returns their
    /// number. Also deletes the last groups of writers that ended before this time.
    pub(crate) fn expire_records(&mut self, before: Timestamp) -> StoreResult<usize> {
        if self.is_remote {
            // A group without a time has no newer one to compare with, so it stays.
            let groups = RowQuery::all(&SERVER_GROUPS)
                .within("at", Value::Integer(1)..before.0.into())
                .limited_to(STEP_ROWS);
            for row in self.transaction.select_one(groups)? {
                self.transaction.delete(&SERVER_GROUPS, row.prefix(SERVER_GROUPS.key_width));
            }
        }
        let query = RowQuery::all(&IDEMPOTENCY)
            .within("at", Value::Integer(i64::MIN)..before.0.into())
            .sorted_by(&["at"])
            .limited_to(STEP_ROWS);
        let rows = self.transaction.select_one(query)?;
        let count = rows.len();
        for row in rows {
            self.transaction.delete(&IDEMPOTENCY, row.prefix(IDEMPOTENCY.key_width));
        }
        Ok(count)
    }

    /// Decides a change of a claim. Removes the claims of the project that have ended.
    pub(crate) fn change_claim(
        &mut self,
        project: &ProjectKey,
        change: &ClaimChange,
        now: Timestamp,
    ) -> StoreResult<ClaimDecision> {
        let key = claim_row_key(project, &change.story);
        let mut stored = None;
        let of_project = RowQuery::keys(&CLAIMS, vec![project_key(project)]);
        for row in self.transaction.select_one(of_project)? {
            let (claim, row_key) = (decode_claim(&row)?, row.prefix(CLAIMS.key_width));
            if row_key == key {
                stored = Some(claim);
            } else if !claim.is_live(now) {
                self.transaction.delete(&CLAIMS, row_key);
            }
        }
        let decision = change.decide(stored.as_ref(), now);
        match &decision {
            Ok(Some(claim)) => self.transaction.put(&CLAIMS, encode_claim(project, claim)),
            Ok(None) if stored.is_some() => self.transaction.delete(&CLAIMS, key),
            _ => {}
        }
        Ok(decision)
    }
}
