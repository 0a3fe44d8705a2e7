//! Parent matches: the words of a parent are evidence for its children, which rarely repeat them.

use reqlore_domain::document::DocumentKind;
use reqlore_domain::records::kinds::PLANNED;
use reqlore_domain::search::SearchFacet;
use tantivy::DocAddress;

use super::bm25::LexicalMatch;
use super::schema::{document_kind_value, facet_value};
use super::searcher::{LexicalSearcher, to_usize};
use crate::rank_fusion::{ScoredItem, sort_best};

/// The best parents of each kind, whose children gain.
const MAX_PARENTS: usize = 8;
/// The share of a parent's evidence that its children gain.
const PARENT_SHARE: f32 = 0.15;

/// Adds the evidence of the best parents to their children. `matches` are those of all records, by
/// segment and record. A story passes the evidence of its epic on.
pub(crate) fn add_parent_matches(
    searcher: &LexicalSearcher,
    matches: &mut [Vec<LexicalMatch>],
) -> tantivy::Result<()> {
    for kind in PLANNED {
        let kind = searcher.fields.filter_term(&document_kind_value(DocumentKind::Item(*kind)));
        let mut parents = Vec::new();
        for item in searcher.live_records(&kind)? {
            let score = match_of(matches, item).score;
            if score > 0.0 {
                parents.push(ScoredItem { item, score });
            }
        }
        sort_best(&|items| searcher.rank_keys(items), &mut parents, MAX_PARENTS)?;
        let parents: Vec<DocAddress> = parents.iter().map(|parent| parent.item).collect();
        for (parent, key) in parents.iter().zip(searcher.rank_keys(&parents)?) {
            let LexicalMatch { score, coverage } = *match_of(matches, *parent);
            // The key begins with the reference.
            let reference = key.split(|byte| *byte == 0).next().unwrap_or_default();
            let facet = SearchFacet::new(SearchFacet::PARENT, String::from_utf8_lossy(reference));
            for child in
                searcher.live_records(&searcher.fields.filter_term(&facet_value(&facet)))?
            {
                let child = match_of(matches, child);
                child.score += PARENT_SHARE * score;
                child.coverage += (1.0 - child.coverage) * PARENT_SHARE * coverage;
            }
        }
    }
    Ok(())
}

fn match_of(matches: &mut [Vec<LexicalMatch>], item: DocAddress) -> &mut LexicalMatch {
    &mut matches[to_usize(item.segment_ord)][to_usize(item.doc_id)]
}
