//! Keys under which writes happen once, as values.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::audit::Target;
use crate::time::Timestamp;

/// A write that may come twice and must happen once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Once {
    /// The hash of the caller's name and key: 32 hexadecimal digits.
    pub key: String,
    /// The hash of what was asked for: another request under one key is refused.
    pub request: String,
}

impl Once {
    /// Of who names it and how, and of all that says what is asked for.
    pub fn new(name: &[&str], request: &[&str]) -> Self {
        let hash = |parts: &[&str]| {
            let mut hash = Sha256::new();
            for part in parts {
                hash.update((part.len() as u64).to_be_bytes());
                hash.update(part);
            }
            hex::encode(&hash.finalize()[..16])
        };
        Self { key: hash(name), request: hash(request) }
    }
}

/// A write that happened under a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Earlier {
    pub request: String,
    pub at: Timestamp,
    /// What it changed.
    pub targets: Vec<Target>,
    /// What was answered, as the application wrote it; none if it was never told.
    pub answer: Option<Arc<str>>,
}

impl Earlier {
    /// How long a key is remembered: a day (rulings 7).
    pub const SECONDS: i64 = 24 * 60 * 60;

    /// Is the key still taken?
    pub fn counts_at(&self, now: Timestamp) -> bool {
        now.seconds() - self.at.seconds() < Self::SECONDS
    }
}
