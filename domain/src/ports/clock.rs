//! The driven port to the time.

use crate::time::Timestamp;

/// Tells what time it is. Everything that happens in one commit happens at one time.
pub trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;
}

/// A clock that stands still.
impl Clock for Timestamp {
    fn now(&self) -> Timestamp {
        *self
    }
}
