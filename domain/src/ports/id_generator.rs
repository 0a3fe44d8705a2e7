//! Port to new identifiers.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Result;
use crate::timestamp::Timestamp;

pub trait IdGenerator: Send + Sync {
    /// A UUID of version 7 (RFC 9562) in its usual spelling, made at this time.
    fn uid(&self, at: Timestamp) -> String;

    /// This many random letters of base62. An error if the system has no secure randomness.
    fn letters(&self, count: usize) -> Result<String>;
}

/// Predictable identifiers for tests.
#[derive(Debug, Default)]
pub struct CountedIds(AtomicU64);

impl IdGenerator for CountedIds {
    fn uid(&self, at: Timestamp) -> String {
        let count = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        let millis = u64::try_from(at.0 / 1_000_000).unwrap_or_default() & 0xffff_ffff_ffff;
        let (high, low) = (millis >> 16, millis & 0xffff);
        // The last letter keeps YAML readers from taking the suffix for a number.
        format!("{high:08x}-{low:04x}-7000-8000-{count:011x}f")
    }

    fn letters(&self, count: usize) -> Result<String> {
        let counted = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(format!("{counted:0count$}"))
    }
}
