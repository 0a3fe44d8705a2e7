//! Rank fusion: merges lexical and semantic scores, after the pinned exact references.
//!
//! The order never depends on the page, and equal scores are ordered by reference. Therefore
//! consecutive pages have no gaps and no repeats.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::ops::Range;

use foldhash::fast::RandomState;

use crate::item_table::{ItemTable, slot_index};

/// Number of the best lexical and of the best semantic results that are fused.
pub(crate) const MAX_FUSED: usize = 200;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ScoredSlot {
    pub(crate) slot: u32,
    pub(crate) score: f32,
}

#[derive(Debug, Clone)]
pub(crate) struct SemanticRanking {
    /// At most [`MAX_FUSED`], best first.
    pub(crate) best: Vec<ScoredSlot>,
    /// The weight of semantic scores; that of lexical scores is 1.
    pub(crate) weight: f32,
    /// The minimum similarity of a result that contains no term of the query.
    pub(crate) cutoff: f32,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ResultPage {
    pub(crate) hits: Vec<ScoredSlot>,
    /// Number of results on all pages.
    pub(crate) total: usize,
}

/// Ranks all results and returns one page of them. `lexical_scores` are by slot. `pinned` slots
/// come first, in their own order.
pub(crate) fn rank_page(
    table: &ItemTable,
    lexical_scores: &[f32],
    semantic: Option<&SemanticRanking>,
    pinned: &[u32],
    page: Range<usize>,
) -> ResultPage {
    let semantic = semantic.filter(|semantic| !semantic.best.is_empty());
    let mut lexical = Vec::new();
    for (slot, score) in (0..).zip(lexical_scores) {
        if *score > 0.0 {
            lexical.push(ScoredSlot { slot, score: *score });
        }
    }
    let mut total = lexical.len();
    // Fusion and pins may remove results from the lexical order, so more are needed.
    let needed = page.end.saturating_add(pinned.len());
    let kept_count = match semantic {
        Some(_) if needed <= MAX_FUSED => MAX_FUSED,
        Some(_) => needed.saturating_add(2 * MAX_FUSED),
        None => needed,
    };
    keep_best(&mut lexical, kept_count);
    lexical.sort_unstable_by(|a, b| compare_ranks(table, *a, *b));

    let mut ranked = match semantic {
        Some(semantic) => {
            for hit in &semantic.best {
                if hit.score >= semantic.cutoff && !has_term(lexical_scores, hit.slot) {
                    total += 1;
                }
            }
            fuse_scores(table, lexical_scores, &lexical, semantic)
        }
        None => normalize_lexical(&lexical),
    };
    let mut ordered = Vec::with_capacity(pinned.len() + ranked.len());
    for slot in pinned {
        // Not counted so far: a reference need not contain a term of the query.
        if !has_term(lexical_scores, *slot) && !is_semantic_hit(semantic, *slot) {
            total += 1;
        }
        ordered.push(ScoredSlot { slot: *slot, score: 1.0 });
    }
    ranked.retain(|hit| !pinned.contains(&hit.slot));
    ordered.append(&mut ranked);
    let range = page.start.min(ordered.len())..page.end.min(ordered.len());
    ResultPage { hits: ordered[range].to_vec(), total }
}

/// True if the item contains a term of the query.
fn has_term(lexical_scores: &[f32], slot: u32) -> bool {
    match lexical_scores.get(slot_index(slot)) {
        Some(score) => *score > 0.0,
        None => false,
    }
}

fn is_semantic_hit(semantic: Option<&SemanticRanking>, slot: u32) -> bool {
    let Some(semantic) = semantic else { return false };
    semantic.best.iter().any(|hit| hit.slot == slot && hit.score >= semantic.cutoff)
}

/// Orders the best score first, and equal scores by reference, then by document.
pub(crate) fn compare_ranks(table: &ItemTable, a: ScoredSlot, b: ScoredSlot) -> Ordering {
    let by_score = b.score.total_cmp(&a.score);
    if by_score != Ordering::Equal {
        return by_score;
    }
    let (first, second) = (table.item(a.slot), table.item(b.slot));
    let first_name = first.map(|item| (&item.reference, &item.document));
    let second_name = second.map(|item| (&item.reference, &item.document));
    first_name.cmp(&second_name).then(a.slot.cmp(&b.slot))
}

/// Keeps the best `count` results, and all that equal the last of them. The order may change.
pub(crate) fn keep_best(results: &mut Vec<ScoredSlot>, count: usize) {
    if results.len() <= count {
        return;
    }
    if count == 0 {
        return results.clear();
    }
    let mut scores: Vec<f32> = results.iter().map(|result| result.score).collect();
    // Linear in the number of results, unlike a sort of all of them.
    let (_, worst, _) = scores.select_nth_unstable_by(count - 1, |a, b| b.total_cmp(a));
    let worst = *worst;
    results.retain(|result| result.score >= worst);
}

/// Scores as shares of the best score, for a ranking without semantic results.
fn normalize_lexical(lexical: &[ScoredSlot]) -> Vec<ScoredSlot> {
    let Some(best) = lexical.first() else { return Vec::new() };
    let mut normalized = Vec::with_capacity(lexical.len());
    for hit in lexical {
        normalized.push(ScoredSlot { slot: hit.slot, score: hit.score / best.score });
    }
    normalized
}

/// Ranks by the weighted sum of both scores, each scaled over the best [`MAX_FUSED`] of its list.
/// The remaining lexical results follow in their order, with score 0.
fn fuse_scores(
    table: &ItemTable,
    lexical_scores: &[f32],
    lexical: &[ScoredSlot],
    semantic: &SemanticRanking,
) -> Vec<ScoredSlot> {
    let (head, tail) = lexical.split_at(lexical.len().min(MAX_FUSED));
    let weight_sum = 1.0 + semantic.weight;
    let mut sums: HashMap<u32, f32, RandomState> = HashMap::default();
    for (hit, scaled) in head.iter().zip(min_max_scaled(head)) {
        sums.insert(hit.slot, scaled / weight_sum);
    }
    for (hit, scaled) in semantic.best.iter().zip(min_max_scaled(&semantic.best)) {
        if hit.score >= semantic.cutoff || has_term(lexical_scores, hit.slot) {
            *sums.entry(hit.slot).or_default() += scaled * semantic.weight / weight_sum;
        }
    }
    let mut ranked = Vec::with_capacity(sums.len() + tail.len());
    for (slot, score) in &sums {
        ranked.push(ScoredSlot { slot: *slot, score: score.clamp(0.0, 1.0) });
    }
    ranked.sort_unstable_by(|a, b| compare_ranks(table, *a, *b));
    for hit in tail {
        if !sums.contains_key(&hit.slot) {
            ranked.push(ScoredSlot { slot: hit.slot, score: 0.0 });
        }
    }
    ranked
}

/// Min-max scaling: the best score becomes 1, the worst 0. Equal scores all become 1.
fn min_max_scaled(hits: &[ScoredSlot]) -> impl Iterator<Item = f32> {
    let best = hits.first().map_or(0.0, |hit| hit.score);
    let worst = hits.last().map_or(0.0, |hit| hit.score);
    let width = best - worst;
    hits.iter().map(move |hit| if width > 0.0 { (hit.score - worst) / width } else { 1.0 })
}

#[cfg(test)]
mod tests {
    use reqlore_domain::document::{DocumentId, Version};

