//! Port to the current time.

use crate::timestamp::Timestamp;

/// The current time. All timestamps of one commit are equal.
pub trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;
}

/// A fixed clock, for tests.
impl Clock for Timestamp {
    fn now(&self) -> Timestamp {
        *self
    }
}
