//! Points in time.

use serde::{Deserialize, Serialize};
use time::format_description::well_known::Rfc3339;
use time::{Date, OffsetDateTime};

/// Nanoseconds since 1970-01-01T00:00:00Z, in the range of file times: 1677 to 2262.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Timestamp(pub i64);

impl Timestamp {
    const SECOND: i64 = 1_000_000_000;

    /// Saturates at the limits of the range.
    pub fn new(seconds: i64, nanoseconds: u32) -> Self {
        // File systems can return any time, even after 2262.
        Self(seconds.saturating_mul(Self::SECOND).saturating_add(nanoseconds.into()))
    }

    /// Whole seconds since 1970, rounded down.
    pub fn seconds(self) -> i64 {
        self.0.div_euclid(Self::SECOND)
    }

    /// Formats as RFC 3339 in UTC with whole seconds.
    pub fn to_rfc3339(self) -> String {
        let time = OffsetDateTime::from_unix_timestamp(self.seconds()).ok();
        time.and_then(|time| time.format(&Rfc3339).ok()).unwrap_or_default()
    }

    /// Parses RFC 3339 with any offset, also with a blank as the separator and without seconds. A
    /// time without an offset is in UTC, and a date means midnight in UTC.
    pub fn parse(text: &str) -> Option<Self> {
        let time = if let Some((date, time)) = text.split_once(['T', 't', ' ']) {
            let (time, offset) =
                time.split_at(time.find(['Z', 'z', '+', '-']).unwrap_or(time.len()));
            let time = time.trim();
            let seconds = if time.len() == "23:59".len() { ":00" } else { "" };
            let offset = if offset.is_empty() { "Z" } else { offset };
            OffsetDateTime::parse(&format!("{date}T{time}{seconds}{offset}"), &Rfc3339).ok()?
        } else {
            let date_format = time::macros::format_description!("[year]-[month]-[day]");
            Date::parse(text, date_format).ok()?.midnight().assume_utc()
        };
        i64::try_from(time.unix_timestamp_nanos()).ok().map(Self)
    }

    /// Rounds down to a whole second.
    #[must_use]
    pub fn whole_seconds(self) -> Self {
        Self::new(self.seconds(), 0)
    }

    /// The nanoseconds after [`Timestamp::seconds`].
    pub fn nanoseconds(self) -> u32 {
        u32::try_from(self.0.rem_euclid(Self::SECOND)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_before_1970_has_positive_nanoseconds() {
        let time = Timestamp::new(-2, 250_000_000);
        assert_eq!((time.seconds(), time.nanoseconds()), (-2, 250_000_000));
        assert_eq!(Timestamp::new(i64::MAX, 0), Timestamp(i64::MAX));
    }

    #[test]
    fn time_parses_with_offset_or_as_date() {
        for (text, printed) in [
            ("2026-11-22T07:48:05Z", "2026-11-22T07:48:05Z"),
            ("2026-11-22T09:48:05.999+02:00", "2026-11-22T07:48:05Z"),
            ("2026-11-22", "2026-11-22T00:00:00Z"),
            ("2026-11-22 07:48", "2026-11-22T07:48:00Z"),
            ("2026-11-22 07:48:05", "2026-11-22T07:48:05Z"),
            ("2026-11-22 07:48:05.25", "2026-11-22T07:48:05Z"),
            ("2026-11-22T07:48", "2026-11-22T07:48:00Z"),
            ("2026-11-22t07:48:05z", "2026-11-22T07:48:05Z"),
            ("2026-11-22 09:48+02:00", "2026-11-22T07:48:00Z"),
            ("2026-11-22 09:48:05 +02:00", "2026-11-22T07:48:05Z"),
            ("2026-11-22 02:48 -05:00", "2026-11-22T07:48:00Z"),
            ("2026-11-22 07:48 Z", "2026-11-22T07:48:00Z"),
            ("2026-11-22  23:59", "2026-11-22T23:59:00Z"),
            ("1969-12-31T23:59:59.5Z", "1969-12-31T23:59:59Z"),
        ] {
            let time = Timestamp::parse(text).unwrap();
            assert_eq!(time.to_rfc3339(), printed);
            assert_eq!(Timestamp::parse(printed), Some(time.whole_seconds()));
        }
        for invalid in [
            "",
            "yesterday",
            "2026-13-01",
            "22.11.2026",
            "2026-11-22 7:48",
            "22.11.2026 07:48",
            "2026-11-22 24:01",
            "2026-11-22 07",
            "2026-11-22 noon",
            "2026-11-22T",
            "26-11-22 07:48",
        ] {
            assert_eq!(Timestamp::parse(invalid), None, "{invalid}");
        }
    }
}
