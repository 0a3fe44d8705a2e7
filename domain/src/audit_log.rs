//! The audit log: append-only rows, each sealed with the hash of the previous row.
//!
//! The hash of a row is SHA-256 over the previous row's hash, the row's number (8 bytes, big
//! endian) and its text. The first row follows 32 zero bytes. A changed, removed or inserted row
//! breaks the chain. To detect removed rows at the end, compare the newest hash that `audit verify`
//! prints.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::document::Version;
use crate::hash_text::hash_text;
use crate::identity::{CallChannel, TokenId, redact_secrets};
use crate::project_key::ProjectKey;
use crate::timestamp::Timestamp;

/// The result of a successful action.
pub const RESULT_OK: &str = "ok";
/// The action of the row that records the removal of expired rows.
pub const PRUNED_ACTION: &str = "audit/pruned";
/// The action of the row that revokes an earlier row, whose change was not committed.
pub const UNCONFIRMED_ACTION: &str = "audit/unconfirmed";
/// The action of the row that counts refused calls without a row of their own.
const OVERFLOW_ACTION: &str = "audit/overflow";
const MAX_TEXT_BYTES: usize = 500;

/// An operation to record. [`AuditRow::seal_after`] removes secrets from it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEvent {
    pub at: Timestamp,
    /// The user's name; empty for an unknown user.
    pub user: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<TokenId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<ProjectKey>,
    /// The tool's name, or a method such as `resources/read`.
    pub action: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<AuditTarget>,
    /// [`RESULT_OK`], or the name of an error kind.
    pub result: String,
    /// Duration in microseconds.
    pub micros: u64,
    pub correlation_id: String,
    /// The caller's `operation_description`, or details of the action.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Rows of earlier versions and of clients omit it.
    #[serde(default, skip_serializing_if = "CallChannel::is_default")]
    pub channel: CallChannel,
}

/// A document or resource that an action read or changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditTarget {
    /// A document as `kind name`, or the requested resource.
    pub name: String,
    /// The version before a change; `None` for a new document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Version>,
    /// The version after a change; `None` for a removed document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Version>,
}

impl AuditTarget {
    /// A target that is not changed.
    pub fn unchanged(name: impl Into<String>) -> Self {
        Self { name: name.into(), before: None, after: None }
    }

    pub fn is_changed(&self) -> bool {
        self.before != self.after
    }
}

/// The seal of a row.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RowHash(pub [u8; 32]);

impl RowHash {
    /// The hash that the first row follows.
    pub const FIRST: Self = Self([0; 32]);
}

hash_text!(RowHash);

/// Number and hash of the newest row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainHead {
    pub number: u64,
    pub hash: RowHash,
}

impl Default for ChainHead {
    fn default() -> Self {
        Self { number: 0, hash: RowHash::FIRST }
    }
}

/// A sealed row, which never changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRow {
    /// 1-based, without gaps.
    pub number: u64,
    pub hash: RowHash,
    /// The sealed [`AuditEvent`] as JSON.
    pub text: Arc<str>,
}

impl AuditRow {
    /// Redacts and seals an event after the newest row.
    pub fn seal_after(head: ChainHead, event: AuditEvent) -> Self {
        // Redacted before sealing, because a sealed row cannot be corrected.
        let text = serde_json::to_string(&event.redacted()).unwrap_or_default();
        let number = head.number + 1;
        Self { number, hash: seal_row(head.hash, number, &text), text: text.into() }
    }

    /// This row as the newest of the chain.
    pub fn head(&self) -> ChainHead {
        ChainHead { number: self.number, hash: self.hash }
    }

    /// The sealed event; `None` if a later version of Reqlore wrote an unknown form.
    pub fn parse_event(&self) -> Option<AuditEvent> {
        serde_json::from_str(&self.text).ok()
    }

    /// True if the row is unchanged and the previous row has this hash.
    pub fn follows(&self, previous: RowHash) -> bool {
        seal_row(previous, self.number, &self.text) == self.hash
    }
}

impl AuditEvent {
    /// True for a successful change of documents, users or tokens.
    pub fn is_change(&self) -> bool {
        let is_of_identity = ["user/", "token/"].iter().any(|kind| self.action.starts_with(kind));
        let is_identity_change = is_of_identity && !self.action.ends_with("/list");
        self.result == RESULT_OK
            && (is_identity_change || self.targets.iter().any(AuditTarget::is_changed))
    }

