//! Clock, random numbers and calls of the operating system.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::time::SystemTime;

use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::token::BASE62_LETTERS;
use reqlore_domain::ports::clock::Clock;
use reqlore_domain::ports::id_generator::IdGenerator;
use reqlore_domain::timestamp::Timestamp;
use uuid::Uuid;

#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;

/// The largest multiple of 62 in a byte. Bytes from here on are skipped, because they would make
/// some letters more likely.
const UNBIASED_BYTES: u8 = 62 * 4;

#[derive(Debug)]
pub(crate) struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        #[expect(clippy::disallowed_methods, reason = "the only reader of the system clock")]
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
        Timestamp::new(seconds, since.subsec_nanos())
    }
}

/// Generates UUIDs of version 7 and random letters.
#[derive(Debug)]
pub(crate) struct RandomIds;

impl IdGenerator for RandomIds {
    fn new_uid(&self, at: Timestamp) -> String {
        // A wrong clock may be before 1970; the random bits keep the ids unique.
        let seconds = u64::try_from(at.seconds()).unwrap_or_default();
        let nanoseconds = at.0.rem_euclid(1_000_000_000);
        let nanoseconds = u32::try_from(nanoseconds).unwrap_or_default();
        let time = uuid::Timestamp::from_unix(uuid::NoContext, seconds, nanoseconds);
        Uuid::new_v7(time).to_string()
    }

    fn random_letters(&self, count: usize) -> Result<String> {
        let mut letters = String::with_capacity(count);
        let mut bytes = [0; 64];
        while letters.len() < count {
            getrandom::fill(&mut bytes).map_err(|error| {
                let message = "random numbers: the operating system has none; try again later";
                Error::new(ErrorKind::Unavailable, message).caused_by(error)
            })?;
            for byte in bytes {
                if byte < UNBIASED_BYTES && letters.len() < count {
                    letters.push(char::from(BASE62_LETTERS[usize::from(byte % 62)]));
                }
            }
        }
        Ok(letters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uid_contains_time_and_is_unique() {
        let at = Timestamp::new(1_700_000_000, 123_456_789);
        let uids: Vec<Uuid> = (0..100).map(|_| RandomIds.new_uid(at).parse().unwrap()).collect();
        for uid in &uids {
            assert_eq!(uid.get_version_num(), 7);
            let (seconds, nanoseconds) = uid.get_timestamp().unwrap().to_unix();
            assert_eq!((seconds, nanoseconds / 1_000_000), (1_700_000_000, 123));
        }
        let distinct: std::collections::BTreeSet<_> = uids.iter().collect();
        assert_eq!(distinct.len(), uids.len());
        assert_eq!(RandomIds.new_uid(Timestamp::new(-1, 0)).len(), 36, "a time before 1970");
    }

    #[test]
    fn letters_have_requested_length_and_equal_probability() {
        for count in [0, 1, 12, 32, 200] {
            assert_eq!(RandomIds.random_letters(count).unwrap().len(), count);
        }
        let many = RandomIds.random_letters(62 * 10_000).unwrap();
        for letter in BASE62_LETTERS {
            let count = many.bytes().filter(|byte| byte == letter).count();
            // Ten standard deviations; the bias of a plain remainder would be fifty for some.
            assert!((9_000..11_000).contains(&count), "{}: {count} times", *letter as char);
        }
    }
}
