//! Scores of the postings against those of a plain scan over all items.

use std::collections::HashMap;

use proptest::prelude::*;
use reqlore_domain::search::SearchItem;
use tantivy::fieldnorm::FieldNormReader;

use super::bm25::score_items;
use super::{LexicalIndex, TITLE_WEIGHT, query_expansion};
use crate::analyzer::Analyzer;

fn item(slot: usize, title: &str, text: &str) -> SearchItem {
    let (title, text) = (title.to_owned(), text.to_owned());
    let (kind, tags) = ("note".to_owned(), vec!["tag".to_owned()]);
    let links = vec!["dec-1d2c8f".to_owned()];
    SearchItem {
        reference: format!("N-{slot}"),
        kind,
        title,
        text,
        tags,
        links,
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

/// BM25 as the books have it, with lengths as roughly as tantivy remembers them.
fn plain(items: &[Option<SearchItem>], query: &str) -> Vec<f64> {
    let analyzer = Analyzer::new();
    let texts: Vec<_> =
        items.iter().map(|item| item.as_ref().map(|item| tokens(&analyzer, item))).collect();
    let length = |tokens: &Vec<String>| {
        let length = u32::try_from(tokens.len()).unwrap();
        f64::from(FieldNormReader::id_to_fieldnorm(FieldNormReader::fieldnorm_to_id(length)))
    };
    let living: Vec<_> = texts.iter().flatten().collect();
    let count = f64::from(u32::try_from(living.len()).unwrap());
    let average = living.iter().map(|tokens| length(tokens)).sum::<f64>() / count;
    let mut asked = Vec::new();
    analyzer.for_each_word(query, |word| asked.push(word.to_owned()));
    let mut scores = vec![0.0; items.len()];
    for word in asked {
        let times = |tokens: &Vec<String>| tokens.iter().filter(|token| **token == word).count();
        let having = living.iter().filter(|tokens| times(tokens) > 0).count();
        let having = f64::from(u32::try_from(having).unwrap());
        let rarity = (1.0 + (count - having + 0.5) / (having + 0.5)).ln();
        for (score, tokens) in scores.iter_mut().zip(&texts) {
            let Some(tokens) = tokens else { continue };
            let times = f64::from(u32::try_from(times(tokens)).unwrap());
            let norm = 1.2 * (0.25 + 0.75 * length(tokens) / average);
            *score += rarity * times * 2.2 / (times + norm);
        }
    }
    scores
}

const VOCABULARY: &str = "the user logs logging REQ-7 req_7 connect connection getUser пароль 7";

fn text() -> impl Strategy<Value = String> {
    let words: Vec<&str> = VOCABULARY.split(' ').collect();
    prop::collection::vec(prop::sample::select(words), 0..60).prop_map(|words| words.join(" "))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn postings_score_as_a_plain_scan_does(
        writes in prop::collection::vec((0usize..25, text(), text(), 0u8..5), 1..60),
        query in prop::sample::subsequence(VOCABULARY.split(' ').collect::<Vec<_>>(), 1..6),
    ) {
        let mut words = LexicalIndex::create(&Analyzer::new()).unwrap();
        let mut items = vec![None; 25];
        for (slot, title, text, act) in writes {
            let number = u32::try_from(slot).unwrap();
            words.remove(number);
            items[slot] = (act > 0).then(|| item(slot, &title, &text));
            if let Some(item) = &items[slot] {
                words.add(number, item).unwrap();
            }
            if act == 4 {
                words.commit().unwrap();
            }
        }
        words.commit().unwrap();
        let living = items.iter().flatten().count();
        let query = query.join(" ");
        let view = words.searcher();
        let sought = query_expansion::expand_query(view, &Analyzer::new(), &query).unwrap();
        let found = score_items(view, &sought, living, items.len()).unwrap();
        let known: HashMap<_, _> = sought.iter().map(|word| (&word.text, word.weight)).collect();
        // Words that nothing has are looked for in another form; the plain scan does not do that.
        prop_assume!(known.values().all(|weight| *weight >= 1.0));
        for (found, expected) in found.iter().zip(plain(&items, &query)) {
            prop_assert_eq!(*found > 0.0, expected > 0.0);
            prop_assert!((f64::from(*found) - expected).abs() < 1e-3, "{} {}", found, expected);
        }
    }
}
