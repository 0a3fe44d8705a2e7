//! Rank fusion: orders items by their lexical and semantic evidence, after the pinned references.
//!
//! It knows neither how the lists of items were made nor the other items of an answer, so a score
//! means the same in every answer of one model. Equal scores are ordered by reference. Therefore
//! consecutive pages have no gaps and no repeats.

use std::cmp::Ordering;
use std::ops::Range;

use crate::item_table::ItemTable;
use crate::lexical::bm25::LexicalMatch;

/// The weight of the similarity of a long text; that of the lexical score is 1.
const SEMANTIC_WEIGHT: f32 = 0.825;
/// In a text of this number of terms, the similarity counts by half. A rule of five words is close
/// to every question about its subject, and rarely the answer.
const HALF_SIMILAR_TERMS: f32 = 5.0;
/// The same if query and texts differ in script, so that no words match.
const CROSS_SCRIPT_WEIGHT: f32 = 3.0 * SEMANTIC_WEIGHT;
/// Of this number of words in a question, a partial match counts by half. One common word of a
/// short question is often an accident.
const HALF_RELIABLE_WORDS: f32 = 3.0;
/// The minimum evidence without a model: a third of the query's words, weighted by rarity.
const MIN_LEXICAL_EVIDENCE: f32 = 1.0 / 9.0;
/// Uncertain hits complete the last page up to this number of hits.
const MAX_HITS_WITH_UNCERTAIN: usize = 10;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ScoredSlot {
    pub(crate) slot: u32,
    pub(crate) score: f32,
}

/// The evidence that an item answers the query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) slot: u32,
    pub(crate) lexical: LexicalMatch,
    /// From 0 to 1; 0 without a model.
    pub(crate) similarity: f32,
    /// Number of the item's terms.
    pub(crate) length: f32,
}

/// Turns the evidence for an item into its score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct FusionRule {
    /// The share of a partial lexical match that counts.
    reliability: f32,
    semantic_weight: f32,
    min_evidence: f32,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ResultPage {
    /// Certain hits, then uncertain ones.
    pub(crate) hits: Vec<ScoredSlot>,
    /// Number of certain hits on this page.
    pub(crate) certain_count: usize,
    /// Number of certain hits on all pages.
    pub(crate) total: usize,
}

impl FusionRule {
    /// Ranks by words only.
    pub(crate) const LEXICAL: Self =
        Self { reliability: 1.0, semantic_weight: 0.0, min_evidence: MIN_LEXICAL_EVIDENCE };

    /// Ranks with a model. `min_evidence` is that of its profile.
    pub(crate) fn with_model(word_count: f32, min_evidence: f32, is_cross_script: bool) -> Self {
        let semantic_weight = if is_cross_script { CROSS_SCRIPT_WEIGHT } else { SEMANTIC_WEIGHT };
        let reliability = word_count / (word_count + HALF_RELIABLE_WORDS);
        Self { reliability, semantic_weight, min_evidence }
    }

    /// Returns the score, from 0 to 1.
    fn score(&self, candidate: &Candidate) -> f32 {
        let LexicalMatch { score, coverage } = candidate.lexical;
        let lexical = score * (coverage + (1.0 - coverage) * self.reliability);
        let length_factor = candidate.length / (candidate.length + HALF_SIMILAR_TERMS);
        let sum = lexical + self.semantic_weight * length_factor * candidate.similarity;
        (sum / (1.0 + self.semantic_weight)).clamp(0.0, 1.0)
    }

    /// True if the item is expected to answer the query. All words of a query are enough.
    fn is_certain(&self, candidate: &Candidate) -> bool {
        let coverage = candidate.lexical.coverage;
        coverage * coverage + candidate.similarity >= self.min_evidence
    }
}

/// Ranks the candidates and returns one page of them. `pinned` slots come first, in their own
/// order. Uncertain hits are only on the last page.
pub(crate) fn rank_page(
    table: &ItemTable,
    candidates: &[Candidate],
    rule: &FusionRule,
    pinned: &[u32],
    page: Range<usize>,
) -> ResultPage {
    let (mut certain, mut uncertain) = (Vec::new(), Vec::new());
    for candidate in candidates {
        // A pinned item must not appear twice.
        if pinned.contains(&candidate.slot) {
            continue;
        }
        let hit = ScoredSlot { slot: candidate.slot, score: rule.score(candidate) };
        if rule.is_certain(candidate) {
            certain.push(hit);
        } else {
            uncertain.push(hit);
        }
    }
    let total = pinned.len() + certain.len();
    // Sorted only up to the page, because later hits are not shown.
    sort_best(table, &mut certain, page.end.saturating_sub(pinned.len()));
    let mut hits: Vec<_> =
        pinned.iter().map(|slot| ScoredSlot { slot: *slot, score: 1.0 }).collect();
    hits.append(&mut certain);
    let range = page.start.min(hits.len())..page.end.min(hits.len());
    let mut hits = hits[range].to_vec();
    let certain_count = hits.len();
    if page.end >= total {
        let room = page.len().saturating_sub(certain_count);
        let count = MAX_HITS_WITH_UNCERTAIN.saturating_sub(total).min(room);
        sort_best(table, &mut uncertain, count);
        hits.append(&mut uncertain);
    }
    ResultPage { hits, certain_count, total }
}

/// Keeps the best `count` results, best first.
fn sort_best(table: &ItemTable, results: &mut Vec<ScoredSlot>, count: usize) {
    keep_best(results, count);
    results.sort_unstable_by(|a, b| compare_ranks(table, *a, *b));
    results.truncate(count);
}

