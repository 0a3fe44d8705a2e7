//! Arguments that identify requirements: section keys, which are the names of section files, and
//! indices.
//!
//! Indices are compared by value: `01` is requirement `1`, and `FR-2` comes before `FR-10`. The key
//! of an existing file may contain any character of a file name, but a new key is restricted by
//! [`SectionKey::check_new`].

use std::cmp::{Ordering, Reverse};

use crate::bounded_types::{check_text, string_type};

pub const MAX_INDEX_CHARS: usize = 10;
pub const MAX_KEY_CHARS: usize = 100;

string_type!(
    /// Segments of letters, digits, `_` and `-`, separated by single dots, with at least one digit.
    RequirementIndex,
    parse_index,
    {
        "type": "string",
        "minLength": 1,
        "maxLength": MAX_INDEX_CHARS,
        "pattern": r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$"
    }
);

fn parse_index(text: &str) -> Result<String, String> {
    check_text(text, MAX_INDEX_CHARS)?;
    if !is_index(text) {
        return Err(format!(
            "{text:?} is not an index; use letters, digits, '_' and '-' in segments separated by \
             single dots, with at least one digit, such as \"3\", \"2.1\" or \"FR-12\""
        ));
    }
    Ok(text.to_owned())
}

/// True for the index of a requirement. A word or letter without a digit is none: in prose, bold
/// words such as `**Note.**` and `**Q.**` begin a paragraph.
pub(crate) fn is_index(text: &str) -> bool {
    text.len() <= MAX_INDEX_CHARS && text.split('.').all(is_segment) && is_numbered(text)
}

/// True if a bold token stands for a requirement, even if it is not a valid index.
pub(crate) fn is_numbered(token: &str) -> bool {
    token.bytes().any(|byte| byte.is_ascii_digit())
}

fn is_segment(segment: &str) -> bool {
    !segment.is_empty()
        && segment.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// The group of an index: its first segment up to the first digit, `R` in `R.1` and `FR-` in
/// `FR-12`. `None`, the group of numbers, if the index does not begin with a letter.
pub(crate) fn group_of(index: &str) -> Option<&str> {
    let first = index.split('.').next().unwrap_or_default();
    let number_start = first.find(|c: char| c.is_ascii_digit()).unwrap_or(first.len());
    first.starts_with(|c: char| c.is_ascii_alphabetic()).then_some(&first[..number_start])
}

/// Compares segment by segment, and in a segment its numbers and the words between them: numbers by
/// value and before words, words alphabetically. A prefix comes first.
pub(crate) fn compare_indices(a: &str, b: &str) -> Ordering {
    compare_parts(a.split('.'), b.split('.'), |a, b| {
        compare_parts(SegmentParts(a), SegmentParts(b), compare_words)
    })
}

fn compare_parts<'a>(
    mut left: impl Iterator<Item = &'a str>,
    mut right: impl Iterator<Item = &'a str>,
    compare: impl Fn(&str, &str) -> Ordering,
) -> Ordering {
    loop {
        match (left.next(), right.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(a), Some(b)) => match compare(a, b) {
                Ordering::Equal => {}
                unequal => return unequal,
            },
        }
    }
}

/// The numbers of a segment and the words between them: `FR-` and `12` in `FR-12`.
struct SegmentParts<'a>(&'a str);

impl<'a> Iterator for SegmentParts<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let is_number = self.0.chars().next()?.is_ascii_digit();
        let end = self.0.find(|c: char| c.is_ascii_digit() != is_number);
        let (part, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
        self.0 = rest;
        Some(part)
    }
}

