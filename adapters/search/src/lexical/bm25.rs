//! BM25 over the postings, term by term, as a share of its upper bound.
//!
//! Terms are added in the query's order, so equal content gives equal scores to the last bit.

use tantivy::fieldnorm::FieldNormReader;
use tantivy::schema::IndexRecordOption;
use tantivy::{TERMINATED, Term};

use super::LexicalSearcher;
use crate::item_table::slot_index;

/// The usual parameters of BM25.
const K1: f32 = 1.2;
const B: f32 = 0.75;

/// The words of a query as terms of the index.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct LexicalQuery {
    /// Terms with postings, in the query's order.
    pub(crate) terms: Vec<QueryTerm>,
    /// Number of words, with repeats, of which no item has the term.
    pub(crate) absent_words: f32,
}

impl LexicalQuery {
    /// Number of words, with repeats.
    pub(crate) fn word_count(&self) -> f32 {
        let exact = self.terms.iter().filter(|term| !term.is_replacement);
        self.absent_words + exact.map(|term| term.weight).sum::<f32>()
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct QueryTerm {
    pub(crate) text: String,
    pub(crate) weight: f32,
    /// True for a term that is similar to an absent word.
    pub(crate) is_replacement: bool,
}

/// The lexical evidence for one item.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct LexicalMatch {
    /// BM25 as a share of its upper bound for the query, below 1; 0 without a term.
    pub(crate) score: f32,
    /// The share of the query's words that the item has, weighted by their rarity.
    pub(crate) coverage: f32,
}

/// Returns the matches of all items by slot.
pub(crate) fn match_items(
    searcher: &LexicalSearcher,
    query: &LexicalQuery,
    item_count: usize,
    slot_count: usize,
) -> tantivy::Result<Vec<LexicalMatch>> {
    let mut matches = vec![LexicalMatch::default(); slot_count];
    let length_norms = length_norms(searcher, item_count);
    // An absent word is as rare as possible, and its weight is what no item can reach.
    let mut total = query.absent_words * inverse_document_frequency(item_count, 0);
    let mut postings = Vec::new();
    for term in &query.terms {
        postings.clear();
        // The weight depends on the number of postings, so they are collected first.
        for_each_posting(searcher, &term.text, |slot, norm, count| {
            postings.push((slot, norm, count));
        })?;
        let rarity = inverse_document_frequency(item_count, postings.len());
        let weight = term.weight * rarity;
        // A replacement ranks lower, but it covers its word as a whole.
        let covered = if term.is_replacement { rarity } else { weight };
        if !term.is_replacement {
            total += weight;
        }
        for (slot, norm, count) in &postings {
            let count = to_f32(slot_index(*count));
            if let Some(matched) = matches.get_mut(slot_index(*slot)) {
                matched.score += weight * count / (count + length_norms[usize::from(*norm)]);
                matched.coverage += covered;
            }
        }
    }
    if total > 0.0 {
        for matched in &mut matches {
            // Several replacements of one word may exceed the word's weight.
            matched.score = (matched.score / total).min(1.0);
            matched.coverage = (matched.coverage / total).min(1.0);
        }
    }
    Ok(matches)
}

/// Calls `take` with the slot, the length code and the term count of each item with the term.
pub(super) fn for_each_posting(
    searcher: &LexicalSearcher,
    text: &str,
    mut take: impl FnMut(u32, u8, u32),
) -> tantivy::Result<()> {
    let term = Term::from_field_text(searcher.words, text);
    for segment in &searcher.segments {
        let Some(info) = segment.terms.get_term_info(&term)? else { continue };
        let option = IndexRecordOption::WithFreqs;
        let mut block = segment.terms.read_block_postings_from_terminfo(&info, option)?;
        while block.block_len() > 0 {
            for (doc, count) in block.docs().iter().zip(block.freqs()) {
                // The last block is padded.
                if *doc == TERMINATED {
                    break;
                }
                if segment.alive.as_ref().is_none_or(|alive| alive.is_alive(*doc)) {
                    let slot = segment.slots[slot_index(*doc)];
                    take(slot, segment.norms.fieldnorm_id(*doc), *count);
                }
            }
            block.advance();
        }
    }
    Ok(())
}

/// True if an item has the term.
pub(super) fn has_postings(searcher: &LexicalSearcher, text: &str) -> tantivy::Result<bool> {
    let term = Term::from_field_text(searcher.words, text);
    for segment in &searcher.segments {
        let Some(info) = segment.terms.get_term_info(&term)? else { continue };
        // Without deletions every posting is an item.
        let Some(alive) = &segment.alive else { return Ok(true) };
        let option = IndexRecordOption::Basic;
        let mut block = segment.terms.read_block_postings_from_terminfo(&info, option)?;
        while block.block_len() > 0 {
            if block.docs().iter().any(|doc| *doc != TERMINATED && alive.is_alive(*doc)) {
                return Ok(true);
            }
            block.advance();
        }
    }
    Ok(false)
}

/// The weight of a term by the number of items with it.
fn inverse_document_frequency(item_count: usize, frequency: usize) -> f32 {
    // Keeps the logarithm positive, also if the index is inconsistent.
    let (items, frequency) = (to_f32(item_count.max(frequency)), to_f32(frequency));
    (1.0 + (items - frequency + 0.5) / (frequency + 0.5)).ln()
}

/// The length normalization of BM25 for each length code of tantivy.
fn length_norms(searcher: &LexicalSearcher, item_count: usize) -> [f32; 256] {
    let total = to_f32(usize::try_from(searcher.total_terms).unwrap_or(usize::MAX));
    let average = (total / to_f32(item_count.max(1))).max(1.0);
    let mut norms = [0.0; 256];
    for (code, norm) in (0..=u8::MAX).zip(&mut norms) {
        let length = to_f32(slot_index(FieldNormReader::id_to_fieldnorm(code)));
        *norm = K1 * (1.0 - B + B * length / average);
    }
    norms
}

#[expect(clippy::cast_precision_loss, reason = "a score needs no more precision")]
pub(super) fn to_f32(number: usize) -> f32 {
    number as f32
}
