//! The undo of an edit, to the byte.
//!
//! It contains only the change, not the file, which may hold secrets of other servers. An undo
//! works while the inserted text occurs exactly once, even if other parts were edited since. So
//! the change is widened until it does: a lone `,` would occur everywhere.

use serde::{Deserialize, Serialize};

/// One edit of one text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoPatch {
    removed: String,
    inserted: String,
}

impl UndoPatch {
    /// The smallest edit between two texts that can be found again. An edit that changes nothing,
    /// or leaves nothing, cannot be undone.
    pub fn between(before: &str, after: &str) -> Self {
        if before == after {
            return Self { removed: String::new(), inserted: String::new() };
        }
        let change = TextChange::between(before, after);
        let is_findable =
            |around: usize| occurs_once(change.widened(around).changed_part(after), after);
        let max = change.prefix.max(change.suffix);
        let mut enough = 0;
        while enough < max && !is_findable(enough) {
            enough = (enough * 2).clamp(1, max);
        }
        let mut too_little = enough / 2;
        while too_little + 1 < enough {
            let middle = usize::midpoint(too_little, enough);
            if is_findable(middle) {
                enough = middle;
            } else {
                too_little = middle;
            }
        }
        let change = change.widened(enough);
        Self {
            removed: change.changed_part(before).to_owned(),
            inserted: change.changed_part(after).to_owned(),
        }
    }

    /// The text before the edit, if the inserted text occurs exactly once.
    pub fn undo(&self, text: &str) -> Option<String> {
        occurs_once(&self.inserted, text).then(|| text.replacen(&self.inserted, &self.removed, 1))
    }
}

/// The lengths of the common beginning and end of two texts.
#[derive(Clone, Copy)]
struct TextChange<'a> {
    text: &'a str,
    other: &'a str,
    prefix: usize,
    suffix: usize,
}

impl<'a> TextChange<'a> {
    fn between(text: &'a str, other: &'a str) -> Self {
        let same = |(a, b): &(u8, u8)| a == b;
        let prefix = text.bytes().zip(other.bytes()).take_while(same).count();
        let rest = text.len().min(other.len()) - prefix;
        let backwards = text.bytes().rev().zip(other.bytes().rev());
        let suffix = backwards.take(rest).take_while(same).count();
        Self { text, other, prefix, suffix }.at_characters()
    }

    /// The same change with up to this many more bytes on either side.
    fn widened(self, around: usize) -> Self {
        let prefix = self.prefix.saturating_sub(around);
        let suffix = self.suffix.saturating_sub(around);
        Self { prefix, suffix, ..self }.at_characters()
    }

    /// Widened so that it does not split a character or a CRLF of either text.
    fn at_characters(mut self) -> Self {
        while [self.text, self.other].iter().any(|text| splits_character(text, self.prefix)) {
            self.prefix -= 1;
        }
        while [self.text, self.other]
            .iter()
            .any(|text| splits_character(text, text.len() - self.suffix))
        {
            self.suffix -= 1;
        }
        self
    }

    /// The part of one of the two texts that differs.
    fn changed_part(self, text: &str) -> &str {
        &text[self.prefix..text.len() - self.suffix]
    }
}

fn splits_character(text: &str, at: usize) -> bool {
    let bytes = text.as_bytes();
    let in_line_end = at > 0 && bytes[at - 1] == b'\r' && bytes.get(at) == Some(&b'\n');
    in_line_end || !text.is_char_boundary(at)
}

fn occurs_once(part: &str, text: &str) -> bool {
    let Some(first) = text.find(part) else { return false };
    let Some(head) = part.chars().next() else { return false };
    !text[first + head.len_utf8()..].contains(part)
}
