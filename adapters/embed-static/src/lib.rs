//! The built-in embedder: the vector of a text is the mean of its word pieces' vectors in a table.
//!
//! It ignores word order and context, so it only complements lexical search with synonyms.
//! `distil.py` generates the table from the sources in `NOTICE`. A new table needs a new [`ID`], or
//! its vectors would be compared with cached vectors of the old one.

mod vector_table;

use std::fmt;

use reqlore_domain::error::Result;
use reqlore_domain::function_words;
use reqlore_domain::ports::embedder::{
    Embedder, ModelLanguages, ModelProfile, ModelSpeed, TextRole,
};

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use crate::vector_table::{DIMENSION, MAX_PIECE_BYTES, PieceHash, VectorTable};

/// The name and version of the table.
pub const ID: &str = "static-1";

/// See docs/decisions/0049-rank-by-absolute-evidence.md.
const MIN_EVIDENCE: f32 = 0.4;

/// Longer words are ignored: they are keys, hashes or encoded data.
const MAX_WORD_BYTES: usize = 100;

static TABLE: VectorTable = VectorTable::from_bytes(include_bytes!("../data/table.bin"));

/// Embeds with the table that is part of the executable. Creating one is cheap.
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
                unrelated_cosine: 0.0,
                min_evidence: MIN_EVIDENCE,
                languages: ModelLanguages::English,
                speed: ModelSpeed::Instant,
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

    /// Embeds whole texts of any length. A query is embedded without its function words, which are
    /// half of a short question.
    fn embed(&self, role: TextRole, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        let embed = match role {
            TextRole::Query => embed_query,
            TextRole::Passage => embed_text,
        };
        Ok(texts.iter().map(|text| embed(text)).collect())
    }
}

fn embed_query(query: &str) -> Vec<f32> {
    let is_letter = |c: char| c.is_alphanumeric();
    let mut content = String::with_capacity(query.len());
    for word in query.split(|c| !is_letter(c)) {
        if !is_function_word(word) {
            content.push_str(word);
            content.push(' ');
        }
    }
    // A query of function words only is all there is.
    embed_text(if content.contains(is_letter) { &content } else { query })
}

fn is_function_word(word: &str) -> bool {
    function_words::ENGLISH.split_ascii_whitespace().any(|known| known.eq_ignore_ascii_case(word))
}

fn embed_text(text: &str) -> Vec<f32> {
    let mut sum = vec![0.0; DIMENSION];
    for_each_piece(&TABLE, text, |piece| TABLE.add_row(piece, &mut sum));
    let length = sum.iter().map(|x| x * x).sum::<f32>().sqrt();
    // The vector of a text without pieces is zero.
    if length > 0.0 {
        for number in &mut sum {
            *number /= length;
        }
    }
    sum
}

/// Calls `take` with the index of each piece of the text, in order.
///
/// Words are runs of letters and digits in lower case without accents. Each is split from its start
/// into the longest pieces of the table. A word that can't be split completely has no pieces. A
/// word with letters outside ASCII has none either, because the table is English.
fn for_each_piece(table: &VectorTable, text: &str, mut take: impl FnMut(usize)) {
    let mut words =
        WordSplitter { table, word: Vec::with_capacity(MAX_WORD_BYTES), is_known: true };
    // The fast path: no tables of Unicode are needed.
    if text.is_ascii() {
        for byte in text.bytes() {
            words.push_letter(char::from(byte.to_ascii_lowercase()), &mut take);
        }
    } else {
        let lower = text.chars().flat_map(char::to_lowercase);
        for letter in lower.nfd().filter(|letter| !is_combining_mark(*letter)) {
            words.push_letter(letter, &mut take);
        }
    }
    words.end_word(&mut take);
}

/// Collects letters until a word ends.
struct WordSplitter<'table> {
    table: &'table VectorTable,
    word: Vec<u8>,
    /// False if the word has a letter outside ASCII or is too long.
    is_known: bool,
}

impl WordSplitter<'_> {
    fn push_letter(&mut self, letter: char, take: &mut impl FnMut(usize)) {
        // Chinese has no spaces. Its characters end the word before them and are skipped, because
        // the table is English.
        if !letter.is_alphanumeric() || ('\u{4e00}'..='\u{9fff}').contains(&letter) {
            self.end_word(take);
        } else if letter.is_ascii() && self.word.len() < MAX_WORD_BYTES {
            self.word.push(letter as u8);
        } else {
            self.is_known = false;
        }
    }

    fn end_word(&mut self, take: &mut impl FnMut(usize)) {
        if self.is_known && !self.word.is_empty() {
            split_word(self.table, &self.word, take);
        }
        self.word.clear();
        self.is_known = true;
    }
}

fn split_word(table: &VectorTable, word: &[u8], take: &mut impl FnMut(usize)) {
    let mut pieces = [0; MAX_WORD_BYTES];
    let mut count = 0;
    let mut start = 0;
    while start < word.len() {
        // A partly known word has no pieces: the known ones would give it a wrong meaning.
        let Some((piece, length)) = longest_piece(table, start > 0, &word[start..]) else { return };
        pieces[count] = piece;
        count += 1;
        start += length;
    }
    for piece in &pieces[..count] {
        take(*piece);
    }
}

/// Returns the longest piece at the start of `letters`, and its length.
fn longest_piece(
    table: &VectorTable,
    is_continuation: bool,
    letters: &[u8],
) -> Option<(usize, usize)> {
    let mut hash = if is_continuation { PieceHash::CONTINUED } else { PieceHash::START };
    let mut hashes = [hash; MAX_PIECE_BYTES];
    for (slot, letter) in hashes.iter_mut().zip(letters) {
        hash = hash.with(*letter);
        *slot = hash;
    }
    // From the longest prefix to the shortest.
    for length in (1..=letters.len().min(MAX_PIECE_BYTES)).rev() {
        let hash = hashes[length - 1];
        if let Some(piece) = table.find_piece(hash, is_continuation, &letters[..length]) {
            return Some((piece, length));
        }
    }
    None
}

#[cfg(test)]
mod tests;
