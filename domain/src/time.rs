//! Points in time, as storages keep them.

use serde::{Deserialize, Serialize};

/// A point in time: nanoseconds since 1970-01-01T00:00:00Z, negative before. It reaches from 1677
/// to 2262, as the times of files do.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Timestamp(pub i64);

impl Timestamp {
    const SECOND: i64 = 1_000_000_000;

    /// From what files and clocks say; what lies beyond the range is its nearest end.
    pub fn new(seconds: i64, nanoseconds: u32) -> Self {
        Self(seconds.saturating_mul(Self::SECOND).saturating_add(nanoseconds.into()))
    }

    /// Whole seconds since 1970, rounded down.
    pub fn seconds(self) -> i64 {
        self.0.div_euclid(Self::SECOND)
    }

    /// What [`Timestamp::seconds`] leaves over, below a second.
    pub fn nanoseconds(self) -> u32 {
        u32::try_from(self.0.rem_euclid(Self::SECOND)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_before_1970_comes_apart_and_together() {
        let time = Timestamp::new(-2, 250_000_000);
        assert_eq!((time.seconds(), time.nanoseconds()), (-2, 250_000_000));
        assert_eq!(Timestamp::new(i64::MAX, 0), Timestamp(i64::MAX));
    }
}
