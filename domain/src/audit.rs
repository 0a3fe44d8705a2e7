//! Who did what, with which token, when, and with what result: rows that are only ever appended,
//! each sealed with the hash of the one before it (S5 4.5; reliability P12).
//!
//! A row's hash is SHA-256 over the hash of the row before it, the row's number (8 bytes, big
//! endian) and its text. The first row stands behind 32 zero bytes. Whoever changes, removes or
//! inserts a row breaks the chain behind it; who cuts its end off is found by whoever wrote down
//! the newest row's hash, which `audit verify` prints.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::document::Version;
use crate::identity::{TokenId, redact};
use crate::project::ProjectKey;
use crate::time::Timestamp;

/// What succeeded.
pub const OK: &str = "ok";
/// The action of a row that says which rows were too old and are gone.
pub const PRUNED: &str = "audit/pruned";
/// The action of a row that takes an earlier one back: its change never came.
pub const UNCONFIRMED: &str = "audit/unconfirmed";
/// Longer texts of callers are cut; an audit is no second copy of what they wrote.
const MOST: usize = 500;

/// One act, as the audit keeps it. Secrets are taken out by [`AuditRow::after`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEvent {
    pub at: Timestamp,
    /// The user's name; empty where nobody was recognised.
    pub user: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<TokenId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<ProjectKey>,
    /// The tool's name, or a method like `resources/read`.
    pub action: String,
    /// What it was about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<Target>,
    /// `ok`, or the kind of the error.
    pub result: String,
    /// How long it took until the row was made, in microseconds.
    pub micros: u64,
    pub correlation_id: String,
    /// The caller's own words (S1 `operation_description`), or what there is to say besides.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// One of the things that an act was about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// A document of the storage as `kind name`, or what a reader asked for.
    pub name: String,
    /// The version before a change; none where there was no document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Version>,
    /// The version after a change; none where it was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Version>,
}

impl Target {
    /// Something that was only read.
    pub fn read(name: impl Into<String>) -> Self {
        Self { name: name.into(), before: None, after: None }
    }

    /// Was it changed?
    pub fn is_changed(&self) -> bool {
        self.before != self.after
    }
}

/// The seal of a row.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Hash(pub [u8; 32]);

impl Hash {
    /// What the first row stands behind.
    pub const FIRST: Self = Self([0; 32]);
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl TryFrom<String> for Hash {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        let mut hash = [0; 32];
        let read = hex::decode_to_slice(&text, &mut hash);
        read.map(|()| Self(hash)).map_err(|_| "a hash is 64 hexadecimal digits")
    }
}

impl From<Hash> for String {
    fn from(hash: Hash) -> Self {
        hash.to_string()
    }
}

/// The newest row, as far as the next one needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainHead {
    pub number: u64,
    pub hash: Hash,
}

impl Default for ChainHead {
    /// Before the first row.
    fn default() -> Self {
        Self { number: 0, hash: Hash::FIRST }
    }
}

/// A sealed row. Storages keep and copy it as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRow {
    /// Counted from 1, without gaps.
    pub number: u64,
    pub hash: Hash,
    /// The [`AuditEvent`] in JSON, word for word what was sealed.
    pub text: Arc<str>,
}

impl AuditRow {
    /// Seals an entry behind the newest row.
    pub fn after(head: ChainHead, entry: AuditEvent) -> Self {
        let text = serde_json::to_string(&entry.clean()).unwrap_or_default();
        let number = head.number + 1;
        Self { number, hash: seal(head.hash, number, &text), text: text.into() }
    }

    pub fn head(&self) -> ChainHead {
        ChainHead { number: self.number, hash: self.hash }
    }

    /// `None` when a later version wrote what this one can't read.
    pub fn entry(&self) -> Option<AuditEvent> {
        serde_json::from_str(&self.text).ok()
    }

    /// Does it stand behind this hash, unchanged?
    pub fn follows(&self, previous: Hash) -> bool {
        seal(previous, self.number, &self.text) == self.hash
    }
}

impl AuditEvent {
    /// It has nobody's name on it.
    fn of_nobody(action: &str, reason: String, at: Timestamp) -> Self {
        Self {
            at,
            user: String::new(),
            token: None,
            project: None,
            action: action.to_owned(),
            targets: Vec::new(),
            result: OK.to_owned(),
            micros: 0,
            correlation_id: String::new(),
            reason,
        }
    }

    /// Nobody was recognised.
    pub fn refused(action: &str, result: &str, reason: String, at: Timestamp) -> Self {
        Self { result: result.to_owned(), ..Self::of_nobody(action, reason, at) }
    }

    /// The rows up to this number were too old, and are gone.
    pub fn pruned(up_to: u64, at: Timestamp) -> Self {
        Self::of_nobody(PRUNED, up_to.to_string(), at)
    }

    /// The change of the row of this number never came.
    pub fn unconfirmed(number: u64, at: Timestamp) -> Self {
        Self::of_nobody(UNCONFIRMED, number.to_string(), at)
    }

    /// Without secrets, and bounded.
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
            if text.len() > MOST {
                let end = (0..=MOST).rev().find(|end| text.is_char_boundary(*end));
                text.truncate(end.unwrap_or_default());
                text.push('\u{2026}');
            }
        }
        self
    }
}

fn seal(previous: Hash, number: u64, text: &str) -> Hash {
    let mut hash = Sha256::new();
    hash.update(previous.0);
    hash.update(number.to_be_bytes());
    hash.update(text);
    Hash(hash.finalize().into())
}

/// Walks a chain from its first row that is there, and finds what is wrong with it.
#[derive(Debug, Default)]
pub struct Verifier {
    /// The newest row so far.
    newest: Option<ChainHead>,
    /// The row before the first one, of which only its seal is left.
    cut: Option<u64>,
    /// Some row said that those up to this number were too old.
    pruned: u64,
    rows: u64,
}

impl Verifier {
    /// Takes the next rows in. An error names the first row that is wrong.
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
                None if row.number == 1 && !row.follows(Hash::FIRST) => {
                    return Err(ChainError::Changed { number: 1 });
                }
                // What stood before it is gone, and with it what it was sealed behind.
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

    /// How many rows there were and which was the newest, when all of them were there.
    pub fn finish(self) -> Result<(u64, ChainHead), ChainError> {
        match self.cut {
            Some(cut) if self.pruned < cut => Err(ChainError::Missing { number: cut }),
            _ => Ok((self.rows, self.newest.unwrap_or_default())),
        }
    }
}

/// What is wrong with a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChainError {
    /// This row was changed, or the one before it.
    Changed { number: u64 },
    /// This row is not there, and no row says that it was too old.
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
