//! The index answers like a fresh one after any history, below and above its limits, which are
//! lower in tests.

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;
use reqlore_domain::ports::change_page::Revision;
use reqlore_domain::ports::embedder::ModelProfile;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::search::{SearchFacet, SearchItem, SemanticMode};

use super::*;
use crate::lock::lock;
use crate::project_cache::{ProjectCache, SharedProject};

const WORDS: [&str; 12] = [
    "alpha",
    "beta",
    "gamma",
    "req-7",
    "connect",
    "connected",
    "cars",
    "autos",
    "cat",
    "пароль",
    "get_user",
    "home",
];

#[derive(Debug, Clone)]
enum HistoryStep {
    /// A document number, and its items as lists of word numbers; `None` removes the document.
    Write(u8, Option<Vec<Vec<usize>>>),
    Search,
    Flush,
    Merge,
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<HistoryStep>> {
    let items = prop::collection::vec(prop::collection::vec(0..WORDS.len(), 0..9), 0..5);
    let step = prop_oneof![
        8 => (0u8..24, prop::option::weighted(0.8, items))
            .prop_map(|(number, items)| HistoryStep::Write(number, items)),
        2 => Just(HistoryStep::Search),
        1 => Just(HistoryStep::Flush),
        1 => Just(HistoryStep::Merge),
        1 => Just(HistoryStep::Reopen),
    ];
    prop::collection::vec(step, 1..80)
}

fn projection(number: u8, items: Option<&Vec<Vec<usize>>>) -> DocumentProjection {
    let name = format!("d{number:02}");
    let mut projection = DocumentProjection::without_items(DocumentId::entity(&name), None);
    let Some(items) = items else { return projection };
    projection.version = Some(Version::of_bytes(format!("{items:?}").as_bytes()));
    projection.is_incomplete = items.len() == 4;
    for (position, words) in items.iter().enumerate() {
        let words: Vec<_> = words.iter().map(|word| WORDS[*word]).collect();
        projection.items.push(SearchItem {
            reference: format!("{name}:{position}"),
            kind: "note".to_owned(),
            title: words.first().map_or(String::new(), |word| (*word).to_owned()),
            text: words.join(" "),
            tags: Vec::new(),
            links: Vec::new(),
            facets: vec![SearchFacet::new("half", words.len() > 4)],
        });
    }
    projection
}

/// A model with a dimension for each first letter.
struct LetterModel(ModelProfile);

impl Embedder for LetterModel {
    fn profile(&self) -> &ModelProfile {
        &self.0
    }

