//! Ranking: fuses lexical and semantic scores, with exact references first.
//!
//! Pages fit together without gaps or repeats: the order never depends on the page, and equal
//! scores are in the order of their references.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::ops::Range;

use foldhash::fast::RandomState;

use crate::item_table::{self, ItemTable};

/// Number of the best lexical and semantic results that are fused.
pub(crate) const MAX_FUSED: usize = 200;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ScoredSlot {
    pub(crate) slot: u32,
    pub(crate) score: f32,
}

/// The semantic results.
#[derive(Debug, Clone)]
pub(crate) struct SemanticRanking {
    /// At most [`FUSED`], best first.
    pub(crate) best: Vec<ScoredSlot>,
    /// The weight of lexical scores is 1.
    pub(crate) weight: f32,
    /// The minimum score of an item without a word of the query.
    pub(crate) cutoff: f32,
}

/// A page of the results, and the number of all results.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ResultPage {
    pub(crate) hits: Vec<ScoredSlot>,
    pub(crate) total: usize,
}

/// `words` are the lexical scores by slot. `pinned` slots come first, in their own order.
pub(crate) fn rank_page(
    table: &ItemTable,
    words: &[f32],
    near: Option<&SemanticRanking>,
    pinned: &[u32],
    page: Range<usize>,
) -> ResultPage {
    let near = near.filter(|near| !near.best.is_empty());
    let scored = (0..).zip(words).filter(|(_, score)| **score > 0.0);
    let mut by_words: Vec<ScoredSlot> =
        scored.map(|(slot, score)| ScoredSlot { slot, score: *score }).collect();
    let has_word =
        |slot: u32| words.get(item_table::slot_index(slot)).is_some_and(|score| *score > 0.0);
    let mut total = by_words.len();
    // Fusion and pins may remove items from the lexical order.
    let needed = page.end.saturating_add(pinned.len());
    let reach = match near {
        Some(_) if needed <= MAX_FUSED => MAX_FUSED,
        Some(_) => needed.saturating_add(2 * MAX_FUSED),
        None => needed,
    };
    keep_best(&mut by_words, reach);
    by_words.sort_unstable_by(|a, b| compare_ranks(table, *a, *b));

    let mut found = match near {
        Some(near) => {
            let near_only = near.best.iter().filter(|near_by| !has_word(near_by.slot));
            total += near_only.filter(|near_by| near_by.score >= near.cutoff).count();
            fuse_scores(table, &by_words, near, has_word)
        }
        None => normalize_lexical(&by_words),
    };
    let listed = |slot: u32| near.is_some_and(|near| is_semantic_hit(near, slot));
    total += pinned.iter().filter(|slot| !has_word(**slot) && !listed(**slot)).count();
    found.retain(|found| !pinned.contains(&found.slot));
    let first = pinned.iter().map(|slot| ScoredSlot { slot: *slot, score: 1.0 });
    found.splice(0..0, first);
    let range = page.start.min(found.len())..page.end.min(found.len());
    ResultPage { hits: found[range].to_vec(), total }
}

/// True for a semantic result.
fn is_semantic_hit(near: &SemanticRanking, slot: u32) -> bool {
    near.best.iter().any(|found| found.slot == slot && found.score >= near.cutoff)
}

/// Best first; of equals the first by reference, then by document.
pub(crate) fn compare_ranks(table: &ItemTable, a: ScoredSlot, b: ScoredSlot) -> Ordering {
    b.score.total_cmp(&a.score).then_with(|| {
        let name = |found: ScoredSlot| {
            table.item(found.slot).map(|entry| (&entry.reference, &entry.document))
        };
        name(a).cmp(&name(b)).then(a.slot.cmp(&b.slot))
    })
}

/// Keeps the best `count`, and all that equal the last of them.
pub(crate) fn keep_best(list: &mut Vec<ScoredSlot>, count: usize) {
    if list.len() <= count {
        return;
    }
    let Some(place) = count.checked_sub(1) else { return list.clear() };
    let mut scores: Vec<f32> = list.iter().map(|found| found.score).collect();
    let (_, worst, _) = scores.select_nth_unstable_by(place, |a, b| b.total_cmp(a));
    let worst = *worst;
    list.retain(|found| found.score >= worst);
}

/// Lexical results only, as shares of the best score.
fn normalize_lexical(words: &[ScoredSlot]) -> Vec<ScoredSlot> {
    let best = words.first().map_or(1.0, |found| found.score);
    words.iter().map(|found| ScoredSlot { slot: found.slot, score: found.score / best }).collect()
}