    fn without_user(action: &str, reason: String, at: Timestamp) -> Self {
        let (action, result) = (action.to_owned(), RESULT_OK.to_owned());
        Self { at, action, result, reason, ..Self::default() }
    }

    /// A rejected action of an unknown user.
    pub fn rejected(action: &str, result: &str, reason: String, at: Timestamp) -> Self {
        Self { result: result.to_owned(), ..Self::without_user(action, reason, at) }
    }

    /// The removal of the rows up to this number.
    pub fn pruned(up_to: u64, at: Timestamp) -> Self {
        Self::without_user(PRUNED_ACTION, up_to.to_string(), at)
    }

    /// The revocation of a row whose change was not committed.
    pub fn unconfirmed(number: u64, at: Timestamp) -> Self {
        Self::without_user(UNCONFIRMED_ACTION, number.to_string(), at)
    }

    /// Refused calls that have no row of their own, because the log could not be written for long.
    pub fn overflow(calls: u64, at: Timestamp) -> Self {
        let reason = format!("{calls} more calls were refused");
        Self::rejected(OVERFLOW_ACTION, "many", reason, at)
    }

    /// Removes secrets and truncates long texts.
    fn redacted(mut self) -> Self {
        redact_text(&mut self.user);
        redact_text(&mut self.action);
        redact_text(&mut self.result);
        redact_text(&mut self.correlation_id);
        redact_text(&mut self.reason);
        for target in &mut self.targets {
            redact_text(&mut target.name);
        }
        self
    }
}

/// Removes secrets and truncates a long text.
pub(crate) fn redact_text(text: &mut String) {
    if let Cow::Owned(redacted) = redact_secrets(text) {
        *text = redacted;
    }
    if text.len() > MAX_TEXT_BYTES {
        let mut end = MAX_TEXT_BYTES;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push('\u{2026}');
    }
}

fn seal_row(previous: RowHash, number: u64, text: &str) -> RowHash {
    let mut hash = Sha256::new();
    // The fixed lengths of the hash and the number keep the parts unambiguous.
    hash.update(previous.0);
    // With the number, equal rows have different hashes.
    hash.update(number.to_be_bytes());
    hash.update(text);
    RowHash(hash.finalize().into())
}

/// Verifies a chain, starting with its first existing row.
#[derive(Debug, Default)]
pub struct ChainVerifier {
    newest: Option<ChainHead>,
    /// The number of the row before the first existing one; 0 for a complete chain.
    removed_up_to: u64,
    /// The highest number of a removed row, according to the rows that record removals.
    pruned_up_to: u64,
    rows: u64,
}

impl ChainVerifier {
    /// Verifies the next rows. The error names the first invalid row.
    pub fn verify_rows(&mut self, rows: &[AuditRow]) -> Result<(), ChainError> {
        for row in rows {
            match self.newest {
                Some(newest) => {
                    let expected = newest.number + 1;
                    if row.number != expected {
                        return Err(ChainError::Missing { number: expected });
                    }
                    if !row.follows(newest.hash) {
                        return Err(ChainError::Changed { number: row.number });
                    }
                }
                // The previous row's hash is removed with that row, so the first row is not
                // checked.
                None if row.number > 1 => self.removed_up_to = row.number - 1,
                None if row.number == 1 && !row.follows(RowHash::FIRST) => {
                    return Err(ChainError::Changed { number: 1 });
                }
                None => {}
            }
            if let Some(event) = row.parse_event()
                && event.action == PRUNED_ACTION
                && let Ok(pruned_up_to) = event.reason.parse()
            {
                // Several removals may be recorded; the highest number counts.
                self.pruned_up_to = self.pruned_up_to.max(pruned_up_to);
            }
            self.newest = Some(row.head());
            self.rows += 1;
        }
        Ok(())
    }

    /// The number of rows and the newest row. Fails if rows were removed without a record.
    pub fn finish(self) -> Result<(u64, ChainHead), ChainError> {
        // Pruning records what it removes; any other removal is an attack or damage.
        if self.pruned_up_to < self.removed_up_to {
            return Err(ChainError::Missing { number: self.removed_up_to });
        }
        Ok((self.rows, self.newest.unwrap_or_default()))
    }
}

/// The first invalid row of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChainError {
    /// This row or the previous one was changed.
    Changed { number: u64 },
    /// This row was removed, but not because it expired.
    Missing { number: u64 },
}

impl fmt::Display for ChainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed { number } => write!(f, "row {number} or the row before it was changed"),
            Self::Missing { number } => write!(f, "row {number} is missing"),
        }
    }
}

#[cfg(test)]
mod tests;
