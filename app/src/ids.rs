//! Identities from this machine's source of chance.

use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::token::LETTERS;
use reqlore_domain::ports::id_generator::IdGenerator;
use reqlore_domain::time::Timestamp;
use uuid::Uuid;

/// The largest multiple of 62 that a byte can be below.
const FAIR: u8 = 62 * 4;

/// UUIDs of version 7: the time of the act, then random bits. Letters from the system alone.
#[derive(Debug)]
pub(crate) struct RandomIds;

impl IdGenerator for RandomIds {
    fn uid(&self, at: Timestamp) -> String {
        // A clock before 1970 is set wrong; random bits are enough to tell its items apart.
        let seconds = u64::try_from(at.seconds()).unwrap_or_default();
        let nanoseconds = at.0.rem_euclid(1_000_000_000);
        let nanoseconds = u32::try_from(nanoseconds).unwrap_or_default();
        let time = uuid::Timestamp::from_unix(uuid::NoContext, seconds, nanoseconds);
        Uuid::new_v7(time).to_string()
    }

    fn letters(&self, count: usize) -> Result<String> {
        let mut letters = String::with_capacity(count);
        let mut bytes = [0; 64];
        while letters.len() < count {
            getrandom::fill(&mut bytes).map_err(|error| {
                let message = "the system has no chance to give, so no token can be made; start it \
                               again later";
                Error::new(ErrorKind::Unavailable, message).caused_by(error)
            })?;
            // Beyond it some letters would come more often than others.
            let fair = bytes.iter().filter(|byte| **byte < FAIR);
            let left = count - letters.len();
            letters.extend(fair.take(left).map(|byte| char::from(LETTERS[usize::from(byte % 62)])));
        }
        Ok(letters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_tells_its_time_and_is_never_the_same() {
        let at = Timestamp::new(1_700_000_000, 123_456_789);
        let uids: Vec<Uuid> = (0..100).map(|_| RandomIds.uid(at).parse().unwrap()).collect();
        for uid in &uids {
            assert_eq!(uid.get_version_num(), 7);
            let (seconds, nanoseconds) = uid.get_timestamp().unwrap().to_unix();
            assert_eq!((seconds, nanoseconds / 1_000_000), (1_700_000_000, 123));
        }
        let distinct: std::collections::BTreeSet<_> = uids.iter().collect();
        assert_eq!(distinct.len(), uids.len());
    }

    #[test]
    fn letters_are_as_many_as_asked_for_and_all_alike_often() {
        for count in [0, 1, 12, 32, 200] {
            assert_eq!(RandomIds.letters(count).unwrap().len(), count);
        }
        assert_ne!(RandomIds.letters(32).unwrap(), RandomIds.letters(32).unwrap());
        let many = RandomIds.letters(62 * 10_000).unwrap();
        for letter in LETTERS {
            let count = many.bytes().filter(|byte| byte == letter).count();
            // Ten standard deviations; the bias of a plain remainder would be fifty for some.
            assert!((9_000..11_000).contains(&count), "{} came {count} times", *letter as char);
        }
    }

    #[test]
    fn a_time_before_1970_makes_an_identity_as_well() {
        assert_eq!(RandomIds.uid(Timestamp::new(-1, 0)).len(), 36);
    }
}
