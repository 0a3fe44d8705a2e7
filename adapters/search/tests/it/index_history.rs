//! Results depend on the indexed documents only, not on the order of changes.

use std::collections::BTreeMap;

use proptest::prelude::*;
use reqlore_domain::search::DocumentProjection;

use crate::support::{TestIndex, ToyModel, document_with_items, item, query, removed_document};

const WORDS: [&str; 12] = [
    "alpha",
    "beta",
    "gamma",
    "REQ-7",
    "connect",
    "connected",
    "car",
    "auto",
    "cat",
    "пароль",
    "get_user",
    "home",
];

/// A document number, and its items as lists of word numbers; `None` removes the document.
type Change = (u8, Option<Vec<Vec<usize>>>);

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let items = prop::collection::vec(prop::collection::vec(0..WORDS.len(), 0..9), 0..4);
    prop::collection::vec((0u8..6, prop::option::weighted(0.8, items)), 1..30)
}

fn projection((document, items): &Change) -> DocumentProjection {
    let name = format!("d{document}");
    let Some(items) = items else { return removed_document(&name) };
    let items = items.iter().enumerate().map(|(position, words)| {
        let words: Vec<_> = words.iter().map(|word| WORDS[*word]).collect();
        item(&format!("{name}:{position}"), words.first().unwrap_or(&""), &words.join(" "))
    });
    document_with_items(&name, items.collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn index_after_any_history_equals_fresh_index(changes in changes(), has_model: bool, searches_often: bool) {
        let models = || if has_model { vec![ToyModel::instant() as _] } else { Vec::new() };
        let aged = TestIndex::new(None, models());
        let mut last = BTreeMap::new();
        for change in &changes {
            aged.apply(vec![projection(change)]);
            if searches_often {
                aged.search(&query("alpha"));
            }
            last.insert(change.0, projection(change));
        }
        let fresh = TestIndex::new(None, models());
        fresh.apply(last.into_values().collect());
        prop_assert_eq!(aged.indexed(), fresh.indexed());
        for words in WORDS.windows(2) {
            let query = query(&words.join(" "));
            prop_assert_eq!(aged.search(&query), fresh.search(&query));
        }
    }
}