/// The sum of both scores, each stretched over the best [`FUSED`] of its list, then the remaining
/// lexical results in their order.
fn fuse_scores(
    table: &ItemTable,
    words: &[ScoredSlot],
    near: &SemanticRanking,
    has_word: impl Fn(u32) -> bool,
) -> Vec<ScoredSlot> {
    let (head, tail) = words.split_at(words.len().min(MAX_FUSED));
    let both = 1.0 + near.weight;
    let mut sums: HashMap<u32, f32, RandomState> = HashMap::default();
    for (found, share) in head.iter().zip(min_max_scaled(head)) {
        sums.insert(found.slot, share / both);
    }
    for (found, share) in near.best.iter().zip(min_max_scaled(&near.best)) {
        if found.score >= near.cutoff || has_word(found.slot) {
            *sums.entry(found.slot).or_default() += share * near.weight / both;
        }
    }
    let mut order: Vec<ScoredSlot> = sums
        .iter()
        .map(|(slot, score)| ScoredSlot { slot: *slot, score: score.clamp(0.0, 1.0) })
        .collect();
    order.sort_unstable_by(|a, b| compare_ranks(table, *a, *b));
    let rest = tail.iter().filter(|found| !sums.contains_key(&found.slot));
    order.extend(rest.map(|found| ScoredSlot { slot: found.slot, score: 0.0 }));
    order
}

/// Scores between the worst, 0, and the best, 1.
fn min_max_scaled(list: &[ScoredSlot]) -> impl Iterator<Item = f32> {
    let best = list.first().map_or(0.0, |found| found.score);
    let worst = list.last().map_or(0.0, |found| found.score);
    let width = best - worst;
    list.iter().map(move |found| if width > 0.0 { (found.score - worst) / width } else { 1.0 })
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
            let document = table.add_document(document, Version::of(b""));
            let reference = format!("{:04}", items - number).into();
            let (kind, title, chunks) = ("".into(), "".into(), [].into());
            let script = Script::None;
            let facets = [].into();
            table.add_item(IndexedItem {
                document,
                reference,
                kind,
                title,
                chunks,
                facets,
                script,
            });
        }
        table
    }

    fn near(list: &[(u32, f32)], weight: f32) -> SemanticRanking {
        let list = list.iter().map(|(slot, score)| ScoredSlot { slot: *slot, score: *score });
        SemanticRanking { best: list.collect(), weight, cutoff: 0.5 }
    }

    fn slots(page: &ResultPage) -> Vec<u32> {
        page.hits.iter().map(|found| found.slot).collect()
    }

    #[test]
    fn equals_stand_in_the_order_of_their_references() {
        let found = rank_page(&table(4), &[1.0, 2.0, 0.0, 1.0], None, &[], 0..9);
        assert_eq!((slots(&found), found.total), (vec![1, 3, 0], 3));
    }

    #[test]
    fn both_lists_are_stretched_and_weighed() {
        let words = [9.0, 5.0, 1.0, 0.0, 0.0];
        let near = near(&[(3, 0.9), (1, 0.7), (4, 0.4), (2, 0.1)], 1.0);
        let found = rank_page(&table(5), &words, Some(&near), &[], 0..9);
        // 0: 1 and nothing; 1: .5 and .75; 2: 0 and 0; 3: nothing and 1; 4 is not near enough.
        assert_eq!((slots(&found), found.total), (vec![1, 3, 0, 2], 4));
        assert!((found.hits[0].score - 0.625).abs() < 1e-6);
    }

    #[test]
    fn pages_of_a_fused_answer_fit_together() {
        let table = table(900);
        let words: Vec<f32> =
            (0..900_u16).map(|slot| f32::from(slot % 97) * f32::from(slot % 2)).collect();
        let list: Vec<_> =
            (0..200_u8).map(|i| (u32::from(i) * 4 + 3, 0.9 - 0.001 * f32::from(i))).collect();
        let near = near(&list, 0.5);
        let pinned = [899, 2, 3];
        let whole = rank_page(&table, &words, Some(&near), &pinned, 0..usize::MAX);
        assert_eq!(whole.hits.len(), whole.total);
        let mut seen: Vec<u32> = slots(&whole);
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), whole.total);
        for size in [1, 7, 190, 210, 500] {
            let mut pages = Vec::new();
            for start in (0..whole.total).step_by(size) {
                let part = rank_page(&table, &words, Some(&near), &pinned, start..start + size);
                assert_eq!(part.total, whole.total);
                pages.extend(part.hits);
            }
            assert_eq!(pages, whole.hits, "{size}");
        }
    }
}
