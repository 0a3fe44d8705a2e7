//! Shared by the tests: short constructors, a synchronous index and small embedding models.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};

use reqlore_domain::document::{DocumentId, Version};
use reqlore_domain::error::Result;
use reqlore_domain::ports::change_page::ChangePosition;
use reqlore_domain::ports::change_page::Revision;
use reqlore_domain::ports::embedder::{
    Embedder, ModelLanguages, ModelProfile, ModelSpeed, TextRole,
};
use reqlore_domain::ports::search::SearchIndex;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::search::{
    DocumentProjection, IndexDifference, SearchHits, SearchItem, SearchQuery, SemanticMode,
};
use reqlore_search::{LocalSearchIndex, SearchConfig};

pub(crate) struct TestIndex {
    index: LocalSearchIndex,
    /// The project of all calls.
    pub(crate) key: ProjectKey,
    runtime: tokio::runtime::Runtime,
}

impl TestIndex {
    pub(crate) fn new(cache: Option<&Path>, embedders: Vec<Arc<dyn Embedder>>) -> Self {
        Self::with_store("store", cache, embedders)
    }

    pub(crate) fn with_store(
        store: &str,
        cache: Option<&Path>,
        embedders: Vec<Arc<dyn Embedder>>,
    ) -> Self {
        let cache = cache.map(Path::to_path_buf);
        let index = LocalSearchIndex::new(SearchConfig {
            cache_folder: cache,
            store: store.to_owned(),
            embedders,
            memory_bytes: 1 << 20,
            ..SearchConfig::default()
        });
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        Self { index, key: ProjectKey::default(), runtime }
    }

    pub(crate) fn in_memory() -> Self {
        Self::new(None, Vec::new())
    }

    pub(crate) fn on_disk(cache: &Path) -> Self {
        Self::new(Some(cache), Vec::new())
    }

    pub(crate) fn apply(&self, projections: Vec<DocumentProjection>) {
        self.runtime.block_on(self.index.apply_projections(&self.key, projections, None)).unwrap();
    }

    pub(crate) fn search(&self, query: &SearchQuery) -> SearchHits {
        self.try_search(query).unwrap()
    }

    pub(crate) fn try_search(&self, query: &SearchQuery) -> Result<SearchHits> {
        self.runtime.block_on(self.index.search(&self.key, query))
    }

    pub(crate) fn begin_build(&self) -> bool {
        self.runtime.block_on(self.index.begin_build(&self.key)).unwrap()
    }

    pub(crate) fn erase(&self) {
        self.runtime.block_on(self.index.erase(&self.key)).unwrap();
    }

    pub(crate) fn indexed(&self) -> BTreeMap<DocumentId, Version> {
        let versions = self.index.indexed_versions(&self.key, None, usize::MAX);
        self.runtime.block_on(versions).unwrap().into_iter().collect()
    }

    pub(crate) fn position(&self) -> Option<ChangePosition> {
        self.runtime.block_on(self.index.position(&self.key)).unwrap()
    }

    /// Moves the index to the position of a revision.
    pub(crate) fn move_to(&self, revision: u64) {
        let position = ChangePosition { revision: Revision(revision), ..Default::default() };
        let moved = self.index.apply_projections(&self.key, Vec::new(), Some(position));
        self.runtime.block_on(moved).unwrap();
    }

    pub(crate) fn checkpoint(&self, versions: BTreeMap<DocumentId, Version>) -> IndexDifference {
        self.runtime.block_on(self.index.update_checkpoint(&self.key, "sync", versions)).unwrap()
    }

    /// References of the certain hits, best first.
    pub(crate) fn found_references(&self, text: &str) -> Vec<String> {
        certain_references(&self.search(&query(text)))
    }
}

pub(crate) fn certain_references(found: &SearchHits) -> Vec<String> {
    let certain = found.hits.iter().filter(|hit| !hit.is_uncertain);
    certain.map(|hit| hit.reference.clone()).collect()
}

pub(crate) fn query(text: &str) -> SearchQuery {
    SearchQuery {
        text: text.to_owned(),
        document_kinds: Vec::new(),
        item_kinds: Vec::new(),
        facets: Vec::new(),
        offset: 0,
        limit: 1000,
        semantic_mode: SemanticMode::Best,
        is_unfinished: false,
    }
}

