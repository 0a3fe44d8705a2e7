//! BM25 over the postings, word by word.
//!
//! Words are added in the query's order, so equal content gives equal scores to the last bit.

use tantivy::fieldnorm::FieldNormReader;
use tantivy::schema::IndexRecordOption;
use tantivy::{TERMINATED, Term};

use super::LexicalSearcher;
use crate::item_table;

const K1: f32 = 1.2;
const B: f32 = 0.75;

/// A word to search for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct QueryTerm {
    pub(crate) text: String,
    pub(crate) weight: f32,
}

/// The scores of all items by slot; zero for an item without the words.
pub(crate) fn score_items(
    view: &LexicalSearcher,
    words: &[QueryTerm],
    items: usize,
    width: usize,
) -> tantivy::Result<Vec<f32>> {
    let mut scores = vec![0.0; width];
    let saturations = length_norms(view, items);
    let mut found = Vec::new();
    for word in words {
        found.clear();
        for_each_posting(view, &word.text, |slot, norm, count| found.push((slot, norm, count)))?;
        let weight = word.weight * inverse_document_frequency(items, found.len()) * (K1 + 1.0);
        for (slot, norm, count) in &found {
            let count = to_f32(item_table::slot_index(*count));
            if let Some(score) = scores.get_mut(item_table::slot_index(*slot)) {
                *score += weight * count / (count + saturations[usize::from(*norm)]);
            }
        }
    }
    Ok(scores)
}

/// Calls `take` with slot, length and count of each living item that has a word.
pub(super) fn for_each_posting(
    view: &LexicalSearcher,
    word: &str,
    mut take: impl FnMut(u32, u8, u32),
) -> tantivy::Result<()> {
    let term = Term::from_field_text(view.words, word);
    for segment in &view.segments {
        let Some(info) = segment.terms.get_term_info(&term)? else { continue };
        let option = IndexRecordOption::WithFreqs;
        let mut block = segment.terms.read_block_postings_from_terminfo(&info, option)?;
        while block.block_len() > 0 {
            for (doc, count) in block.docs().iter().zip(block.freqs()) {
                if *doc == TERMINATED {
                    break;
                }
                if segment.alive.as_ref().is_none_or(|alive| alive.is_alive(*doc)) {
                    let slot = segment.slots[item_table::slot_index(*doc)];
                    take(slot, segment.norms.fieldnorm_id(*doc), *count);
                }
            }
            block.advance();
        }
    }
    Ok(())
}

/// Does any living item have a word?
pub(super) fn has_postings(view: &LexicalSearcher, word: &str) -> tantivy::Result<bool> {
    let term = Term::from_field_text(view.words, word);
    for segment in &view.segments {
        let Some(info) = segment.terms.get_term_info(&term)? else { continue };
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

/// The weight of a word by its number of items.
fn inverse_document_frequency(items: usize, having: usize) -> f32 {
    let (items, having) = (to_f32(items.max(having)), to_f32(having));
    (1.0 + (items - having + 0.5) / (having + 0.5)).ln()
}

/// Saturation of repeated words, by the code of the item's length.
fn length_norms(view: &LexicalSearcher, items: usize) -> [f32; 256] {
    let total = to_f32(usize::try_from(view.total_terms).unwrap_or(usize::MAX));
    let average = (total / to_f32(items.max(1))).max(1.0);
    let mut saturations = [0.0; 256];
    for (norm, saturation) in (0..=u8::MAX).zip(&mut saturations) {
        let length = to_f32(item_table::slot_index(FieldNormReader::id_to_fieldnorm(norm)));
        *saturation = K1 * (1.0 - B + B * length / average);
    }
    saturations
}

#[expect(clippy::cast_precision_loss, reason = "a score needs no more")]
fn to_f32(number: usize) -> f32 {
    number as f32
}
