//! Number and checksum of all rows.
//!
//! Checksums of values don't show that a row was lost, that an older row took its place, or that a
//! key without a value is missing. The totals do: each transaction updates them, and each start
//! compares them with the rows.

use serde::{Deserialize, Serialize};

use crate::database::{COMMITS_KEY, META, TOTALS_KEY};

/// Totals of all rows of all trees, except the count of commits and the totals themselves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RowTotals {
    rows: u64,
    /// Sum of the rows' checksums, so that it does not depend on their order.
    sum: u64,
}

impl RowTotals {
    pub(crate) fn add(&mut self, tree: usize, key: &[u8], value: &[u8]) {
        if let Some(checksum) = row_checksum(tree, key, value) {
            self.rows = self.rows.wrapping_add(1);
            self.sum = self.sum.wrapping_add(checksum);
        }
    }

    pub(crate) fn remove(&mut self, tree: usize, key: &[u8], value: &[u8]) {
        if let Some(checksum) = row_checksum(tree, key, value) {
            self.rows = self.rows.wrapping_sub(1);
            self.sum = self.sum.wrapping_sub(checksum);
        }
    }
}

/// `None` for rows that are not part of the totals.
fn row_checksum(tree: usize, key: &[u8], value: &[u8]) -> Option<u64> {
    if tree == META && (key == COMMITS_KEY || key == TOTALS_KEY) {
        return None;
    }
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&tree.to_be_bytes());
    // The length separates the key from the value.
    hasher.update(&key.len().to_be_bytes());
    hasher.update(key);
    hasher.update(value);
    Some(u64::from(hasher.finalize()))
}
