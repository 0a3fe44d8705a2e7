//! The built-in embedder: a table with a vector for each word piece, and a text is their mean.
//!
//! It knows nothing of order or context and is weak alone; beside the match of words it finds what
//! is said in other words. `distil.py` makes the table and `NOTICE` says from what. Whoever makes
//! another table must give it another [`ID`], or cached vectors of both would be compared.

mod vector_table;

use std::fmt;

use reqlore_domain::error::Result;
use reqlore_domain::ports::embedder::{
    Embedder, ModelLanguages, ModelProfile, ModelSpeed, TextRole,
};

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use crate::vector_table::{DIMENSION, MAX_PIECE_BYTES, PieceHash, VectorTable};

/// The name and number of this table: another number, other vectors.
pub const ID: &str = "static-1";

/// What nearness by this table counts beside the match of words: the best of five weights on manual
/// pages asked for by their one-line descriptions, and never far from the best elsewhere.
const SEMANTIC_WEIGHT: f32 = 0.5;

/// Longer words are keys, hashes or encoded data.
const MAX_WORD_BYTES: usize = 100;

static TABLE: VectorTable = VectorTable::from_bytes(include_bytes!("../data/table.bin"));

/// Embeds with the table that is part of the program. Making one costs nothing.
pub struct StaticEmbedder {
    profile: ModelProfile,
}

impl StaticEmbedder {
    pub fn new() -> Self {
        Self {
            profile: ModelProfile {
                name: "static".to_owned(),
                id: ID.to_owned(),
                dimension: DIMENSION,
                weight: SEMANTIC_WEIGHT,
                languages: ModelLanguages::English,
                pace: ModelSpeed::Instant,
            },
        }
    }
}

impl Default for StaticEmbedder {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for StaticEmbedder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticEmbedder").field("id", &self.profile.id).finish_non_exhaustive()
    }
}

impl Embedder for StaticEmbedder {
    fn profile(&self) -> &ModelProfile {
        &self.profile
    }

    /// Texts of any length are read whole, and alike in every role.
    fn embed(&self, _role: TextRole, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        Ok(texts.iter().map(|text| embed(text)).collect())
    }
}

fn embed(text: &str) -> Vec<f32> {
    let mut sum = vec![0.0; DIMENSION];
    for_each_piece(&TABLE, text, |piece| TABLE.add_row(piece, &mut sum));
    let length = sum.iter().map(|x| x * x).sum::<f32>().sqrt();
    if length > 0.0 {
        for number in &mut sum {
            *number /= length;
        }
    }
    sum
}

/// Calls `found` with the index of each piece of the text, in order.
///
/// Words are runs of letters and digits, in lower case and without accents. Each is cut into the
/// longest known pieces from its start. A word that can't be cut completely gives nothing, and so
/// does a word with letters outside ASCII: the table is English.
fn for_each_piece(table: &VectorTable, text: &str, mut found: impl FnMut(usize)) {
    let mut words =
        WordSplitter { table, word: Vec::with_capacity(MAX_WORD_BYTES), is_ascii: true };
    if text.is_ascii() {
        for byte in text.bytes() {
            words.push_letter(char::from(byte.to_ascii_lowercase()), &mut found);
        }
    } else {
        let lower = text.chars().flat_map(char::to_lowercase);
        for letter in lower.nfd().filter(|letter| !is_combining_mark(*letter)) {
            words.push_letter(letter, &mut found);
        }
    }
    words.end_word(&mut found);
}

/// Collects letters until a word ends.
struct WordSplitter<'table> {
    table: &'table VectorTable,
    word: Vec<u8>,
    /// No letter so far that the table can't know.
    is_ascii: bool,
}

impl WordSplitter<'_> {
    fn push_letter(&mut self, letter: char, found: &mut impl FnMut(usize)) {
        // Chinese is written without blanks, so each of its characters is a word to itself.
        if !letter.is_alphanumeric() || ('\u{4e00}'..='\u{9fff}').contains(&letter) {
            self.end_word(found);
        } else if letter.is_ascii() && self.word.len() < MAX_WORD_BYTES {
            self.word.push(letter as u8);
        } else {
            self.is_ascii = false;
        }
    }

    fn end_word(&mut self, found: &mut impl FnMut(usize)) {
        if self.is_ascii && !self.word.is_empty() {
            split_word(self.table, &self.word, found);
        }
        self.word.clear();
        self.is_ascii = true;
    }
}

fn split_word(table: &VectorTable, word: &[u8], found: &mut impl FnMut(usize)) {
    let mut pieces = [0; MAX_WORD_BYTES];
    let mut count = 0;
    let mut start = 0;
    while start < word.len() {
        let Some((piece, length)) = longest_piece(table, start > 0, &word[start..]) else { return };
        pieces[count] = piece;
        count += 1;
        start += length;
    }
    for piece in &pieces[..count] {
        found(*piece);
    }
}

/// The longest piece that `letters` begin with, and its length.
fn longest_piece(table: &VectorTable, continued: bool, letters: &[u8]) -> Option<(usize, usize)> {
    let mut hash = if continued { PieceHash::CONTINUED } else { PieceHash::START };
    let mut hashes = [hash; MAX_PIECE_BYTES];
    for (at, letter) in hashes.iter_mut().zip(letters) {
        hash = hash.with(*letter);
        *at = hash;
    }
    (1..=letters.len().min(MAX_PIECE_BYTES)).rev().find_map(|length| {
        let piece = table.find_piece(hashes[length - 1], continued, &letters[..length])?;
        Some((piece, length))
    })
}

#[cfg(test)]
mod tests;
