//! What an edit replaced by what, so that it can be undone to the byte.
//!
//! It holds only what changed, not the file: that may hold other servers' secrets. It can be undone
//! as long as what was put in stands there once, whatever else was edited since. So what changed is
//! widened until it is the only such place: a lone `,` would be found everywhere.

use serde::{Deserialize, Serialize};

/// One edit of one text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    /// What stood there before, often nothing.
    removed: String,
    inserted: String,
}

impl Trace {
    /// The smallest edit that leads from one text to the other and that can be found again. Of two
    /// equal texts it is the empty one, which nothing can undo; nor can it an edit that leaves
    /// nothing.
    pub fn between(before: &str, after: &str) -> Self {
        if before == after {
            return Self { removed: String::new(), inserted: String::new() };
        }
        let change = Change::between(before, after);
        let is_findable = |around: usize| is_once(change.widened(around).of(after), after);
        let mut enough = 0;
        let whole = change.prefix.max(change.suffix);
        while enough < whole && !is_findable(enough) {
            enough = (enough * 2).clamp(1, whole);
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
        Self { removed: change.of(before).to_owned(), inserted: change.of(after).to_owned() }
    }

    /// The text before, if what was put in is found there exactly once.
    pub fn undo(&self, text: &str) -> Option<String> {
        if !is_once(&self.inserted, text) {
            return None;
        }
        Some(text.replacen(&self.inserted, &self.removed, 1))
    }
}

/// How many bytes two texts have in common at their beginnings and at their ends.
#[derive(Clone, Copy)]
struct Change<'a> {
    text: &'a str,
    other: &'a str,
    prefix: usize,
    suffix: usize,
}

impl<'a> Change<'a> {
    fn between(text: &'a str, other: &'a str) -> Self {
        let same = |(a, b): &(u8, u8)| a == b;
        let prefix = text.bytes().zip(other.bytes()).take_while(same).count();
        let rest = text.len().min(other.len()) - prefix;
        let backwards = text.bytes().rev().zip(other.bytes().rev());
        let suffix = backwards.take(rest).take_while(same).count();
        Self { text, other, prefix, suffix }.at_characters()
    }

    /// The same change with so many bytes more on either side, or as many as there are.
    fn widened(self, around: usize) -> Self {
        let prefix = self.prefix.saturating_sub(around);
        let suffix = self.suffix.saturating_sub(around);
        Self { prefix, suffix, ..self }.at_characters()
    }

    /// No character and no CRLF is cut in two, in either text.
    fn at_characters(mut self) -> Self {
        while [self.text, self.other].iter().any(|text| is_cut(text, self.prefix)) {
            self.prefix -= 1;
        }
        while [self.text, self.other].iter().any(|text| is_cut(text, text.len() - self.suffix)) {
            self.suffix -= 1;
        }
        self
    }

    /// What differs, in one of the two texts.
    fn of(self, text: &str) -> &str {
        &text[self.prefix..text.len() - self.suffix]
    }
}

fn is_cut(text: &str, at: usize) -> bool {
    let bytes = text.as_bytes();
    let in_line_end = at > 0 && bytes[at - 1] == b'\r' && bytes.get(at) == Some(&b'\n');
    in_line_end || !text.is_char_boundary(at)
}

fn is_once(part: &str, text: &str) -> bool {
    let Some(first) = text.find(part) else { return false };
    let Some(head) = part.chars().next() else { return false };
    !text[first + head.len_utf8()..].contains(part)
}
