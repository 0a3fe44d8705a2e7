//! Rank fusion: orders items by their lexical and semantic evidence, after the pinned references.
//!
//! It knows neither how the lists of items were made nor the other items of an answer, so a score
//! means the same in every answer of one model. Equal scores are ordered by reference. Therefore
//! consecutive pages have no gaps and no repeats.

use std::ops::Range;

use tantivy::DocAddress;

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
/// A text has a small share of the words of a longer query, while its similarity stays as high. So
/// the weight of the similarity falls with the square of the length. Measured by benches/quality.
const FULL_SIMILARITY_WORDS: f32 = 8.0;
/// The minimum evidence without a model: a third of the query's words, weighted by rarity.
const MIN_LEXICAL_EVIDENCE: f32 = 1.0 / 9.0;
/// The minimum lexical score for a long query, and the minimum with this share of the similarity.
/// In benches/context, the best hit of 9 in 10 tasks that touch a requirement has more.
const MIN_LONG_QUERY_SCORE: f32 = 0.068;
const MIN_LONG_QUERY_EVIDENCE: f32 = 0.11;
const LONG_QUERY_SIMILARITY: f32 = 0.1;
/// Uncertain hits complete the last page up to this number of hits. Those of a long query fill
/// the page.
const MAX_HITS_WITH_UNCERTAIN: usize = 10;

/// Returns the keys that order items of equal score: reference, then document.
pub(crate) type RankKeys<'a> = dyn Fn(&[DocAddress]) -> tantivy::Result<Vec<Vec<u8>>> + 'a;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ScoredItem {
    pub(crate) item: DocAddress,
    pub(crate) score: f32,
}

/// The evidence that an item answers the query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) item: DocAddress,
    pub(crate) lexical: LexicalMatch,
    /// From 0 to 1; 0 without a model.
    pub(crate) similarity: f32,
    /// Number of the item's terms.
    pub(crate) length: f32,
    /// True if it is no longer valid, so that it ranks after all that are.
    pub(crate) is_ended: bool,
}

/// Valid and ended items of one evidence.
type ItemGroups = [Vec<ScoredItem>; 2];

/// Turns the evidence for an item into its score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct FusionRule {
    /// The share of a partial lexical match that counts.
    reliability: f32,
    semantic_weight: f32,
    min_evidence: f32,
    is_long_query: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ResultPage {
    /// Each with a flag that is true for an uncertain hit.
    pub(crate) hits: Vec<(ScoredItem, bool)>,
    pub(crate) total: usize,
}

impl FusionRule {
    /// Ranks by words only.
    pub(crate) fn lexical(is_long_query: bool) -> Self {
        let min_evidence = if is_long_query { MIN_LONG_QUERY_SCORE } else { MIN_LEXICAL_EVIDENCE };
        Self { reliability: 1.0, semantic_weight: 0.0, min_evidence, is_long_query }
    }

    /// Ranks with a model. `min_evidence` is that of its profile.
    pub(crate) fn with_model(
        self,
        word_count: f32,
        min_evidence: f32,
        is_cross_script: bool,
    ) -> Self {
        let length_factor = (FULL_SIMILARITY_WORDS / word_count.max(FULL_SIMILARITY_WORDS)).powi(2);
        let semantic_weight =
            if is_cross_script { CROSS_SCRIPT_WEIGHT } else { SEMANTIC_WEIGHT * length_factor };
        let reliability = word_count / (word_count + HALF_RELIABLE_WORDS);
        // No word of the query matches texts in another script.
        let is_long_query = self.is_long_query && !is_cross_script;
        let min_evidence = if is_long_query { MIN_LONG_QUERY_EVIDENCE } else { min_evidence };
        Self { reliability, semantic_weight, min_evidence, is_long_query }
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
        let LexicalMatch { score, coverage } = candidate.lexical;
        let similarity = candidate.similarity;
        let evidence = if self.is_long_query {
            score + LONG_QUERY_SIMILARITY * similarity
        } else {
            coverage * coverage + similarity
        };
        evidence >= self.min_evidence
    }
}

