//! What the transport counts, for the operator's figures.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Counts since the start, and of what is now. Cheap to change; read them one by one.
#[derive(Debug, Default)]
pub struct Counters {
    /// Answers by the first digit of their status: 2xx to 5xx.
    answers: [AtomicU64; 4],
    pub(crate) rate_limited: AtomicU64,
    pub(crate) failed_logins: AtomicU64,
    pub(crate) refused_connections: AtomicU64,
    pub(crate) connections: AtomicUsize,
    pub(crate) in_flight: AtomicUsize,
}

impl Counters {
    /// Answers whose status has this first digit, 2 to 5.
    pub fn answers(&self, digit: u8) -> u64 {
        let place = usize::from(digit).wrapping_sub(2);
        self.answers.get(place).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Requests that were told to come back later.
    pub fn rate_limited(&self) -> u64 {
        self.rate_limited.load(Ordering::Relaxed)
    }

    pub fn failed_logins(&self) -> u64 {
        self.failed_logins.load(Ordering::Relaxed)
    }

    /// Connections that were closed because there were too many.
    pub fn refused_connections(&self) -> u64 {
        self.refused_connections.load(Ordering::Relaxed)
    }

    /// Connections that are open now.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Requests that run now.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    pub(crate) fn answered(&self, status: u16) {
        let place = usize::from(status / 100).wrapping_sub(2);
        if let Some(count) = self.answers.get(place) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        if status == 429 {
            self.rate_limited.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// One more as long as it lives.
#[derive(Debug)]
pub(crate) struct Counted(std::sync::Arc<Counters>, fn(&Counters) -> &AtomicUsize);

impl Counted {
    pub(crate) fn new(
        counters: &std::sync::Arc<Counters>,
        what: fn(&Counters) -> &AtomicUsize,
    ) -> Self {
        what(counters).fetch_add(1, Ordering::Relaxed);
        Self(counters.clone(), what)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        (self.1)(&self.0).fetch_sub(1, Ordering::Relaxed);
    }
}
