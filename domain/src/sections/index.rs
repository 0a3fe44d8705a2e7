//! Requirement indices (S1 C.3): their form, their order, and the next one after another.
//!
//! Indices are compared by value, not by spelling: `01` names requirement `1` (rulings 2).

use std::borrow::Cow;
use std::cmp::{Ordering, Reverse};
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

use crate::text::check_bounds;

/// The longest index, in characters (S1 P.1).
pub const MAX: usize = 10;

/// A well-formed index: segments of letters, digits, `_` and `-`, separated by single dots.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
pub struct Index(String);

impl Index {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Index {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        check_bounds(&text, MAX)?;
        if !is_well_formed(&text) {
            return Err(format!(
                "{text:?} is no index; use letters, digits, '_' and '-' in segments separated by \
                 single dots, such as \"3\", \"2.1\" or \"R.1\""
            ));
        }
        Ok(Self(text))
    }
}

impl fmt::Display for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl JsonSchema for Index {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Index".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "minLength": 1,
            "maxLength": MAX,
            "pattern": r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$"
        })
    }
}

pub(crate) fn is_well_formed(text: &str) -> bool {
    let is_segment = |segment: &str| {
        !segment.is_empty()
            && segment.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
    };
    text.len() <= MAX && text.split('.').all(is_segment)
}

/// The group of an index: its first segment where that starts with a letter, else the numbers.
pub(crate) fn group(index: &str) -> Option<&str> {
    let first = index.split('.').next().unwrap_or_default();
    first.starts_with(|c: char| c.is_ascii_alphabetic()).then_some(first)
}

/// Segment by segment: numbers by value and before words, words alphabetically, the shorter first.
pub(crate) fn compare(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a.split('.'), b.split('.'));
    loop {
        match (left.next(), right.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(a), Some(b)) => match compare_segments(a, b) {
                Ordering::Equal => {}
                unequal => return unequal,
            },
        }
    }
}

fn compare_segments(a: &str, b: &str) -> Ordering {
    match (number(a), number(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => {
            let lower = |s: &str| s.bytes().map(|b| b.to_ascii_lowercase()).collect::<Vec<_>>();
            lower(a).cmp(&lower(b)).then_with(|| a.cmp(b))
        }
    }
}

fn number(segment: &str) -> Option<u64> {
    segment.bytes().all(|b| b.is_ascii_digit()).then(|| segment.parse().ok()).flatten()
}

/// The next index after `predecessor`, at the depth of `offender` where that is possible, else at
/// the nearest depth that is, rather deeper than shallower. `None` when no index of at most
/// [`MAX`] characters is left.
pub(crate) fn next_after(predecessor: &str, offender: &str) -> Option<String> {
    let own = offender.split('.').count();
    let mut depths: Vec<usize> = (1..=MAX.div_ceil(2)).collect();
    depths.sort_by_key(|depth| (depth.abs_diff(own), Reverse(*depth)));
    depths.into_iter().find_map(|depth| next_at_depth(predecessor, depth))
}

fn next_at_depth(predecessor: &str, depth: usize) -> Option<String> {
    let mut segments: Vec<String> = predecessor.split('.').map(str::to_owned).collect();
    if depth <= segments.len() {
        segments.truncate(depth);
        let last = segments.pop()?;
        segments.push((number(&last)? + 1).to_string());
    } else {
        segments.resize(depth, "1".to_owned());
    }
    let next = segments.join(".");
    (next.len() <= MAX).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    // S1: C.3, P.1; catalogue 29
    #[test]
    fn flexible_indices_are_read_and_malformed_ones_refused() {
        for good in ["1", "2.1", "3.1.2", "R.1", "G.3.1", "01", "a-b_c", "1234567890"] {
            assert!(Index::try_from(good.to_owned()).is_ok(), "{good}");
        }
        for bad in [
            "",
            " ",
            "1.** x",
            "1\n2",
            "..",
            "1.",
            ".1",
            "1..2",
            "٣",
            "①",
            "99999999999",
            "1 2",
            "1*",
        ] {
            assert!(Index::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }

    // S1: S.3.3
    #[test]
    fn order_goes_by_segments_numbers_by_value_before_words() {
        let sorted = ["1", "1.2", "1.10", "1.a", "1.B", "2", "10", "a", "b"];
        for pair in sorted.windows(2) {
            assert_eq!(compare(pair[0], pair[1]), Ordering::Less, "{pair:?}");
            assert_eq!(compare(pair[1], pair[0]), Ordering::Greater, "{pair:?}");
        }
        assert_eq!(compare("01.002", "1.2"), Ordering::Equal);
        assert_eq!(compare("9999999999", "9999999998"), Ordering::Greater);
    }

    #[test]
    fn groups_are_named_by_a_first_segment_that_starts_with_a_letter() {
        assert_eq!(group("R.1"), Some("R"));
        assert_eq!(group("R"), Some("R"));
        for number in ["1", "1a.2", "_x", "-1"] {
            assert_eq!(group(number), None, "{number}");
        }
    }

    // S1: S.3.4
    #[test]
    fn the_next_index_keeps_the_depth_where_it_can() {
        for (predecessor, offender, next) in [
            ("3", "2", Some("4")),
            ("2.3", "1", Some("3")),
            ("2", "1.5", Some("2.1")),
            ("R.5", "R", Some("R.6")),
            ("R.a", "R.a", Some("R.a.1")),
            ("5.a", "5.a", Some("5.a.1")),
            ("9", "1.1.1", Some("9.1.1")),
            ("9999999999", "1", None),
            ("99999.9999", "1.1", Some("100000")),
        ] {
            assert_eq!(next_after(predecessor, offender).as_deref(), next, "{predecessor}");
        }
    }
}
