//! Compares the scores of the postings with BM25 computed by a scan over all items, and the best
//! items of tantivy with these scores.

use std::sync::Arc;

use proptest::prelude::*;
use reqlore_domain::document::{DocumentId, Version};
use reqlore_domain::search::{DocumentProjection, SearchItem};
use tantivy::fieldnorm::FieldNormReader;

use tantivy::DocAddress;

use super::bm25::LexicalScorer;
use super::schema::TITLE_WEIGHT;
use super::{LexicalIndex, query_expansion};
use crate::analyzer::Analyzer;
use crate::disk_directory::ByteCache;
use crate::index_folder::IndexLocation;

fn item(number: usize, title: &str, text: &str) -> SearchItem {
    let (title, text) = (title.to_owned(), text.to_owned());
    SearchItem {
        reference: format!("N-{number}"),
        kind: "note".to_owned(),
        title,
        text,
        tags: vec!["tag".to_owned()],
        links: vec!["dec-1d2c8f".to_owned()],
        facets: Vec::new(),
    }
}

fn tokens(analyzer: &Analyzer, item: &SearchItem) -> Vec<String> {
    let mut tokens = Vec::new();
    for _ in 0..TITLE_WEIGHT {
        analyzer.for_each_word(&item.title, |word| tokens.push(word.to_owned()));
    }
    for text in [&item.reference, &item.text].into_iter().chain(&item.tags).chain(&item.links) {
        analyzer.for_each_word(text, |word| tokens.push(word.to_owned()));
    }
    tokens
}

/// The score and the coverage by their definition, with lengths in the precision of tantivy's field norms.
fn reference_matches(items: &[Option<SearchItem>], query: &str) -> Vec<(f64, f64)> {
    let analyzer = Analyzer::new();
    let texts: Vec<_> =
        items.iter().map(|item| item.as_ref().map(|item| tokens(&analyzer, item))).collect();
    let present: Vec<_> = texts.iter().flatten().collect();
    let item_count = f64::from(u32::try_from(present.len()).unwrap());
    let average = present.iter().map(|tokens| indexed_length(tokens)).sum::<f64>() / item_count;
    let mut terms = Vec::new();
    analyzer.for_each_word(query, |word| terms.push(word.to_owned()));
    let is_function_word = |term: &String| ["the", "get"].contains(&term.as_str());
    if !terms.iter().all(is_function_word) {
        terms.retain(|term| !is_function_word(term));
    }
    let (mut matches, mut total) = (vec![(0.0, 0.0); items.len()], 0.0);
    for term in terms {
        let with_term = present.iter().filter(|tokens| tokens.contains(&term)).count();
        let frequency = f64::from(u32::try_from(with_term).unwrap());
        let idf = (1.0 + (item_count - frequency + 0.5) / (frequency + 0.5)).ln();
        total += idf;
        for ((score, coverage), tokens) in matches.iter_mut().zip(&texts) {
            let Some(tokens) = tokens else { continue };
            let count = tokens.iter().filter(|token| **token == term).count();
            let count = f64::from(u32::try_from(count).unwrap());
            let norm = 1.2 * (0.25 + 0.75 * indexed_length(tokens) / average);
            *score += idf * count / (count + norm);
            *coverage += if count > 0.0 { idf } else { 0.0 };
        }
    }
    matches.iter().map(|(score, coverage)| (score / total, coverage / total)).collect()
}

fn indexed_length(tokens: &[String]) -> f64 {
    let length = u32::try_from(tokens.len()).unwrap();
    f64::from(FieldNormReader::id_to_fieldnorm(FieldNormReader::fieldnorm_to_id(length)))
}

const VOCABULARY: &str = "the user logs logging REQ-7 req_7 connect connection getUser пароль 7";

fn text() -> impl Strategy<Value = String> {
    let words: Vec<&str> = VOCABULARY.split(' ').collect();
    prop::collection::vec(prop::sample::select(words), 0..60).prop_map(|words| words.join(" "))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn bm25_of_postings_equals_bm25_of_scan(
        writes in prop::collection::vec((0usize..25, text(), text(), 0u8..5), 1..60),
        query in prop::sample::subsequence(VOCABULARY.split(' ').collect::<Vec<_>>(), 1..6),
    ) {
        let (location, cache) = (IndexLocation::in_memory(), Arc::new(ByteCache::new(0)));
        let mut index = LexicalIndex::open(&location, &cache, &Analyzer::new()).unwrap();
        let mut items = vec![None; 25];
        for (number, title, text, action) in writes {
            items[number] = (action > 0).then(|| item(number, &title, &text));
            let projection = DocumentProjection {
                document: DocumentId::entity(format!("{number:02}")),
                // Some documents are left without items.
                version: (number % 2 == 0 || action > 0).then_some(Version::UNREADABLE),
                items: items[number].iter().cloned().collect(),
                is_incomplete: false,
            };
            index.replace(&projection, &[Vec::new()]);
            if action == 4 {
                index.commit().unwrap();
            }
        }
        index.commit().unwrap();
        let query = query.join(" ");
        let searcher = index.searcher();
        prop_assert_eq!(searcher.item_count(), items.iter().flatten().count());
        let query_terms = query_expansion::expand_query(searcher, &Analyzer::new(), &query, false);
        let query_terms = query_terms.unwrap();
        // The scan does not expand terms that no item has.
        prop_assume!(query_terms.terms.iter().all(|term| !term.is_replacement));
        let scorer = LexicalScorer::new(searcher, &query_terms).unwrap();
        let expected = reference_matches(&items, &query);
        let mut matched = Vec::new();
        for segment in 0..searcher.segment_readers().len() {
            for (doc, found) in (0..).zip(scorer.match_segment(segment).unwrap()) {
                if found.score > 0.0 {
                    let address = DocAddress::new(u32::try_from(segment).unwrap(), doc);
                    let stored = searcher.stored_item(address).unwrap();
                    let number: usize = stored.document.unwrap().name.parse().unwrap();
                    let (score, coverage) = expected[number];
                    prop_assert!((f64::from(found.score) - score).abs() < 1e-3, "{:?}", found);
                    prop_assert!((f64::from(found.coverage) - coverage).abs() < 1e-3);
                    matched.push((address, found));
                }
            }
        }
        let expected_count = expected.iter().filter(|(score, _)| *score > 0.0).count();
        prop_assert_eq!(matched.len(), expected_count);
        let (best, total) = scorer.best_items(None, 5).unwrap();
        prop_assert_eq!((best.len(), total), (expected_count.min(5), expected_count));
        let scores = scorer.match_items(&best).unwrap();
        matched.sort_by(|(_, a), (_, b)| b.score.total_cmp(&a.score));
        for (found, (_, expected)) in scores.iter().zip(&matched) {
            prop_assert!((found.score - expected.score).abs() < 1e-6);
        }
    }
}