/// Orders the best score first, and equal scores by reference, then by document.
pub(crate) fn compare_ranks(table: &ItemTable, a: ScoredSlot, b: ScoredSlot) -> Ordering {
    // A total order, because `sort_unstable_by` may panic for any other.
    let by_score = b.score.total_cmp(&a.score);
    if by_score != Ordering::Equal {
        return by_score;
    }
    let (first, second) = (table.item(a.slot), table.item(b.slot));
    let first_name = first.map(|item| (&item.reference, &item.document));
    let second_name = second.map(|item| (&item.reference, &item.document));
    // References first: slots differ between processes.
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

    /// Slot, lexical score, coverage, similarity.
    fn candidates(list: &[(u32, f32, f32, f32)]) -> Vec<Candidate> {
        let mut candidates = Vec::new();
        for (slot, score, coverage, similarity) in list {
            let lexical = LexicalMatch { score: *score, coverage: *coverage };
            let (slot, similarity) = (*slot, *similarity);
            candidates.push(Candidate { slot, lexical, similarity, length: 15.0 });
        }
        candidates
    }

    fn slots(page: &ResultPage) -> Vec<u32> {
        page.hits.iter().map(|hit| hit.slot).collect()
    }

    #[test]
    fn equal_scores_are_ordered_by_reference() {
        let list = candidates(&[(0, 0.3, 1.0, 0.0), (1, 0.6, 1.0, 0.0), (3, 0.3, 1.0, 0.0)]);
        let page = rank_page(&table(4), &list, &FusionRule::LEXICAL, &[], 0..9);
        assert_eq!((slots(&page), page.total), (vec![1, 3, 0], 3));
    }

    #[test]
    fn score_does_not_depend_on_other_items() {
        let rule = FusionRule::with_model(6.0, 0.3, false);
        let one = candidates(&[(0, 0.4, 0.5, 0.2)]);
        let two = candidates(&[(0, 0.4, 0.5, 0.2), (1, 0.9, 1.0, 0.9)]);
        let alone = rank_page(&table(2), &one, &rule, &[], 0..9);
        let with_other = rank_page(&table(2), &two, &rule, &[], 0..9);
        assert_eq!(alone.hits[0], with_other.hits[1]);
        // Five sixths of the lexical score, and three quarters of the similarity.
        let expected = (0.4 * (0.5 + 0.5 * 2.0 / 3.0) + 0.825 * 0.75 * 0.2) / 1.825;
        assert!((alone.hits[0].score - expected).abs() < 1e-6);
    }

    #[test]
    fn longer_text_ranks_before_an_equally_similar_short_one() {
        let rule = FusionRule::with_model(6.0, 0.3, false);
        let mut list = candidates(&[(0, 0.0, 0.0, 0.5), (1, 0.0, 0.0, 0.45)]);
        list[0].length = 7.0;
        list[1].length = 40.0;
        assert_eq!(slots(&rank_page(&table(2), &list, &rule, &[], 0..9)), [1, 0]);
    }

    #[test]
    fn weak_evidence_is_uncertain_and_ends_the_last_page() {
        let rule = FusionRule::with_model(6.0, 0.3, false);
        let list = candidates(&[
            (0, 0.0, 0.0, 0.29),
            (1, 0.2, 0.4, 0.1),
            (2, 0.0, 0.0, 0.31),
            (3, 0.5, 1.0, 0.0),
            (4, 0.2, 0.5, 0.1),
        ]);
        let page = |range| rank_page(&table(5), &list, &rule, &[], range);
        let all = page(0..10);
        assert_eq!((slots(&all), all.certain_count, all.total), (vec![3, 4, 2, 1, 0], 3, 3));
        assert_eq!(slots(&page(0..2)), [3, 4]);
        assert_eq!(slots(&page(2..4)), [2, 1]);
        let three = page(0..3);
        assert_eq!((slots(&three), three.total), (vec![3, 4, 2], 3));
        let list = candidates(&[(1, 0.2, 0.3, 0.0), (3, 0.5, 1.0, 0.0), (4, 0.1, 0.4, 0.0)]);
        let words = rank_page(&table(5), &list, &FusionRule::LEXICAL, &[], 0..10);
        assert_eq!((slots(&words), words.total), (vec![3, 4, 1], 2));
    }

    #[test]
    fn uncertain_hits_complete_ten_hits_at_most() {
        let mut list = Vec::new();
        for slot in 0..50 {
            list.push((slot, 0.5, if slot < 4 { 1.0 } else { 0.1 }, 0.0));
        }
        let page = rank_page(&table(50), &candidates(&list), &FusionRule::LEXICAL, &[], 0..50);
        assert_eq!((page.hits.len(), page.certain_count, page.total), (10, 4, 4));
    }

    #[test]
    fn pages_of_fused_results_have_no_gaps_or_repeats() {
        let table = table(900);
        let mut list = Vec::new();
        for slot in 0..900_u16 {
            let score = f32::from(slot % 97) / 97.0;
            list.push((u32::from(slot), score, score, 0.001 * f32::from(slot % 400)));
        }
        let list = candidates(&list);
        let rule = FusionRule::with_model(5.0, 0.3, false);
        let pinned = [899, 2, 3];
        let whole = rank_page(&table, &list, &rule, &pinned, 0..usize::MAX);
        assert_eq!((whole.hits.len(), whole.certain_count), (whole.total, whole.total));
        assert!(whole.total > 400 && whole.total < 800, "{}", whole.total);
        let mut unique: Vec<u32> = slots(&whole);
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), whole.total);
        for size in [1, 7, 190, 210, 500] {
            let mut pages = Vec::new();
            for start in (0..whole.total).step_by(size) {
                let part = rank_page(&table, &list, &rule, &pinned, start..start + size);
                assert_eq!(part.total, whole.total);
                pages.extend(part.hits);
            }
            assert_eq!(pages, whole.hits, "{size}");
        }
    }
}