fn compare_words(a: &str, b: &str) -> Ordering {
    match (parse_number(a), parse_number(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => {
            // The exact spelling decides between words that differ only in case.
            let lower_a = a.bytes().map(|byte| byte.to_ascii_lowercase());
            let lower_b = b.bytes().map(|byte| byte.to_ascii_lowercase());
            lower_a.cmp(lower_b).then_with(|| a.cmp(b))
        }
    }
}

fn parse_number(word: &str) -> Option<u64> {
    if word.bytes().all(|byte| byte.is_ascii_digit()) { word.parse().ok() } else { None }
}

/// The next index after `predecessor`, at the depth of `offender` if possible, else at the nearest
/// depth, preferably a deeper one. `None` if no index of at most [`MAX_INDEX_CHARS`] characters is
/// left.
pub(crate) fn next_after(predecessor: &str, offender: &str) -> Option<String> {
    let depth = offender.split('.').count();
    let mut depths: Vec<usize> = (1..=MAX_INDEX_CHARS.div_ceil(2)).collect();
    depths.sort_by_key(|other| (other.abs_diff(depth), Reverse(*other)));
    depths.into_iter().find_map(|depth| next_at_depth(predecessor, depth))
}

fn next_at_depth(predecessor: &str, depth: usize) -> Option<String> {
    let mut segments: Vec<String> = predecessor.split('.').map(str::to_owned).collect();
    if depth <= segments.len() {
        segments.truncate(depth);
        let last = segments.pop()?;
        let word = last.trim_end_matches(|c: char| c.is_ascii_digit());
        // A word without a number has no successor at this depth.
        let next = parse_number(&last[word.len()..])? + 1;
        segments.push(format!("{word}{next}"));
    } else {
        // A deeper index is greater than its prefix.
        segments.resize(depth, "1".to_owned());
    }
    let next = segments.join(".");
    (next.len() <= MAX_INDEX_CHARS).then_some(next)
}

string_type!(
    /// A key: one path component, not hidden, not AGENTS.
    SectionKey,
    parse_key,
    {
        "type": "string",
        "minLength": 1,
        "maxLength": MAX_KEY_CHARS,
        "pattern": r"^[^\s./\\][^/\\]*$"
    }
);

fn parse_key(text: &str) -> Result<String, String> {
    check_text(text, MAX_KEY_CHARS)?;
    let has_invalid_start = text.starts_with(|c: char| c == '.' || c.is_whitespace());
    if has_invalid_start || text.contains(|c: char| c == '/' || c == '\\' || c.is_control()) {
        return Err(format!(
            "{text:?} is not a section key; use letters, digits, '_' and '-', such as \"general\" \
             or \"code_quality\""
        ));
    }
    // In any case: file systems may ignore it.
    if text.eq_ignore_ascii_case("agents") {
        return Err(format!(
            "{text:?} is reserved for AGENTS.md, the instructions; choose another key"
        ));
    }
    Ok(text.to_owned())
}

impl SectionKey {
    /// Checks that a new section may have this key.
    pub fn check_new(&self) -> Result<(), String> {
        let key = self.as_str();
        let is_valid = key.starts_with(|c: char| c.is_ascii_alphanumeric())
            && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        if !is_valid {
            return Err(format!(
                "section {key:?} does not exist and its key is invalid; use letters, digits, '_' \
                 and '-', starting with a letter or digit, such as \"code_quality\""
            ));
        }
        // Windows cannot create such files, in any folder.
        if is_device_name(key) {
            return Err(format!("{key:?} is a device name on Windows; choose another key"));
        }
        Ok(())
    }
}

/// True for a device name of Windows. The caller passes a file's name without its extension,
/// because `nul.txt` is a device, too.
pub fn is_device_name(name: &str) -> bool {
    let key = name.to_ascii_lowercase();
    if matches!(key.as_str(), "con" | "prn" | "aux" | "nul") {
        return true;
    }
    let port = key.strip_prefix("com").or_else(|| key.strip_prefix("lpt"));
    port.is_some_and(|port| port.len() == 1 && port.as_bytes()[0].is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    // S1: C.3, P.1
    #[test]
    fn index_with_invalid_segment_is_rejected() {
        for good in
            ["1", "2.1", "3.1.2", "R.1", "G.3.1", "01", "a-1_c", "1234567890", "FR-12", "1-9"]
        {
            assert!(RequirementIndex::try_from(good.to_owned()).is_ok(), "{good}");
        }
        let bad = "1.|.1|..|1..2|1*|1 2|1\n2|1.** x|99999999999|٣|①| ||Note|FR|R|a|R.a|-|_|a-b_c";
        for bad in bad.split('|') {
            assert!(RequirementIndex::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }

    #[test]
    fn fr_10_follows_fr_3_and_1_10_follows_1_9() {
        let sorted =
            ["1", "1-9", "1-9.2", "1-10", "1a", "2", "FR", "FR-1", "FR-2", "FR-3", "FR-10"];
        for pair in sorted.windows(2) {
            assert_eq!(compare_indices(pair[0], pair[1]), Ordering::Less, "{pair:?}");
        }
        assert_eq!(compare_indices("FR-01", "FR-1"), Ordering::Equal);
        assert_eq!(compare_indices("R.007", "R.7"), Ordering::Equal);
        assert_ne!(compare_indices("FR-1", "FR1"), Ordering::Equal);
    }

    // S1: S.3.3
    #[test]
    fn indices_sort_by_segment_numbers_before_words() {
        let sorted = ["1", "1.2", "1.10", "1.a", "1.B", "2", "10", "a", "b"];
        for pair in sorted.windows(2) {
            assert_eq!(compare_indices(pair[0], pair[1]), Ordering::Less, "{pair:?}");
            assert_eq!(compare_indices(pair[1], pair[0]), Ordering::Greater, "{pair:?}");
        }
        assert_eq!(compare_indices("01.002", "1.2"), Ordering::Equal);
        assert_eq!(compare_indices("9999999999", "9999999998"), Ordering::Greater);
    }

    #[test]
    fn group_is_the_first_segment_up_to_its_number() {
        for (index, group) in [
            ("R.1", "R"),
            ("R.10", "R"),
            ("R", "R"),
            ("R7", "R"),
            ("FR-1", "FR-"),
            ("FR_10.2", "FR_"),
            ("FR-UI-2", "FR-UI-"),
        ] {
            assert_eq!(group_of(index), Some(group), "{index}");
        }
        for number in ["1", "1-9", "1a.2", "_x1", "-1"] {
            assert_eq!(group_of(number), None, "{number}");
        }
    }

    // S1: S.3.4
    #[test]
    fn next_index_keeps_the_depth_if_possible() {
        for (predecessor, offender, next) in [
            ("3", "2", Some("4")),
            ("2.3", "1", Some("3")),
            ("2", "1.5", Some("2.1")),
            ("R.5", "R", Some("R.6")),
            ("FR-9", "FR-2", Some("FR-10")),
            ("FR-9.2", "FR-1", Some("FR-10")),
            ("1-9", "1-1", Some("1-10")),
            ("FR-999999", "FR-1", Some("FR-1000000")),
            ("FR-9999999", "FR-1", None),
            ("R.a", "R.a", Some("R.a.1")),
            ("5.a", "5.a", Some("5.a.1")),
            ("9", "1.1.1", Some("9.1.1")),
            ("9999999999", "1", None),
            ("99999.9999", "1.1", Some("100000")),
        ] {
            assert_eq!(next_after(predecessor, offender).as_deref(), next, "{predecessor}");
        }
    }

    fn key(text: &str) -> Result<SectionKey, String> {
        SectionKey::try_from(text.to_owned())
    }

    // S1: P.1, G.3.2
    #[test]
    fn section_key_with_path_or_reserved_is_rejected() {
        let bad = "../../etc/passwd|..\\..\\x|a/b|/tmp/x|C:\\x|\\\\host\\share|a\0b|.|..|| |.hidden|.git|\
                   .github|.ixchel|AGENTS|agents|Agents|a\nb";
        for bad in bad.split('|') {
            assert!(key(bad).is_err(), "{bad:?}");
        }
        assert!(key(&"x".repeat(100)).is_ok());
        assert!(key(&"x".repeat(101)).unwrap_err().contains("101"));
    }

    // S1: S.3.1
    #[test]
    fn unusual_section_key_may_exist_but_not_be_new() {
        for odd in ["-rf", "x.", "x ", "my notes", "%2e%2e%2fx", "заметки", "CON", "com1", "nul"]
        {
            assert!(key(odd).unwrap().check_new().is_err(), "{odd:?}");
        }
        for plain in ["general", "code_quality", "A-1", "9", "console", "com10"] {
            assert!(key(plain).unwrap().check_new().is_ok(), "{plain:?}");
        }
    }
}