pub(crate) fn item(reference: &str, title: &str, text: &str) -> SearchItem {
    SearchItem {
        reference: reference.to_owned(),
        kind: "note".to_owned(),
        title: title.to_owned(),
        text: text.to_owned(),
        tags: Vec::new(),
        links: Vec::new(),
        facets: Vec::new(),
    }
}

/// A document with one item; its version depends on the text.
pub(crate) fn document_with_text(reference: &str, title: &str, text: &str) -> DocumentProjection {
    document_with_items(reference, vec![item(reference, title, text)])
}

pub(crate) fn document_with_items(name: &str, items: Vec<SearchItem>) -> DocumentProjection {
    let version = Some(Version::of_bytes(format!("{items:?}").as_bytes()));
    DocumentProjection { document: DocumentId::entity(name), version, items, is_incomplete: false }
}

pub(crate) fn removed_document(name: &str) -> DocumentProjection {
    DocumentProjection::without_items(DocumentId::entity(name), None)
}

/// A model with one dimension for each group of synonyms, such as `car` and `auto`.
pub(crate) struct ToyModel {
    profile: ModelProfile,
    state: Mutex<ToyState>,
    changed: Condvar,
}

struct ToyState {
    is_open: bool,
    passage_count: usize,
}

impl ToyModel {
    const SYNONYMS: [&[&str]; 4] =
        [&["car", "auto", "машина"], &["cat", "feline"], &["house", "home"], &["sea", "ocean"]];

    pub(crate) fn new(pace: ModelSpeed, languages: ModelLanguages) -> Arc<Self> {
        let profile = ModelProfile {
            name: format!("toy-{pace:?}").to_lowercase(),
            id: format!("toy {pace:?} {languages:?}"),
            dimension: Self::SYNONYMS.len() + 1,
            unrelated_cosine: 0.0,
            min_evidence: 0.3,
            languages,
            speed: pace,
        };
        let state = Mutex::new(ToyState { is_open: true, passage_count: 0 });
        Arc::new(Self { profile, state, changed: Condvar::new() })
    }

    pub(crate) fn instant() -> Arc<Self> {
        Self::new(ModelSpeed::Instant, ModelLanguages::English)
    }

    /// While it is closed, passages wait.
    pub(crate) fn set_open(&self, open: bool) {
        self.state.lock().unwrap().is_open = open;
        self.changed.notify_all();
    }

    /// Number of embedded passages.
    pub(crate) fn passage_count(&self) -> usize {
        self.state.lock().unwrap().passage_count
    }
}

/// A model that panics for texts of one role.
pub(crate) struct PanickingModel {
    pub(crate) profile: ModelProfile,
    pub(crate) failing_role: TextRole,
}

impl Embedder for PanickingModel {
    fn profile(&self) -> &ModelProfile {
        &self.profile
    }

    fn embed(&self, role: TextRole, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        assert_ne!(role, self.failing_role, "the test model panics");
        Ok(texts.iter().map(|text| toy_vector(text)).collect())
    }
}

impl Embedder for ToyModel {
    fn profile(&self) -> &ModelProfile {
        &self.profile
    }

    fn embed(&self, role: TextRole, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        let mut state = self.state.lock().unwrap();
        if role == TextRole::Passage {
            while !state.is_open {
                state = self.changed.wait(state).unwrap();
            }
            state.passage_count += texts.len();
        }
        Ok(texts.iter().map(|text| toy_vector(text)).collect())
    }
}

/// The last dimension is that of all unknown words.
fn toy_vector(text: &str) -> Vec<f32> {
    let mut vector = vec![0.0_f32; ToyModel::SYNONYMS.len() + 1];
    for word in text.split_whitespace() {
        let known = ToyModel::SYNONYMS.iter().position(|words| words.contains(&word));
        vector[known.unwrap_or(ToyModel::SYNONYMS.len())] +=
            if known.is_some() { 1.0 } else { 0.1 };
    }
    let length = vector.iter().map(|n| n * n).sum::<f32>().sqrt();
    vector.iter().map(|n| if length > 0.0 { n / length } else { 0.0 }).collect()
}

/// All files in a folder and its subfolders, sorted.
pub(crate) fn all_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(all_files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}
