//! Port to randomness: new identifiers and secrets.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Result;
use crate::timestamp::Timestamp;

/// Generates identifiers and secrets.
pub trait IdGenerator: Send + Sync {
    /// A UUID of version 7 (RFC 9562) with this time, in the hyphenated form.
    fn new_uid(&self, at: Timestamp) -> String;

    /// `count` random base62 letters from a secure source. Fails if the system has none.
    fn random_letters(&self, count: usize) -> Result<String>;
}

/// Predictable identifiers for tests.
#[derive(Debug, Default)]
pub struct CountedIds(AtomicU64);

impl IdGenerator for CountedIds {
    fn new_uid(&self, at: Timestamp) -> String {
        let count = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        // The layout of a UUID of version 7: 48 bits of milliseconds first.
        let millis = u64::try_from(at.0 / 1_000_000).unwrap_or_default() & 0xffff_ffff_ffff;
        let (high, low) = (millis >> 16, millis & 0xffff);
        // With the final letter, YAML parsers do not read the file suffix as a number.
        format!("{high:08x}-{low:04x}-7000-8000-{count:011x}f")
    }

    fn random_letters(&self, count: usize) -> Result<String> {
        let number = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(format!("{number:0count$}"))
    }
}
