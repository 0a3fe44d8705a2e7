//! The audit log: append-only rows, each sealed with the hash of the previous row.
//!
//! A row's hash is SHA-256 over the previous row's hash, the row's number (8 bytes, big endian) and
//! its text. The first row follows 32 zero bytes. A changed, removed or inserted row breaks the
//! chain. A truncated chain lacks the newest hash, which `audit verify` prints.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::document::Version;
use crate::identity::{TokenId, redact};
use crate::project_key::ProjectKey;
use crate::timestamp::Timestamp;

/// The result of a successful action.
pub const OK: &str = "ok";
/// The action of a row that records the removal of expired rows.
pub const PRUNED: &str = "audit/pruned";
/// The action of a row that revokes an earlier row whose change was not committed.
pub const UNCONFIRMED: &str = "audit/unconfirmed";
/// Maximum length of a stored text, in bytes.
const MAX_TEXT: usize = 500;

/// One audited action. [`AuditRow::after`] removes secrets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEvent {
    pub at: Timestamp,
    /// The user's name; empty for an unknown user.
    pub user: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<TokenId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<ProjectKey>,
    /// The tool's name, or a method like `resources/read`.
    pub action: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<AuditTarget>,
    /// `ok`, or the kind of the error.
    pub result: String,
    /// Duration in microseconds.
    pub micros: u64,
    pub correlation_id: String,
    /// The caller's `operation_description`, or details.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
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
    pub fn read(name: impl Into<String>) -> Self {
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
    /// The hash before the first row.
    pub const FIRST: Self = Self([0; 32]);
}

impl fmt::Display for RowHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for RowHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl TryFrom<String> for RowHash {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        let mut hash = [0; 32];
        let read = hex::decode_to_slice(&text, &mut hash);
        read.map(|()| Self(hash)).map_err(|_| "a hash is 64 hexadecimal digits")
    }
}

impl From<RowHash> for String {
    fn from(hash: RowHash) -> Self {
        hash.to_string()
    }
}

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

/// A sealed row. Storages never change it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRow {
    /// Counted from 1, without gaps.
    pub number: u64,
    pub hash: RowHash,
    /// The sealed [`AuditEvent`] in JSON.
    pub text: Arc<str>,
}

impl AuditRow {
    /// Seals an event after the newest row.
    pub fn after(head: ChainHead, entry: AuditEvent) -> Self {
        let text = serde_json::to_string(&entry.clean()).unwrap_or_default();
        let number = head.number + 1;
        Self { number, hash: seal(head.hash, number, &text), text: text.into() }
    }

    pub fn head(&self) -> ChainHead {
        ChainHead { number: self.number, hash: self.hash }
    }

    /// `None` if a later version wrote an unknown form.
    pub fn entry(&self) -> Option<AuditEvent> {
        serde_json::from_str(&self.text).ok()
    }

    /// True if the row is unchanged and follows this hash.
    pub fn follows(&self, previous: RowHash) -> bool {
        seal(previous, self.number, &self.text) == self.hash
    }
}

impl AuditEvent {
    fn without_user(action: &str, reason: String, at: Timestamp) -> Self {
        let (action, result) = (action.to_owned(), OK.to_owned());
        Self { at, action, result, reason, ..Self::default() }
    }

    /// A refused action of an unknown user.
    pub fn refused(action: &str, result: &str, reason: String, at: Timestamp) -> Self {
        Self { result: result.to_owned(), ..Self::without_user(action, reason, at) }
    }

    /// The rows up to this number expired.
    pub fn pruned(up_to: u64, at: Timestamp) -> Self {
        Self::without_user(PRUNED, up_to.to_string(), at)
    }

    /// The change of this row was not committed.
    pub fn unconfirmed(number: u64, at: Timestamp) -> Self {
        Self::without_user(UNCONFIRMED, number.to_string(), at)
    }

    /// Removes secrets and cuts long texts.
    fn clean(mut self) -> Self {
        let texts = [
            &mut self.user,
            &mut self.action,
            &mut self.result,
            &mut self.correlation_id,
            &mut self.reason,
        ];
        let targets = self.targets.iter_mut().map(|target| &mut target.name);
        for text in texts.into_iter().chain(targets) {
            if let std::borrow::Cow::Owned(clean) = redact(text) {
                *text = clean;
            }
            if text.len() > MAX_TEXT {
                let end = (0..=MAX_TEXT).rev().find(|end| text.is_char_boundary(*end));
                text.truncate(end.unwrap_or_default());
                text.push('\u{2026}');
            }
        }
        self
    }
}

fn seal(previous: RowHash, number: u64, text: &str) -> RowHash {
    let mut hash = Sha256::new();
    hash.update(previous.0);
    hash.update(number.to_be_bytes());
    hash.update(text);
    RowHash(hash.finalize().into())
}

/// Verifies a chain from its first existing row.
#[derive(Debug, Default)]
pub struct ChainVerifier {
    newest: Option<ChainHead>,
    /// The number before the first existing row.
    cut: Option<u64>,
    /// The rows up to this number expired, as a later row records.
    pruned: u64,
    rows: u64,
}

impl ChainVerifier {
    /// Verifies the next rows. An error names the first wrong row.
    pub fn next(&mut self, rows: &[AuditRow]) -> Result<(), ChainError> {
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
                None if row.number == 1 && !row.follows(RowHash::FIRST) => {
                    return Err(ChainError::Changed { number: 1 });
                }
                // The hash before it is gone with its row.
                None if row.number > 1 => self.cut = Some(row.number - 1),
                None => {}
            }
            if let Some(entry) = row.entry().filter(|entry| entry.action == PRUNED) {
                self.pruned = entry.reason.parse().unwrap_or(self.pruned).max(self.pruned);
            }
            self.newest = Some(row.head());
            self.rows += 1;
        }
        Ok(())
    }

    /// Number of rows and the newest row of a complete chain.
    pub fn finish(self) -> Result<(u64, ChainHead), ChainError> {
        match self.cut {
            Some(cut) if self.pruned < cut => Err(ChainError::Missing { number: cut }),
            _ => Ok((self.rows, self.newest.unwrap_or_default())),
        }
    }
}

/// A broken chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChainError {
    /// This row or the previous one was changed.
    Changed { number: u64 },
    /// This row is missing and did not expire.
    Missing { number: u64 },
}

impl fmt::Display for ChainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed { number } => {
                write!(f, "row {number} is not what was written, or the one before it is not")
            }
            Self::Missing { number } => write!(f, "row {number} is missing"),
        }
    }
}

#[cfg(test)]
mod tests;