    fn embed(&self, _: TextRole, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        let mut vectors = Vec::new();
        for text in texts {
            let mut vector = [0.01; 26];
            for letter in text.split_whitespace().filter_map(|word| word.bytes().next()) {
                vector[usize::from(letter % 26)] += 1.0;
            }
            let length = vector.iter().map(|n| n * n).sum::<f32>().sqrt();
            vectors.push(vector.iter().map(|n| n / length).collect());
        }
        Ok(vectors)
    }
}

fn open(folder: Option<&Path>, has_model: bool) -> (ProjectCache, SharedProject) {
    let profile = ModelProfile {
        name: "letters".to_owned(),
        id: "letters".to_owned(),
        dimension: 26,
        unrelated_cosine: 0.2,
        min_evidence: 0.4,
        languages: ModelLanguages::English,
        speed: ModelSpeed::Instant,
    };
    let model: Arc<dyn Embedder> = Arc::new(LetterModel(profile));
    let config = SearchConfig {
        cache_folder: folder.map(Path::to_path_buf),
        embedders: if has_model { vec![model] } else { Vec::new() },
        memory_bytes: 1 << 20,
        ..SearchConfig::default()
    };
    let projects = ProjectCache::new(config);
    let project = projects.get_or_open(&ProjectKey::default()).unwrap().0;
    (projects, project)
}

fn search(project: &SharedProject, query: &SearchQuery) -> SearchHits {
    let mut project = lock(project);
    let QueryPlan::Ready(plan) = project.plan_query(query).unwrap() else { unreachable!() };
    project.search(query, &plan).unwrap()
}

fn queries() -> Vec<SearchQuery> {
    let mut queries = Vec::new();
    for words in WORDS.windows(2) {
        for facets in [Vec::new(), vec![vec![SearchFacet::new("half", true)]]] {
            queries.push(SearchQuery {
                text: words.join(" "),
                document_kinds: Vec::new(),
                item_kinds: Vec::new(),
                facets,
                offset: 0,
                limit: 200,
                semantic_mode: SemanticMode::Best,
                is_unfinished: false,
            });
        }
    }
    queries
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn index_after_any_history_equals_fresh_index(steps in steps(), has_model: bool) {
        let folder = tempfile::tempdir().unwrap();
        let (mut projects, mut aged) = open(Some(folder.path()), has_model);
        let mut last = BTreeMap::new();
        let mut position = ChangePosition { store_id: 1 << 100, writer_id: 7, ..Default::default() };
        for step in &steps {
            match step {
                HistoryStep::Write(number, items) => {
                    let written = projection(*number, items.as_ref());
                    position.revision = Revision(position.revision.0 + 1);
                    lock(&aged).apply(std::slice::from_ref(&written), Some(position)).unwrap();
                    last.insert(*number, written);
                }
                HistoryStep::Search => drop(search(&aged, &queries()[0])),
                HistoryStep::Flush => lock(&aged).flush().unwrap(),
                HistoryStep::Merge => while lock(&aged).merge_step(Waker::noop()).unwrap() {},
                HistoryStep::Reopen => {
                    drop((projects, aged));
                    (projects, aged) = open(Some(folder.path()), has_model);
                }
            }
            let expected = (position.revision.0 > 0).then_some(position);
            prop_assert_eq!(lock(&aged).position(), expected);
        }
        let (_projects, fresh) = open(None, has_model);
        let documents: Vec<_> = last.into_values().collect();
        lock(&fresh).apply(&documents, None).unwrap();
        let versions = lock(&fresh).indexed(None, usize::MAX).unwrap();
        prop_assert_eq!(lock(&aged).indexed(None, usize::MAX).unwrap(), versions.clone());
        if let Some((middle, _)) = versions.get(versions.len() / 2) {
            let page = lock(&aged).indexed(Some(middle), 3).unwrap();
            prop_assert!(versions[versions.len() / 2 + 1..].starts_with(&page));
        }
        for query in queries() {
            let (mut found, expected) = (search(&aged, &query), search(&fresh, &query));
            if !lock(&fresh).lexical.searcher().is_scored_whole() {
                found.state = expected.state;
            }
            prop_assert_eq!(&found, &expected);
            // The last page ends with uncertain hits, which have no pages.
            let half = SearchQuery { limit: found.total / 2, ..query.clone() };
            let rest = SearchQuery { offset: half.limit, ..query };
            let pages = [search(&aged, &half).hits, search(&aged, &rest).hits].concat();
            prop_assert_eq!(pages, expected.hits);
        }
    }
}

#[test]
fn large_index_counts_matches_by_words() {
    let (_projects, project) = open(None, true);
    let mut documents = Vec::new();
    for number in 0..50 {
        documents.push(projection(number, Some(&vec![vec![0], vec![1, 2, 4, 8, 11]])));
    }
    lock(&project).apply(&documents, None).unwrap();
    let mut query = queries().swap_remove(0);
    query.text = "alpha home d07:1".to_owned();
    let found = search(&project, &query);
    assert!(!lock(&project).semantic.has_vectors());
    assert_eq!((found.total, found.hits.len()), (100, 100));
    assert_eq!((&*found.hits[0].reference, found.hits[0].is_uncertain), ("d07:1", false));
    assert_eq!(found.signals, ["words", "meaning:letters"]);
    query.facets = vec![vec![SearchFacet::new("half", true)]];
    assert_eq!(search(&project, &query).total, 50);
    query.text = "zzz".to_owned();
    assert_eq!(search(&project, &query).hits, []);
}
