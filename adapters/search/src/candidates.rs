//! The items that a query may find, with their evidence.

use std::collections::HashSet;

use reqlore_domain::search::SearchFacet;
use tantivy::DocAddress;
use tantivy::query::Query;

use crate::checksummed_file::first_bytes;
use crate::lexical::bm25::{FilterCursor, LexicalMatch, LexicalScorer};
use crate::lexical::parent_matches::add_parent_matches;
use crate::lexical::schema::facet_value;
use crate::lexical::searcher::LexicalSearcher;
use crate::rank_fusion::{self, Candidate};
use crate::semantic::{self, SemanticHits, SemanticIndex};

/// Returns all items that pass the filter and have a word of the query themselves or in a parent.
pub(crate) fn match_all(
    searcher: &LexicalSearcher,
    scorer: &LexicalScorer,
    filter: Option<&dyn Query>,
) -> tantivy::Result<Vec<(DocAddress, LexicalMatch)>> {
    let mut segments = Vec::new();
    for segment in 0..searcher.segment_readers().len() {
        segments.push(scorer.match_segment(segment)?);
    }
    add_parent_matches(searcher, &mut segments)?;
    let mut matches = Vec::new();
    for ((ordinal, reader), segment) in (0..).zip(searcher.segment_readers()).zip(segments) {
        // The filter is applied after matching, so that it does not change the weights of terms.
        let mut cursor = FilterCursor::new(searcher, filter, reader)?;
        for (doc, lexical) in (0..).zip(segment) {
            if lexical.score > 0.0 && cursor.includes(doc) {
                matches.push((DocAddress::new(ordinal, doc), lexical));
            }
        }
    }
    Ok(matches)
}

/// Returns the best items by words, whose texts are embedded again. Without `is_whole` the matches
/// are sorted.
pub(crate) fn best_by_words(
    searcher: &LexicalSearcher,
    matches: &[(DocAddress, LexicalMatch)],
    is_whole: bool,
) -> tantivy::Result<Vec<DocAddress>> {
    let mut best = Vec::with_capacity(matches.len());
    for (item, lexical) in matches {
        best.push(rank_fusion::ScoredItem { item: *item, score: lexical.score });
    }
    if is_whole {
        let keys = |items: &[DocAddress]| searcher.rank_keys(items);
        rank_fusion::sort_best(&keys, &mut best, semantic::MAX_RESCORED_HITS)?;
    }
    best.truncate(semantic::MAX_RESCORED_HITS);
    Ok(best.into_iter().map(|hit| hit.item).collect())
}

/// Returns the items that have a word of the query or are among the most similar ones.
pub(crate) fn candidates(
    searcher: &LexicalSearcher,
    matches: &[(DocAddress, LexicalMatch)],
    semantic_hits: Option<&SemanticHits>,
) -> tantivy::Result<Vec<Candidate>> {
    let ended = searcher.fields.filter_term(&facet_value(&SearchFacet::ended()));
    let ended: HashSet<DocAddress> = searcher.live_records(&ended)?.into_iter().collect();
    let mut candidates = Vec::with_capacity(matches.len());
    let mut add = |item, lexical| {
        let similarity = semantic_hits.map_or(0.0, |hits| hits.similar_chunk(item).similarity);
        let (length, is_ended) = (searcher.term_count(item), ended.contains(&item));
        candidates.push(Candidate { item, lexical, similarity, length, is_ended });
    };
    for (item, lexical) in matches {
        add(*item, *lexical);
    }
    for hit in semantic_hits.map_or(&[][..], |hits| &hits.best) {
        // Matches of all items are in the order of their addresses.
        if matches.binary_search_by_key(&hit.item, |(item, _)| *item).is_err() {
            add(hit.item, LexicalMatch::default());
        }
    }
    Ok(candidates)
}

/// Returns a number that differs if the items, their order, the model, or its vectors differ.
pub(crate) fn index_state(
    searcher: &LexicalSearcher,
    semantic: &mut SemanticIndex,
    model: Option<usize>,
) -> tantivy::Result<u64> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&searcher.content_state()?.to_le_bytes());
    if let Some(model) = model {
        let (id, missing) = semantic.ranking_state(model, searcher);
        // A vector that arrives between two pages may change their order.
        hasher.update(id.as_bytes()).update(&missing.to_le_bytes());
    }
    Ok(first_bytes(&hasher.finalize()))
}
