//! What is found depends on what is there, not on how it came.

use std::collections::BTreeMap;

use proptest::prelude::*;
use reqlore_domain::search::DocumentProjection;

use crate::support::{Tester, Toy, gone, holding, item, query};

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

/// Document, and its items as lists of words; nothing when it goes.
type Act = (u8, Option<Vec<Vec<usize>>>);

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let items = prop::collection::vec(prop::collection::vec(0..WORDS.len(), 0..9), 0..4);
    prop::collection::vec((0u8..6, prop::option::weighted(0.8, items)), 1..30)
}

fn projection((document, items): &Act) -> DocumentProjection {
    let name = format!("d{document}");
    let Some(items) = items else { return gone(&name) };
    let items = items.iter().enumerate().map(|(at, words)| {
        let words: Vec<_> = words.iter().map(|word| WORDS[*word]).collect();
        item(&format!("{name}:{at}"), words.first().unwrap_or(&""), &words.join(" "))
    });
    holding(&name, items.collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn any_history_answers_as_its_end_does(acts in acts(), meaning: bool, often: bool) {
        let models = || if meaning { vec![Toy::instant() as _] } else { Vec::new() };
        let lived = Tester::new(None, models());
        let mut last = BTreeMap::new();
        for act in &acts {
            lived.apply(vec![projection(act)]);
            if often {
                lived.search(&query("alpha"));
            }
            last.insert(act.0, projection(act));
        }
        let fresh = Tester::new(None, models());
        fresh.apply(last.into_values().collect());
        prop_assert_eq!(lived.indexed(), fresh.indexed());
        for words in WORDS.windows(2) {
            let asked = query(&words.join(" "));
            prop_assert_eq!(lived.search(&asked), fresh.search(&asked));
        }
    }
}
