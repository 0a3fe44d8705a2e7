//! How the lines of a dump are written and read, whatever is in them.

use reqlore_domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

pub(crate) fn write_line(written: &impl Serialize, line: &mut Vec<u8>) -> Result<(), String> {
    serde_json::to_writer(line, written).map_err(|error| error.to_string())
}

pub(crate) fn parsed<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Result<T, String> {
    serde_json::from_slice(line).map_err(|error| {
        let line = serde_json::from_slice::<Value>(line);
        if line.is_ok_and(|line| line.get("sha256").is_some()) {
            return "there is more behind the end".to_owned();
        }
        // It names a place in the one line that it saw.
        error.to_string().replace(" at line 1 column ", " at column ")
    })
}

pub(crate) fn time_as_text(time: Timestamp) -> Result<String, String> {
    let time = OffsetDateTime::from_unix_timestamp_nanos(time.0.into());
    let time = time.map_err(|error| error.to_string())?;
    time.format(&Rfc3339).map_err(|error| error.to_string())
}

/// Only what [`time_as_text`] writes: other spellings may say more than can be kept.
pub(crate) fn time_from_text(text: &str) -> Result<Timestamp, String> {
    let time = OffsetDateTime::parse(text, &Rfc3339).ok();
    let time = time.and_then(|time| i64::try_from(time.unix_timestamp_nanos()).ok()).map(Timestamp);
    let time = time.filter(|time| time_as_text(*time).is_ok_and(|same| same == text));
    time.ok_or_else(|| {
        format!("{text:?} is no time like 2026-01-31T23:59:59.123456789Z in 1677 to 2262")
    })
}
