//! The state that each commit writes: identity, number of commits, totals and issued numbers.

use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_durable_fs::commit_counter::{CommitCounter, DatabaseId, IssuedNumbers};
use serde::{Deserialize, Serialize};

/// Its key in the tree.
pub(crate) const STATE_KEY: &[u8] = b"state";

/// Postcard stores fields by position: their order must not change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CommitState {
    pub(crate) database_id: [u8; 16],
    pub(crate) commits: u64,
    pub(crate) totals: Totals,
    pub(crate) numbers: IssuedNumbers,
}

impl CommitState {
    pub(crate) fn counter(&self) -> CommitCounter {
        CommitCounter { database_id: DatabaseId(self.database_id), commits: self.commits }
    }

    pub(crate) fn encode(&self) -> StoreResult<Vec<u8>> {
        let content = postcard::to_allocvec(self);
        let content = content.map_err(|error| StoreError::Internal(error.to_string()))?;
        Ok([&crc32fast::hash(&content).to_be_bytes(), &content[..]].concat())
    }

    /// Returns `None` if the value is damaged.
    pub(crate) fn decode(value: &[u8]) -> Option<Self> {
        let (checksum, content) = value.split_first_chunk()?;
        let is_valid = crc32fast::hash(content).to_be_bytes() == *checksum;
        postcard::from_bytes(content).ok().filter(|_| is_valid)
    }
}

/// Number and sum of checksums of all keys with their values, except the state itself.
///
/// Checksums of values do not show that a row was lost, that an older row took its place, or that a
/// key without a value is missing. The totals do: each commit updates them, and each start compares
/// them with the tree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Totals {
    rows: u64,
    /// A sum, so that it does not depend on the order.
    sum: u64,
}

impl Totals {
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) {
        if key != STATE_KEY {
            self.rows = self.rows.wrapping_add(1);
            self.sum = self.sum.wrapping_add(checksum(key, value));
        }
    }

    pub(crate) fn remove(&mut self, key: &[u8], value: &[u8]) {
        self.rows = self.rows.wrapping_sub(1);
        self.sum = self.sum.wrapping_sub(checksum(key, value));
    }
}

fn checksum(key: &[u8], value: &[u8]) -> u64 {
    let mut hasher = crc32fast::Hasher::new();
    // The length separates the key from the value.
    hasher.update(&key.len().to_be_bytes());
    hasher.update(key);
    hasher.update(value);
    u64::from(hasher.finalize())
}
