//! Counters of the writer, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts since the start of the process.
#[derive(Debug, Default)]
pub struct WriterCounters {
    /// Transactions of the writer, with repetitions.
    pub groups: AtomicU64,
    /// Commits in these transactions.
    pub jobs: AtomicU64,
    /// Repetitions after a conflict or a lost connection.
    pub retries: AtomicU64,
    /// Connections lost at a commit.
    pub unknown_outcomes: AtomicU64,
}

pub(crate) fn count(counter: &AtomicU64, number: u64) {
    counter.fetch_add(number, Ordering::Relaxed);
}
