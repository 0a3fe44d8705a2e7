//! Cuts a text into the pieces of words that a table knows.
//!
//! Words are runs of letters and digits, in lower case and without accents, and each is cut into
//! the longest known pieces from its start. A word that can't be cut completely gives nothing, and
//! so does every word with letters outside ASCII: the table is of English.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use crate::table::{Hash, LONGEST, Table};

/// Words longer than this are no words, but keys, hashes or encoded data.
const WORD_BYTES: usize = 100;

/// Calls `found` with the index of each piece of the text, in their order.
pub(crate) fn each(table: &Table, text: &str, mut found: impl FnMut(usize)) {
    let mut words = Words { table, word: Vec::with_capacity(WORD_BYTES), known: true };
    if text.is_ascii() {
        for byte in text.bytes() {
            words.take(char::from(byte.to_ascii_lowercase()), &mut found);
        }
    } else {
        let lower = text.chars().flat_map(char::to_lowercase);
        for letter in lower.nfd().filter(|letter| !is_combining_mark(*letter)) {
            words.take(letter, &mut found);
        }
    }
    words.end(&mut found);
}

/// Collects letters until a word ends.
struct Words<'table> {
    table: &'table Table,
    word: Vec<u8>,
    /// No letter so far that the table can't know.
    known: bool,
}

impl Words<'_> {
    fn take(&mut self, letter: char, found: &mut impl FnMut(usize)) {
        // Chinese is written without blanks, so each of its characters is a word to itself.
        if !letter.is_alphanumeric() || ('\u{4e00}'..='\u{9fff}').contains(&letter) {
            self.end(found);
        } else if letter.is_ascii() && self.word.len() < WORD_BYTES {
            self.word.push(letter as u8);
        } else {
            self.known = false;
        }
    }

    fn end(&mut self, found: &mut impl FnMut(usize)) {
        if self.known && !self.word.is_empty() {
            cut(self.table, &self.word, found);
        }
        self.word.clear();
        self.known = true;
    }
}

fn cut(table: &Table, word: &[u8], found: &mut impl FnMut(usize)) {
    let mut pieces = [0; WORD_BYTES];
    let mut count = 0;
    let mut start = 0;
    while start < word.len() {
        let Some((piece, length)) = longest(table, start > 0, &word[start..]) else { return };
        pieces[count] = piece;
        count += 1;
        start += length;
    }
    for piece in &pieces[..count] {
        found(*piece);
    }
}

/// The longest piece that `letters` begin with, and its length.
fn longest(table: &Table, continued: bool, letters: &[u8]) -> Option<(usize, usize)> {
    let mut hash = if continued { Hash::CONTINUED } else { Hash::START };
    let mut hashes = [hash; LONGEST];
    for (at, letter) in hashes.iter_mut().zip(letters) {
        hash = hash.with(*letter);
        *at = hash;
    }
    (1..=letters.len().min(LONGEST)).rev().find_map(|length| {
        let piece = table.find(hashes[length - 1], continued, &letters[..length])?;
        Some((piece, length))
    })
}
