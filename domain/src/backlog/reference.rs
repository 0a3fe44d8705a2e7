//! References of items, such as `REQ-048`.
//!
//! A reference is not a document name: `auth/REQ-048-guest-checkout-3f9a1c` has the reference
//! `REQ-048`. After a merge of two branches, two files may have the same reference.

use std::fmt;
use std::ops::Range;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use crate::records::kinds::{ItemKind, is_entity_id};
use crate::untrusted_text::is_hidden;

/// The highest valid number.
pub const MAX_NUMBER: u32 = 1_000_000_000;

/// The reference of an item. Displayed with at least three digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    pub kind: ItemKind,
    pub number: u32,
}

impl Serialize for Reference {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Only from borrowed text.
impl<'de> Deserialize<'de> for Reference {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <&str>::deserialize(deserializer)?;
        Self::parse(text).ok_or_else(|| D::Error::custom("not a reference"))
    }
}

/// The result of parsing a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParsedReference {
    Reference(Reference),
    /// A number above [`MAX_NUMBER`].
    TooLarge,
    Malformed,
}

/// The ID that a formatted text means: `EP-024` for `**EP‑024**.` or `（ＥＰ－０２４）`. Dashes and
/// full-width characters become ASCII, invisible characters and outer marks are removed. `None` if
/// nothing changes.
pub fn fold_look_alikes(text: &str) -> Option<String> {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars().filter(|c| c.is_control() || !is_hidden(*c)) {
        plain.push(match c {
            '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{fe58}' | '\u{fe63}' => '-',
            '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0).unwrap_or(c),
            c => c,
        });
    }
    // A path such as `../EP-24` or a sign means something else.
    let is_mark = |c: char| {
        c.is_whitespace() || !(c.is_alphanumeric() || c.is_control() || "/\\-+".contains(c))
    };
    let is_first_mark = |c| c == '-' || (is_mark(c) && c != '.');
    let folded = plain.trim_start_matches(is_first_mark).trim_end_matches(is_mark);
    (folded != text).then(|| folded.to_owned())
}

impl Reference {
    /// Parses `REQ-48` or `REQ-048` of any kind. Case-sensitive, ASCII digits only.
    pub fn parse(text: &str) -> Option<Self> {
        for kind in ItemKind::ALL {
            if let ParsedReference::Reference(reference) = Self::parse_kind(kind, text) {
                return Some(reference);
            }
        }
        None
    }

    /// Parses a reference of one kind in any case and with spaces around it, such as `req-7`.
    pub fn parse_any_case(kind: ItemKind, text: &str) -> ParsedReference {
        Self::parse_kind(kind, &text.trim().to_ascii_uppercase())
    }

    /// Parses a reference of one kind.
    pub fn parse_kind(kind: ItemKind, text: &str) -> ParsedReference {
        let digits = text.strip_prefix(kind.prefix()).and_then(|rest| rest.strip_prefix('-'));
        let Some(digits) = digits.filter(|digits| is_ascii_number(digits)) else {
            return ParsedReference::Malformed;
        };
        match digits.parse() {
            // Numbers that overflow `u32` are too large as well.
            Ok(number) if number <= MAX_NUMBER => ParsedReference::Reference(Self { kind, number }),
            _ => ParsedReference::TooLarge,
        }
    }

    /// The reference at the start of a document's file name, `REQ-048` in
    /// `auth/REQ-048-guest-checkout-3f9a1c`.
    pub fn from_document_name(name: &str) -> Option<Self> {
        // A copy such as `REQ-048 copy` has no reference: its digits are invalid.
        Self::parse(split_name(name)?.reference)
    }

    /// The name of a document after its item got this reference: folders, slug and suffix stay.
    pub fn renamed_document(self, name: &str) -> String {
        match split_name(name) {
            Some(NameParts { folders, rest, .. }) => format!("{folders}{self}{rest}"),
            None => self.to_string(),
        }
    }
}

/// The parts of a document name, which concatenated are the name.
struct NameParts<'a> {
    /// Empty, or folders with a slash after each.
    folders: &'a str,
    /// Letters and digits; may be invalid.
    reference: &'a str,
    /// Empty, or a hyphen with slug and suffix.
    rest: &'a str,
}

/// `None` for a file name without a hyphen.
fn split_name(name: &str) -> Option<NameParts<'_>> {
    let file_start = name.rfind('/').map_or(0, |slash| slash + 1);
    let (folders, file) = name.split_at(file_start);
    let digits_start = file.find('-')? + 1;
    let digits = file[digits_start..].find('-');
    let (reference, rest) = file.split_at(digits.map_or(file.len(), |end| digits_start + end));
    Some(NameParts { folders, reference, rest })
}

