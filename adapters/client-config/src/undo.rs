//! Undo of an edit, to the byte.
//!
//! A patch contains only the change, because the file may hold secrets of other servers. It applies
//! while the inserted text occurs exactly once, so it includes as much context as that needs.

use serde::{Deserialize, Serialize};

/// One edit of one text, which can be undone after edits of other parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoPatch {
    removed: String,
    inserted: String,
}

impl UndoPatch {
    /// The smallest edit between two texts that occurs once in the new text. An edit that changes
    /// nothing or leaves no text can't be undone.
    pub fn between(before: &str, after: &str) -> Self {
        if before == after {
            return Self { removed: String::new(), inserted: String::new() };
        }
        let change = TextChange::between(before, after);
        let max_context = change.prefix.max(change.suffix);
        // Doubling and then bisecting keeps the search fast on long files.
        let mut enough = 0;
        while enough < max_context && !change.is_unique_with(enough, after) {
            enough = (enough * 2).clamp(1, max_context);
        }
        let mut too_little = enough / 2;
        while too_little + 1 < enough {
            let middle = usize::midpoint(too_little, enough);
            if change.is_unique_with(middle, after) {
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
        if !occurs_once(&self.inserted, text) {
            return None;
        }
        Some(text.replacen(&self.inserted, &self.removed, 1))
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
        let (bytes, other_bytes) = (text.as_bytes(), other.as_bytes());
        let shorter = bytes.len().min(other_bytes.len());
        let mut prefix = 0;
        while prefix < shorter && bytes[prefix] == other_bytes[prefix] {
            prefix += 1;
        }
        let mut suffix = 0;
        // The common end must not overlap the common beginning, as in `aa` and `aaa`.
        while suffix < shorter - prefix
            && bytes[bytes.len() - 1 - suffix] == other_bytes[other_bytes.len() - 1 - suffix]
        {
            suffix += 1;
        }
        // Bytes were compared, so a position may be inside a character.
        Self { text, other, prefix, suffix }.at_characters()
    }

    /// True if the change with this context occurs once in the new text.
    fn is_unique_with(self, context: usize, after: &str) -> bool {
        occurs_once(self.widened(context).changed_part(after), after)
    }

    /// The same change with up to `context` more bytes on either side.
    fn widened(self, context: usize) -> Self {
        let prefix = self.prefix.saturating_sub(context);
        let suffix = self.suffix.saturating_sub(context);
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

    /// The part of `text`, which is one of the two texts, that differs.
    fn changed_part(self, text: &str) -> &str {
        &text[self.prefix..text.len() - self.suffix]
    }
}

/// True if the position is inside a character or a CRLF.
fn splits_character(text: &str, position: usize) -> bool {
    let bytes = text.as_bytes();
    let is_in_line_end =
        position > 0 && bytes[position - 1] == b'\r' && bytes.get(position) == Some(&b'\n');
    is_in_line_end || !text.is_char_boundary(position)
}

fn occurs_once(part: &str, text: &str) -> bool {
    let Some(first) = text.find(part) else { return false };
    let Some(first_char) = part.chars().next() else { return false };
    // Occurrences may overlap, so the second search starts one character later.
    !text[first + first_char.len_utf8()..].contains(part)
}