/// Ranks all candidates and returns one page of them; `total` counts the certain ones. `pinned`
/// items come first, in their own order. Uncertain hits are only on the last page.
pub(crate) fn rank_page(
    keys: &RankKeys,
    candidates: &[Candidate],
    rule: &FusionRule,
    pinned: &[DocAddress],
    page: Range<usize>,
) -> tantivy::Result<ResultPage> {
    let (certain, uncertain) = split_by_evidence(candidates, rule, pinned);
    let total = pinned.len() + certain.iter().map(Vec::len).sum::<usize>();
    // Sorted only up to the page, because later hits are not shown.
    let certain = sort_groups(keys, certain, page.end.saturating_sub(pinned.len()))?;
    let mut hits = pinned_hits(pinned);
    hits.extend(certain.into_iter().map(|hit| (hit, false)));
    let range = page.start.min(hits.len())..page.end.min(hits.len());
    let mut hits = hits[range].to_vec();
    if page.end >= total {
        let room = page.len().saturating_sub(hits.len());
        let max_hits = if rule.is_long_query { page.end } else { MAX_HITS_WITH_UNCERTAIN };
        let count = max_hits.saturating_sub(total).min(room);
        let uncertain = sort_groups(keys, uncertain, count)?;
        hits.extend(uncertain.into_iter().map(|hit| (hit, true)));
    }
    Ok(ResultPage { hits, total })
}

/// Ranks the first `window` candidates. The rest keep their order, because later matches are
/// unknown. Pages may contain uncertain hits; within the window, certain hits come first.
pub(crate) fn rank_window(
    keys: &RankKeys,
    candidates: &[Candidate],
    rule: &FusionRule,
    pinned: &[DocAddress],
    window: usize,
) -> tantivy::Result<Vec<(ScoredItem, bool)>> {
    let (window, rest) = candidates.split_at(window.min(candidates.len()));
    let (certain, uncertain) = split_by_evidence(window, rule, pinned);
    let mut hits = pinned_hits(pinned);
    for (groups, is_uncertain) in [(certain, false), (uncertain, true)] {
        let sorted = sort_groups(keys, groups, usize::MAX)?;
        hits.extend(sorted.into_iter().map(|hit| (hit, is_uncertain)));
    }
    for candidate in rest.iter().filter(|candidate| !pinned.contains(&candidate.item)) {
        let hit = ScoredItem { item: candidate.item, score: rule.score(candidate) };
        hits.push((hit, !rule.is_certain(candidate)));
    }
    Ok(hits)
}

fn pinned_hits(pinned: &[DocAddress]) -> Vec<(ScoredItem, bool)> {
    pinned.iter().map(|item| (ScoredItem { item: *item, score: 1.0 }, false)).collect()
}

/// Returns the certain and the uncertain candidates that are not pinned.
fn split_by_evidence(
    candidates: &[Candidate],
    rule: &FusionRule,
    pinned: &[DocAddress],
) -> (ItemGroups, ItemGroups) {
    let (mut certain, mut uncertain) = (ItemGroups::default(), ItemGroups::default());
    for candidate in candidates {
        // A pinned item must not appear twice.
        if pinned.contains(&candidate.item) {
            continue;
        }
        let hit = ScoredItem { item: candidate.item, score: rule.score(candidate) };
        let groups = if rule.is_certain(candidate) { &mut certain } else { &mut uncertain };
        groups[usize::from(candidate.is_ended)].push(hit);
    }
    (certain, uncertain)
}

/// The best `count` valid items, then ended ones up to this number.
fn sort_groups(
    keys: &RankKeys,
    [mut sorted, mut ended]: ItemGroups,
    count: usize,
) -> tantivy::Result<Vec<ScoredItem>> {
    sort_best(keys, &mut sorted, count)?;
    sort_best(keys, &mut ended, count - sorted.len())?;
    sorted.extend(ended);
    Ok(sorted)
}

/// Keeps the best `count` results, best first, and orders equal scores by their keys.
pub(crate) fn sort_best(
    keys: &RankKeys,
    results: &mut Vec<ScoredItem>,
    count: usize,
) -> tantivy::Result<()> {
    keep_best(results, count);
    // A total order, because `sort_unstable_by` may panic for any other. Addresses differ between
    // processes, so equal scores are sorted again below.
    results.sort_unstable_by(|a, b| b.score.total_cmp(&a.score).then(a.item.cmp(&b.item)));
    let mut sorted = Vec::with_capacity(results.len());
    for equal in results.chunk_by(|a, b| a.score.total_cmp(&b.score).is_eq()) {
        if equal.len() == 1 {
            sorted.extend_from_slice(equal);
            continue;
        }
        // Read for ties only, because they are on the disk.
        let items: Vec<DocAddress> = equal.iter().map(|hit| hit.item).collect();
        let mut keyed: Vec<_> = keys(&items)?.into_iter().zip(equal).collect();
        keyed.sort_by(|(a, _), (b, _)| a.cmp(b));
        sorted.extend(keyed.into_iter().map(|(_, hit)| *hit));
    }
    sorted.truncate(count);
    *results = sorted;
    Ok(())
}