/// The suffix of a document name, `3f9a1c` in `REQ-048-guest-checkout-3f9a1c`. It distinguishes
/// items that have the same reference. In a name given by hand, such as `REQ-048-login-page`, it is
/// all text after the reference.
pub fn file_suffix(name: &str) -> Option<&str> {
    let rest = split_name(name)?.rest.strip_prefix('-')?;
    let last = rest.rsplit('-').next().filter(|last| is_uid_suffix(last));
    Some(last.unwrap_or(rest)).filter(|suffix| !suffix.is_empty())
}

/// Number of characters of the uid that become the suffix of the file name.
pub const SUFFIX_CHARS: usize = 6;

fn is_uid_suffix(text: &str) -> bool {
    text.len() == SUFFIX_CHARS && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

const MAX_SLUG_CHARS: usize = 40;

/// The words of a title for a file name: `Crème für "Ann's"` becomes `creme-fur-anns`. Empty for a
/// title without Latin letters and digits.
pub(crate) fn title_slug(title: &str) -> String {
    let mut slug = String::new();
    // File systems and Git write letters of other scripts in different ways, so a file name of
    // them could change on the way to another machine.
    let folded: String = title.nfkd().filter(|c| !is_combining_mark(*c)).collect();
    let folded =
        folded.replace(['\'', '\u{2019}'], "").replace('\u{df}', "ss").to_ascii_lowercase();
    for word in folded.split(|c: char| !c.is_ascii_alphanumeric()) {
        if word.is_empty() {
            continue;
        }
        if slug.is_empty() {
            slug.push_str(&word[..word.len().min(MAX_SLUG_CHARS)]);
        } else if slug.len() + 1 + word.len() <= MAX_SLUG_CHARS {
            slug.push('-');
            slug.push_str(word);
        } else {
            break;
        }
    }
    slug
}

fn is_ascii_number(digits: &str) -> bool {
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:03}", self.kind.prefix(), self.number)
    }
}

/// Each reference and entity id in a text, with its range of bytes. References are normalized.
pub fn scan_mentions(text: &str) -> impl Iterator<Item = (Range<usize>, String)> {
    let mut scanned = 0;
    // Every mention has a hyphen and most words have none, so the hyphens are searched.
    text.match_indices('-').filter_map(move |(hyphen, _)| {
        if hyphen < scanned {
            return None;
        }
        let mut before = text[scanned..hyphen].char_indices().rev();
        let delimiter = before.find(|(_, c)| !is_word_char(*c));
        let start = delimiter.map_or(scanned, |(at, c)| scanned + at + c.len_utf8());
        let after = text[hyphen..].find(|c| !is_word_char(c));
        scanned = after.map_or(text.len(), |at| hyphen + at);
        let word = &text[start..scanned];
        let mention = match Reference::parse(word) {
            Some(reference) => reference.to_string(),
            None if is_entity_id(word) => word.to_owned(),
            None => return None,
        };
        Some((start..scanned, mention))
    })
}

fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || c == '-' || c == '_'
}

