//! Port to the time.

use crate::timestamp::Timestamp;

/// The current time. Everything in one commit has the same time.
pub trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;
}

/// A stopped clock.
impl Clock for Timestamp {
    fn now(&self) -> Timestamp {
        *self
    }
}