/// Keeps the best `count` results, and all that equal the last of them. The order may change.
fn keep_best(results: &mut Vec<ScoredItem>, count: usize) {
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
    use super::*;

    fn address(number: u32) -> DocAddress {
        DocAddress::new(0, number)
    }

    /// The items in descending order.
    #[expect(clippy::unnecessary_wraps, reason = "keys are read from files")]
    fn keys(items: &[DocAddress]) -> tantivy::Result<Vec<Vec<u8>>> {
        Ok(items.iter().map(|item| (u32::MAX - item.doc_id).to_be_bytes().to_vec()).collect())
    }

    /// Item, lexical score, coverage, similarity.
    fn candidates(list: &[(u32, f32, f32, f32)]) -> Vec<Candidate> {
        let mut candidates = Vec::new();
        for (item, score, coverage, similarity) in list {
            let lexical = LexicalMatch { score: *score, coverage: *coverage };
            let (item, similarity) = (address(*item), *similarity);
            candidates.push(Candidate { item, lexical, similarity, length: 15.0, is_ended: false });
        }
        candidates
    }

    fn items(page: &ResultPage) -> Vec<u32> {
        page.hits.iter().map(|(hit, _)| hit.item.doc_id).collect()
    }

    fn certain_count(page: &ResultPage) -> usize {
        page.hits.iter().filter(|(_, is_uncertain)| !is_uncertain).count()
    }

    #[test]
    fn ended_items_rank_after_valid_ones_on_all_pages() {
        let mut list = candidates(&[
            (0, 0.9, 1.0, 0.0),
            (1, 0.5, 1.0, 0.0),
            (2, 0.6, 1.0, 0.0),
            (3, 0.1, 0.2, 0.0),
        ]);
        list[0].is_ended = true;
        let page =
            |range| rank_page(&keys, &list, &FusionRule::lexical(false), &[], range).unwrap();
        assert_eq!((items(&page(0..9)), page(0..9).total), (vec![2, 1, 0, 3], 3));
        assert_eq!(
            (items(&page(0..1)), items(&page(1..2)), items(&page(2..3))),
            (vec![2], vec![1], vec![0])
        );
        let pinned =
            rank_page(&keys, &list, &FusionRule::lexical(false), &[address(0)], 0..9).unwrap();
        assert_eq!(items(&pinned), [0, 2, 1, 3]);
        let window = rank_window(&keys, &list, &FusionRule::lexical(false), &[], 9).unwrap();
        let window: Vec<u32> = window.iter().map(|(hit, _)| hit.item.doc_id).collect();
        assert_eq!(window, [2, 1, 0, 3]);
    }

    #[test]
    fn equal_scores_are_ordered_by_reference() {
        let list = candidates(&[(0, 0.3, 1.0, 0.0), (1, 0.6, 1.0, 0.0), (3, 0.3, 1.0, 0.0)]);
        let page = rank_page(&keys, &list, &FusionRule::lexical(false), &[], 0..9).unwrap();
        assert_eq!((items(&page), page.total), (vec![1, 3, 0], 3));
    }

    #[test]
    fn score_does_not_depend_on_other_items() {
        let rule = FusionRule::lexical(false).with_model(6.0, 0.3, false);
        let one = candidates(&[(0, 0.4, 0.5, 0.2)]);
        let two = candidates(&[(0, 0.4, 0.5, 0.2), (1, 0.9, 1.0, 0.9)]);
        let alone = rank_page(&keys, &one, &rule, &[], 0..9).unwrap();
        let with_other = rank_page(&keys, &two, &rule, &[], 0..9).unwrap();
        assert_eq!(alone.hits[0], with_other.hits[1]);
        // Five sixths of the lexical score, and three quarters of the similarity.
        let expected = (0.4 * (0.5 + 0.5 * 2.0 / 3.0) + 0.825 * 0.75 * 0.2) / 1.825;
        assert!((alone.hits[0].0.score - expected).abs() < 1e-6);
    }

    #[test]
    fn words_outweigh_similarity_in_a_long_question() {
        let list = candidates(&[(0, 0.1, 0.1, 0.5), (1, 0.2, 0.2, 0.3)]);
        for (word_count, expected) in [(8.0, [0, 1]), (32.0, [1, 0])] {
            let rule = FusionRule::lexical(false).with_model(word_count, 0.0, false);
            assert_eq!(items(&rank_page(&keys, &list, &rule, &[], 0..9).unwrap()), expected);
        }
    }

    #[test]
    fn longer_text_ranks_before_an_equally_similar_short_one() {
        let rule = FusionRule::lexical(false).with_model(6.0, 0.3, false);
        let mut list = candidates(&[(0, 0.0, 0.0, 0.5), (1, 0.0, 0.0, 0.45)]);
        list[0].length = 7.0;
        list[1].length = 40.0;
        assert_eq!(items(&rank_page(&keys, &list, &rule, &[], 0..9).unwrap()), [1, 0]);
    }

    #[test]
    fn weak_evidence_is_uncertain_and_ends_the_last_page() {
        let rule = FusionRule::lexical(false).with_model(6.0, 0.3, false);
        let list = candidates(&[
            (0, 0.0, 0.0, 0.29),
            (1, 0.2, 0.4, 0.1),
            (2, 0.0, 0.0, 0.31),
            (3, 0.5, 1.0, 0.0),
            (4, 0.2, 0.5, 0.1),
        ]);
        let page = |range| rank_page(&keys, &list, &rule, &[], range).unwrap();
        let all = page(0..10);
        assert_eq!((items(&all), certain_count(&all), all.total), (vec![3, 4, 2, 1, 0], 3, 3));
        assert_eq!(items(&page(0..2)), [3, 4]);
        assert_eq!(items(&page(2..4)), [2, 1]);
        let three = page(0..3);
        assert_eq!((items(&three), three.total), (vec![3, 4, 2], 3));
        let list = candidates(&[(1, 0.2, 0.3, 0.0), (3, 0.5, 1.0, 0.0), (4, 0.1, 0.4, 0.0)]);
        let words = rank_page(&keys, &list, &FusionRule::lexical(false), &[], 0..10).unwrap();
        assert_eq!((items(&words), words.total), (vec![3, 4, 1], 2));
    }

    #[test]
    fn uncertain_hits_complete_ten_hits_at_most() {
        let mut list = Vec::new();
        for slot in 0..50 {
            list.push((slot, 0.5, if slot < 4 { 1.0 } else { 0.1 }, 0.0));
        }
        let page =
            rank_page(&keys, &candidates(&list), &FusionRule::lexical(false), &[], 0..50).unwrap();
        assert_eq!((page.hits.len(), certain_count(&page), page.total), (10, 4, 4));
    }

    #[test]
    fn pages_of_fused_results_have_no_gaps_or_repeats() {
        let mut list = Vec::new();
        for slot in 0..900_u16 {
            let score = f32::from(slot % 97) / 97.0;
            list.push((u32::from(slot), score, score, 0.001 * f32::from(slot % 400)));
        }
        let list = candidates(&list);
        let rule = FusionRule::lexical(false).with_model(5.0, 0.3, false);
        let pinned = [899, 2, 3].map(address);
        let whole = rank_page(&keys, &list, &rule, &pinned, 0..usize::MAX).unwrap();
        assert_eq!((whole.hits.len(), certain_count(&whole)), (whole.total, whole.total));
        assert!(whole.total > 400 && whole.total < 800, "{}", whole.total);
        let mut unique: Vec<u32> = items(&whole);
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), whole.total);
        for size in [1, 7, 190, 210, 500] {
            let mut pages = Vec::new();
            for start in (0..whole.total).step_by(size) {
                let part = rank_page(&keys, &list, &rule, &pinned, start..start + size).unwrap();
                assert_eq!(part.total, whole.total);
                pages.extend(part.hits);
            }
            assert_eq!(pages, whole.hits, "{size}");
        }
    }
}
