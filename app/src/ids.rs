//! Identities from this machine's source of chance.

use reqlore_domain::ports::ids::Ids;
use reqlore_domain::time::Timestamp;
use uuid::Uuid;

/// UUIDs of version 7: the time of the act, then random bits.
#[derive(Debug)]
pub(crate) struct RandomIds;

impl Ids for RandomIds {
    fn uid(&self, at: Timestamp) -> String {
        // A clock before 1970 is set wrong; random bits are enough to tell its items apart.
        let seconds = u64::try_from(at.seconds()).unwrap_or_default();
        let nanoseconds = at.0.rem_euclid(1_000_000_000);
        let nanoseconds = u32::try_from(nanoseconds).unwrap_or_default();
        let time = uuid::Timestamp::from_unix(uuid::NoContext, seconds, nanoseconds);
        Uuid::new_v7(time).to_string()
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
    fn a_time_before_1970_makes_an_identity_as_well() {
        assert_eq!(RandomIds.uid(Timestamp::new(-1, 0)).len(), 36);
    }
}
