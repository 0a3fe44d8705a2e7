//! References of items, such as `REQ-048`.
//!
//! A reference is not a document name: `REQ-048-3f9a1c.md` has the reference `REQ-048`. After a
//! merge of two branches, two files may have the same reference.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::ItemKind;
use crate::document::{DocumentId, DocumentKind};

/// The highest valid number.
pub const MAX_NUMBER: u32 = 1_000_000_000;

/// The reference of an item. Displayed with at least three digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Reference {
    pub kind: ItemKind,
    pub number: u32,
}

/// The result of parsing a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParsedReference {
    Reference(Reference),
    /// A number above [`MAX_NUMBER`].
    TooLarge,
    Malformed,
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

    /// The reference at the start of a document name, `REQ-048` in `REQ-048-3f9a1c`.
    pub fn from_document_name(name: &str) -> Option<Self> {
        // A copy such as `REQ-048 copy` has no reference: its digits are invalid.
        let (prefix, rest) = name.split_once('-')?;
        let digits = rest.split_once('-').map_or(rest, |(digits, _)| digits);
        Self::parse(&name[..prefix.len() + 1 + digits.len()])
    }

    /// The reference of an item or a tombstone; `None` for any other document.
    pub fn from_document(id: &DocumentId) -> Option<Self> {
        let found = Self::from_document_name(&id.name);
        match id.kind {
            DocumentKind::Item(kind) => found.filter(|found| found.kind == kind),
            DocumentKind::Deleted => found,
            _ => None,
        }
    }

    /// The id of the item's document with this file suffix.
    pub fn document_id(self, suffix: &str) -> DocumentId {
        DocumentId { kind: DocumentKind::Item(self.kind), name: format!("{self}-{suffix}") }
    }
}

/// The suffix of a document name, `3f9a1c` in `REQ-048-3f9a1c`. It distinguishes items that have
/// the same reference.
pub fn file_suffix(name: &str) -> Option<&str> {
    name.splitn(3, '-').nth(2).filter(|suffix| !suffix.is_empty())
}

fn is_ascii_number(digits: &str) -> bool {
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:03}", self.kind.prefix(), self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn reference_displays_at_least_three_digits() {
        for (number, printed) in [(0, "REQ-000"), (48, "REQ-048"), (12_345, "REQ-12345")] {
            assert_eq!(Reference { kind: REQ, number }.to_string(), printed);
        }
    }

    #[test]
    fn reference_is_taken_from_the_file_name() {
        for name in ["REQ-48", "REQ-048", "REQ-048-3f9a1c", "REQ-048-login-page"] {
            assert_eq!(
                Reference::from_document_name(name),
                Some(Reference { kind: REQ, number: 48 }),
                "{name}"
            );
        }
        for name in ["README", "REQ", "REQ-", "REQ-x", "REQ048", "REQ-48x", "req-48", "-48"] {
            assert_eq!(Reference::from_document_name(name), None, "{name}");
        }
        let id =
            DocumentId { kind: DocumentKind::Item(ItemKind::Epic), name: "REQ-048".to_owned() };
        assert_eq!(Reference::from_document(&id), None, "a requirement among epics");
    }
}