/// True for the form of an entity's id or an item's reference, `dec-1d2c8f` or `REQ-048`.
pub(crate) fn looks_like_id(text: &str) -> bool {
    is_entity_id(text)
        || ItemKind::ALL
            .into_iter()
            .any(|kind| Reference::parse_kind(kind, text) != ParsedReference::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{DocumentId, DocumentKind};

    const REQ: ItemKind = ItemKind::Requirement;

    fn parse_story(text: &str) -> ParsedReference {
        Reference::parse_kind(ItemKind::UserStory, text)
    }

    fn story(number: u32) -> ParsedReference {
        ParsedReference::Reference(Reference { kind: ItemKind::UserStory, number })
    }

    // S2: 1.5, 2.2
    #[test]
    fn reference_without_ascii_digits_is_malformed() {
        assert_eq!(parse_story("US-047"), story(47));
        assert_eq!(parse_story("US-47"), story(47));
        assert_eq!(parse_story("US-000000000000000000000047"), story(47));
        assert_eq!(parse_story("US-1000000000"), story(MAX_NUMBER));
        for large in ["US-1000000001", "US-99999999999999999999"] {
            assert_eq!(parse_story(large), ParsedReference::TooLarge, "{large}");
        }
        let malformed = "USER-047|US-|US-ABC|047|us-1|US-1\n| US-1|US-1 |US-\u{661}|US-1 OR 1=1|US-+1|\
                         US--1|US-1-2|US_1||REQ-001";
        for text in malformed.split('|') {
            assert_eq!(parse_story(text), ParsedReference::Malformed, "{text:?}");
        }
    }

    #[test]
    fn look_alikes_are_folded_to_one_id() {
        for text in [
            "EP\u{2010}024",
            "EP\u{2011}024",
            "EP\u{2012}024",
            "EP\u{2013}024",
            "EP\u{2014}024",
            "EP\u{2015}024",
            "EP\u{2212}024",
            "EP\u{fe63}024",
            "\u{ff25}\u{ff30}\u{ff0d}\u{ff10}\u{ff12}\u{ff14}",
            "\u{a0}EP-024\u{202f}",
            "\u{3000}EP-024",
            "EP\u{ad}-024",
            "EP-\u{200b}024\u{feff}",
            "`EP-024`",
            "**EP-024**",
            "\"EP-024\"",
            "'EP-024'",
            "\u{ab}EP-024\u{bb}",
            "\u{201c}EP-024\u{201d}",
            "[EP-024]",
            "[[EP-024]]",
            "(EP-024)",
            "<EP-024>",
            "\u{ff08}EP-024\u{ff09}",
            "EP-024.",
            "EP-024,",
            "EP-024:",
            "EP-024!?",
            "#EP-024",
            "\u{2013} EP\u{2013}024;",
        ] {
            assert_eq!(fold_look_alikes(text).as_deref(), Some("EP-024"), "{text:?}");
        }
        for text in [
            "EP-024",
            "ep-024",
            "dec-1a2b3c",
            "general:2.1",
            "auth/login",
            "EP-0\n24",
            "../EP-024",
            "EP-",
        ] {
            assert_eq!(fold_look_alikes(text), None, "{text:?}");
        }
        for text in ["EP-02\u{2074}", "EP-\u{661}", "\u{415}\u{420}-024", "EP 024", "EP--024"] {
            let folded = fold_look_alikes(text).unwrap_or_else(|| text.to_owned());
            assert_eq!(Reference::parse(&folded), None, "{text:?}");
        }
    }

    #[test]
    fn reference_displays_at_least_three_digits() {
        for (number, printed) in [(0, "REQ-000"), (48, "REQ-048"), (12_345, "REQ-12345")] {
            assert_eq!(Reference { kind: REQ, number }.to_string(), printed);
        }
    }

    #[test]
    fn reference_is_taken_from_the_file_name() {
        for name in [
            "REQ-48",
            "REQ-048",
            "REQ-048-3f9a1c",
            "REQ-048-login-page",
            "auth/REQ-048-2fa-3f9a1c",
            "EP-001/old-notes/REQ-048",
        ] {
            assert_eq!(
                Reference::from_document_name(name),
                Some(Reference { kind: REQ, number: 48 }),
                "{name}"
            );
        }
        for name in
            ["README", "REQ", "REQ-", "REQ-x", "REQ048", "REQ-48x", "req-48", "-48", "REQ-1/x"]
        {
            assert_eq!(Reference::from_document_name(name), None, "{name}");
        }
        let id =
            DocumentId { kind: DocumentKind::Item(ItemKind::Epic), name: "REQ-048".to_owned() };
        assert_eq!(Reference::from_document(&id), None, "a requirement among epics");
    }

    #[test]
    fn slug_has_at_most_40_ascii_characters_of_the_title() {
        for (title, name) in [
            ("Guest checkout", "REQ-048-guest-checkout-3f9a1c"),
            ("  Crème für \"Ann's\" Straße ", "REQ-048-creme-fur-anns-strasse-3f9a1c"),
            ("../2FA: \u{ff21}PI\n(v2)", "REQ-048-2fa-api-v2-3f9a1c"),
            ("Оплата гостя", "REQ-048-3f9a1c"),
            ("...", "REQ-048-3f9a1c"),
            (
                "Aaaaaaaaa bbbbbbbbb ccccccccc ddddddddd e fff",
                "REQ-048-aaaaaaaaa-bbbbbbbbb-ccccccccc-ddddddddd-3f9a1c",
            ),
            (&"x".repeat(41), &format!("REQ-048-{}-3f9a1c", "x".repeat(40))),
        ] {
            let id = Reference { kind: REQ, number: 48 }.document_id(title, "3f9a1c");
            assert_eq!(id.name, name);
            assert_eq!(id.check(), Ok(()), "{name}");
            assert_eq!(file_suffix(name), Some("3f9a1c"), "{name}");
        }
    }

    #[test]
    fn suffix_of_a_name_given_by_hand_is_the_rest() {
        for (name, suffix) in [
            ("REQ-048", None),
            ("REQ-048-", None),
            ("REQ-048-3f9a1c", Some("3f9a1c")),
            ("auth-1/REQ-048-login-page", Some("login-page")),
            ("REQ-048-3F9A1C", Some("3F9A1C")),
            ("REQ-048-my-decade", Some("decade")),
        ] {
            assert_eq!(file_suffix(name), suffix, "{name}");
        }
    }

    #[test]
    fn renumbered_document_keeps_folder_slug_and_suffix() {
        let to = Reference { kind: REQ, number: 7 };
        for (name, renamed) in [
            ("a/REQ-048-login-3f9a1c", "a/REQ-007-login-3f9a1c"),
            ("REQ-48", "REQ-007"),
            ("a/notes", "REQ-007"),
        ] {
            assert_eq!(to.renamed_document(name), renamed);
        }
    }
}
