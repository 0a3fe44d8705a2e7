//! BM25 over the postings, term by term.
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

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct QueryTerm {
    pub(crate) text: String,
    pub(crate) weight: f32,
}

/// Returns the scores of all items by slot; zero for an item without the terms.
pub(crate) fn score_items(
    searcher: &LexicalSearcher,
    terms: &[QueryTerm],
    item_count: usize,
    slot_count: usize,
) -> tantivy::Result<Vec<f32>> {
    let mut scores = vec![0.0; slot_count];
    let length_norms = length_norms(searcher, item_count);
    let mut postings = Vec::new();
    for term in terms {
        postings.clear();
        // The weight depends on the number of postings, so they are collected first.
        for_each_posting(searcher, &term.text, |slot, norm, count| {
            postings.push((slot, norm, count));
        })?;
        let weight =
            term.weight * inverse_document_frequency(item_count, postings.len()) * (K1 + 1.0);
        for (slot, norm, count) in &postings {
            let count = to_f32(slot_index(*count));
            if let Some(score) = scores.get_mut(slot_index(*slot)) {
                *score += weight * count / (count + length_norms[usize::from(*norm)]);
            }
        }
    }
    Ok(scores)
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
fn to_f32(number: usize) -> f32 {
    number as f32
}
