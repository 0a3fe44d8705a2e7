//! Ranks: texts that order the items of a priority by hand.
//!
//! An item without a rank ranks by its creation, so that a move writes the rank of one item only.

use crate::timestamp::Timestamp;

/// Maximum length of a rank, in bytes.
pub const MAX_RANK_BYTES: usize = 64;
/// The digits of ranks, in the order of their bytes.
const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Number of digits of a rank at the end of a list: those of the seconds in a creation rank, and
/// two more.
const END_DIGITS: usize = 11;

/// True for ASCII letters and digits, which are compared as bytes.
pub fn is_rank(text: &str) -> bool {
    (1..=MAX_RANK_BYTES).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// The rank of an item without one: the second of its creation and its number.
pub(super) fn creation_rank(created_at: Timestamp, number: u32) -> String {
    let seconds = created_at.seconds() - Timestamp(i64::MIN).seconds();
    // Bytes order hexadecimal digits of a fixed width as numbers.
    format!("{seconds:09x}{number:08x}")
}

/// A rank between two others, the first or the last one. `None` if no text is between them.
pub fn rank_between(lower: Option<&str>, upper: Option<&str>) -> Option<String> {
    let end = match (lower, upper) {
        (Some(last), None) => end_rank(last, true),
        (None, Some(first)) => end_rank(first, false),
        _ => None,
    };
    end.or_else(|| middle_rank(lower.unwrap_or_default(), upper))
}

/// A digit of a rank; `None` after the last one.
fn digit_at(rank: &str, position: usize) -> Option<usize> {
    DIGITS.iter().position(|digit| Some(digit) == rank.as_bytes().get(position))
}

/// The rank next to the last or the first one, as if it was a little younger or older. It has
/// [`END_DIGITS`], so repeated moves do not make ranks longer.
fn end_rank(rank: &str, is_after: bool) -> Option<String> {
    let mut digits = format!("{rank:0<END_DIGITS$.END_DIGITS$}").into_bytes();
    let (from, to) = if is_after { (b'z', b'0') } else { (b'0', b'z') };
    let changed = digits.iter().rposition(|digit| *digit != from)?;
    let value = DIGITS.iter().position(|digit| *digit == digits[changed])?;
    digits[changed] = DIGITS[if is_after { value + 1 } else { value - 1 }];
    digits[changed + 1..].fill(to);
    String::from_utf8(digits).ok()
}

fn middle_rank(lower: &str, mut upper: Option<&str>) -> Option<String> {
    let mut rank = String::new();
    for position in 0..MAX_RANK_BYTES {
        let low = digit_at(lower, position).unwrap_or_default();
        let high = upper.map_or(Some(DIGITS.len()), |upper| digit_at(upper, position))?;
        if low + 1 < high {
            rank.push(DIGITS[low.midpoint(high)].into());
            return Some(rank);
        }
        if low > high {
            return None;
        }
        rank.push(DIGITS[low].into());
        if low < high {
            // Every text that begins like this is below the upper rank.
            upper = None;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::backlog::{ItemKind, ItemMeta, sort_key};

    fn item(number: u32, text: &str) -> ItemMeta {
        let name = format!("US-{number:03}");
        ItemMeta::parse(ItemKind::UserStory, &name, text, Timestamp(0)).0
    }

    fn created(number: u32, second: i64) -> String {
        let unranked = item(number, "---\ntitle: A\n---\n");
        sort_key(&ItemMeta { created_at: Timestamp::new(second, 0), ..unranked }).1
    }

    proptest! {
        /// Insertions at random positions, and then always at the same one until no room is left.
        #[test]
        fn random_insertions_keep_the_order_and_stay_short(
            positions in prop::collection::vec(any::<prop::sample::Index>(), 1..200),
            same in any::<prop::sample::Index>(),
        ) {
            let mut ranks: Vec<String> = (1..=3).map(|number| created(number, 5)).collect();
            let insert = |ranks: &mut Vec<String>, position: usize| {
                let lower = position.checked_sub(1).map(|before| ranks[before].clone());
                let upper = ranks.get(position).cloned();
                let rank = rank_between(lower.as_deref(), upper.as_deref())?;
                assert!(is_rank(&rank), "{rank}");
                assert!(lower.is_none_or(|lower| lower < rank), "{rank}");
                assert!(upper.is_none_or(|upper| rank < upper), "{rank}");
                ranks.insert(position, rank);
                Some(())
            };
            for position in positions {
                let position = position.index(ranks.len() + 1);
                prop_assert!(insert(&mut ranks, position).is_some(), "{ranks:?}");
            }
            let (position, mut count) = (1 + same.index(ranks.len() - 1), 0);
            while insert(&mut ranks, position).is_some() {
                count += 1;
            }
            prop_assert!(count > 50, "{count} {ranks:?}");
        }
    }

    #[test]
    fn ends_always_have_room_near_the_creation() {
        let (mut first, mut last) = (created(7, 1_000_000), created(7, 1_000_000));
        for _ in 0..5_000 {
            let (before, after) =
                (rank_between(None, Some(&first)), rank_between(Some(&last), None));
            let (before, after) = (before.unwrap(), after.unwrap());
            assert!(before < first && last < after && after.len() == END_DIGITS);
            (first, last) = (before, after);
        }
        // A new item follows the last one.
        assert!(last < created(8, 1_000_003), "{last}");
        assert!(created(6, 999_997) < first, "{first}");
        assert!(rank_between(Some(&"z".repeat(MAX_RANK_BYTES)), None).is_none());
        assert_eq!(rank_between(Some("zz"), None).as_deref(), Some("zz000000001"));
        assert_eq!(rank_between(None, Some("0")), None);
    }

    #[test]
    fn equal_or_adjacent_ranks_have_no_room() {
        for (lower, upper) in [("a", "a"), ("b", "a"), ("a", "a0"), ("a", "a00")] {
            assert_eq!(rank_between(Some(lower), Some(upper)), None, "{lower} {upper}");
        }
        assert_eq!(rank_between(Some("a"), Some("a1")).as_deref(), Some("a0V"));
        assert_eq!(rank_between(Some("A"), Some("a")).as_deref(), Some("N"));
    }

    #[test]
    fn items_without_a_rank_are_ranked_by_time_and_then_by_number() {
        let times = [i64::MIN, -1, 0, 1, i64::MAX].map(|second| Timestamp::new(second, 0));
        let ranks =
            times.map(|time| [9, 10, 1_000_000_000].map(|number| created(number, time.seconds())));
        assert!(
            ranks.as_flattened().is_sorted() && ranks.as_flattened().iter().all(|one| is_rank(one))
        );
        let ranked = item(1, "---\ntitle: A\nrank: a\ncreated_at: 2026-01-02\n---\n");
        let older = item(2, "---\ntitle: A\nrank: a\ncreated_at: 2026-01-01\n---\n");
        assert!(sort_key(&older) < sort_key(&ranked));
        assert!(sort_key(&ranked) < sort_key(&item(3, "---\nrank: a0\n---\n")));
        let critical = item(4, "---\npriority: 1\nrank: zzz\n---\n");
        assert!(sort_key(&critical) < sort_key(&older));
    }

    #[test]
    fn invalid_rank_is_reported_and_ignored() {
        for (rank, problem) in [("a-b", true), ("007", false), ("aZ9", false)] {
            let text = format!("---\ntitle: A\nrank: {rank}\n---\n");
            let (item, diagnostic) = ItemMeta::parse(ItemKind::Epic, "EP-001", &text, Timestamp(0));
            assert_eq!(item.rank.as_deref(), Some(rank).filter(|_| !problem));
            assert_eq!(diagnostic.is_some(), problem, "{diagnostic:?}");
        }
        assert!(!is_rank(&"a".repeat(MAX_RANK_BYTES + 1)) && !is_rank("é") && !is_rank(""));
    }
}
