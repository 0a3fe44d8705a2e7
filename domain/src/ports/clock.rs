//! The driven port to the time.

use crate::time::Timestamp;

/// Tells what time it is. Everything that happens in one commit happens at one time.
#[cfg_attr(feature = "test-doubles", mockall::automock)]
pub trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;
}
