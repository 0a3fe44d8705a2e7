//! Counters of the writer, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use reqlore_domain::ports::storage_health::WriteStatistics;

/// The fields of [`WriteStatistics`], shared with the writer's thread.
#[derive(Debug, Default)]
pub(crate) struct WriterCounters {
    pub(crate) groups: AtomicU64,
    pub(crate) jobs: AtomicU64,
    pub(crate) retries: AtomicU64,
    pub(crate) unknown_outcomes: AtomicU64,
}

impl WriterCounters {
    pub(crate) fn read(&self) -> WriteStatistics {
        WriteStatistics {
            transactions: self.groups.load(Ordering::Relaxed),
            writes: self.jobs.load(Ordering::Relaxed),
            retries: self.retries.load(Ordering::Relaxed),
            unknown_outcomes: self.unknown_outcomes.load(Ordering::Relaxed),
        }
    }
}

pub(crate) fn count(counter: &AtomicU64, number: u64) {
    counter.fetch_add(number, Ordering::Relaxed);
}