    use super::*;
    use crate::item_table::IndexedItem;
    use crate::script::Script;

    fn table(items: u32) -> ItemTable {
        let mut table = ItemTable::default();
        for number in 0..items {
            let document = DocumentId::entity(format!("{number:04}"));
            let document = table.add_document(document, Version::of_bytes(b""));
            let reference = format!("{:04}", items - number).into();
            let (kind, title, chunks) = ("".into(), "".into(), [].into());
            let script = Script::None;
            let facets = [].into();
            let item = IndexedItem { document, reference, kind, title, chunks, facets, script };
            table.add_item(item);
        }
        table
    }

    fn ranking(list: &[(u32, f32)], weight: f32) -> SemanticRanking {
        let list = list.iter().map(|(slot, score)| ScoredSlot { slot: *slot, score: *score });
        SemanticRanking { best: list.collect(), weight, cutoff: 0.5 }
    }

    fn slots(page: &ResultPage) -> Vec<u32> {
        page.hits.iter().map(|hit| hit.slot).collect()
    }

    #[test]
    fn equal_scores_are_ordered_by_reference() {
        let page = rank_page(&table(4), &[1.0, 2.0, 0.0, 1.0], None, &[], 0..9);
        assert_eq!((slots(&page), page.total), (vec![1, 3, 0], 3));
    }

    #[test]
    fn fusion_scales_and_weighs_both_lists() {
        let words = [9.0, 5.0, 1.0, 0.0, 0.0];
        let semantic = ranking(&[(3, 0.9), (1, 0.7), (4, 0.4), (2, 0.1)], 1.0);
        let page = rank_page(&table(5), &words, Some(&semantic), &[], 0..9);
        // 0: 1 and none; 1: .5 and .75; 2: 0 and 0; 3: none and 1; 4 is below the cutoff.
        assert_eq!((slots(&page), page.total), (vec![1, 3, 0, 2], 4));
        assert!((page.hits[0].score - 0.625).abs() < 1e-6);
    }

    #[test]
    fn pages_of_fused_results_have_no_gaps_or_repeats() {
        let table = table(900);
        let words: Vec<f32> =
            (0..900_u16).map(|slot| f32::from(slot % 97) * f32::from(slot % 2)).collect();
        let list: Vec<_> =
            (0..200_u8).map(|i| (u32::from(i) * 4 + 3, 0.9 - 0.001 * f32::from(i))).collect();
        let semantic = ranking(&list, 0.5);
        let pinned = [899, 2, 3];
        let whole = rank_page(&table, &words, Some(&semantic), &pinned, 0..usize::MAX);
        assert_eq!(whole.hits.len(), whole.total);
        let mut unique: Vec<u32> = slots(&whole);
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), whole.total);
        for size in [1, 7, 190, 210, 500] {
            let mut pages = Vec::new();
            for start in (0..whole.total).step_by(size) {
                let part = rank_page(&table, &words, Some(&semantic), &pinned, start..start + size);
                assert_eq!(part.total, whole.total);
                pages.extend(part.hits);
            }
            assert_eq!(pages, whole.hits, "{size}");
        }
    }
}
