//! The machine's clock.

use std::time::SystemTime;

use reqlore_domain::ports::clock::Clock;
use reqlore_domain::time::Timestamp;

/// What this machine says the time is.
#[derive(Debug)]
pub(crate) struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        #[expect(clippy::disallowed_methods, reason = "the one place where the time is read")]
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
        Timestamp::new(seconds, since.subsec_nanos())
    }
}
