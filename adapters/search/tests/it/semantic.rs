//! Lexical and semantic search together.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use reqlore_domain::ports::embedder::{Embedder, ModelLanguages, ModelSpeed, TextRole};
use reqlore_domain::search::{SearchQuery, SemanticMode};

use crate::support::{
    PanickingModel, TestIndex, ToyModel, certain_references, document_with_items,
    document_with_text, item, query, removed_document,
};

fn fill(index: &TestIndex) {
    let mut documents: Vec<_> = (0..30)
        .map(|i| document_with_text(&format!("other-{i:02}"), "", "nothing of interest"))
        .collect();
    documents.extend([
        document_with_text("auto-1", "", "an auto with four wheels"),
        document_with_text("car-1", "", "the car is red"),
        document_with_text("cat-1", "", "a cat is a cat"),
    ]);
    index.apply(documents);
}

#[test]
fn semantic_search_finds_synonyms() {
    let index = TestIndex::new(None, vec![ToyModel::instant()]);
    fill(&index);
    let hits = index.search(&query("car"));
    assert_eq!(certain_references(&hits), ["car-1", "auto-1"]);
    assert_eq!((hits.total, hits.pending), (2, 0));
    assert_eq!(hits.signals, ["words", "meaning:toy-instant"]);
    assert_eq!(hits.hits[1].snippet, "an auto with four wheels");
    let words = index.search(&SearchQuery { semantic_mode: SemanticMode::Off, ..query("car") });
    assert_eq!((words.total, words.signals.len()), (1, 1));
    let item_kinds = vec!["decision".to_owned()];
    assert_eq!(index.search(&SearchQuery { item_kinds, ..query("car") }).total, 0);
}

#[test]
fn search_is_never_empty_and_marks_weak_evidence() {
    let index = TestIndex::new(None, vec![ToyModel::instant()]);
    assert_eq!(index.search(&query("sea")).hits, []);
    fill(&index);
    let found = index.search(&query("sea"));
    assert_eq!((found.total, found.hits.len()), (0, 10));
    assert!(found.hits.iter().all(|hit| hit.is_uncertain));
    let found = index.search(&query("car"));
    assert_eq!((found.total, found.hits.len()), (2, 10));
    // Uncertain hits complete the last page only.
    let first = index.search(&SearchQuery { limit: 1, ..query("car") });
    assert_eq!((certain_references(&first).len(), first.hits.len()), (1, 1));
    let last = index.search(&SearchQuery { limit: 3, offset: 1, ..query("car") });
    assert_eq!((certain_references(&last).len(), last.hits.len()), (1, 3));
}

#[test]
fn score_does_not_depend_on_the_other_hits() {
    let index = TestIndex::new(None, vec![ToyModel::instant()]);
    fill(&index);
    let all = index.search(&query("red car")).hits;
    let kind = vec!["note".to_owned()];
    let filtered = index.search(&SearchQuery { item_kinds: kind, ..query("red car") }).hits;
    assert_eq!(all, filtered);
    let auto = all.iter().find(|hit| hit.reference == "auto-1").unwrap();
    assert!(all[0].score > auto.score && auto.score > 0.2, "{} {}", all[0].score, auto.score);
}

#[test]
fn snippet_shows_most_similar_chunk() {
    let index = TestIndex::new(None, vec![ToyModel::instant()]);
    fill(&index);
    let filler = "plain ".repeat(100);
    let text = format!("{filler}\n\n## Beasts\n\nfeline feline\n\n## End\n\n{filler}");
    index.apply(vec![document_with_items("long", vec![item("long", "", &text)])]);
    let hits = index.search(&query("cat")).hits;
    let long = hits.iter().find(|hit| hit.reference == "long").unwrap();
    assert!(long.snippet.starts_with("…feline feline ## End"), "{}", long.snippet);
}

#[test]
fn english_model_does_not_rank_other_scripts() {
    let index = TestIndex::new(None, vec![ToyModel::instant()]);
    fill(&index);
    assert_eq!(index.search(&query("машина")).signals, ["words"]);
    let many = TestIndex::new(None, vec![ToyModel::new(ModelSpeed::Instant, ModelLanguages::Many)]);
    fill(&many);
    let mut found = many.found_references("машина");
    found.sort();
    assert_eq!(found, ["auto-1", "car-1"]);
}

#[test]
fn slow_model_ranks_once_it_embedded_all_texts() {
    let (instant, slow) =
        (ToyModel::instant(), ToyModel::new(ModelSpeed::Slow, ModelLanguages::English));
    slow.set_open(false);
    let index = TestIndex::new(None, vec![instant, slow.clone()]);
    fill(&index);
    let before = index.search(&query("car"));
    assert_eq!(before.signals, ["words", "meaning:toy-instant"]);
    // Equal texts are embedded once, but each of their items is pending.
    assert_eq!(before.pending, 33);
    slow.set_open(true);
    let answers = (0..1_000_000).map(|_| index.search(&query("car")));
    let after = answers.into_iter().find(|hits| hits.pending == 0).unwrap();
    assert_eq!(after.signals, ["words", "meaning:toy-slow"]);
    assert_eq!(certain_references(&after).len(), 2);
    assert_eq!(slow.passage_count(), 4);
}

#[test]
fn first_search_after_large_apply_ranks_semantically() {
    let model = ToyModel::instant();
    let index = TestIndex::new(None, vec![model.clone()]);
    let text = "## One\n\n".to_owned() + &"plain ".repeat(200);
    let documents =
        (0..3000).map(|i| document_with_text(&format!("n-{i}"), &format!("Note {i}"), &text));
    let mut documents: Vec<_> = documents.collect();
    documents.push(document_with_text("auto-1", "", "an auto with four wheels"));
    for batch in documents.chunks(256) {
        index.apply(batch.to_vec());
    }
    let hits = index.search(&query("car"));
    assert_eq!(hits.pending, 0);
    assert_eq!(hits.signals, ["words", "meaning:toy-instant"]);
    assert_eq!(hits.hits[0].reference, "auto-1");
    // More than two chunks for each document.
    assert!(model.passage_count() > 2 * 3000, "{}", model.passage_count());
}

#[test]
fn drop_with_pending_texts_ends_and_next_start_resumes() {
    let folder = tempfile::tempdir().unwrap();
    let slow = ToyModel::new(ModelSpeed::Slow, ModelLanguages::English);
    let index = TestIndex::new(Some(folder.path()), vec![slow.clone()]);
    fill(&index);
    drop(index);
    let index = TestIndex::new(Some(folder.path()), vec![slow]);
    let mut answers = (0..1_000_000).map(|_| index.search(&query("car")));
    assert!(answers.any(|hits| hits.pending == 0));
}

#[test]
fn panicking_model_is_disabled_and_search_is_lexical() {
    for (pace, failing_role) in [
        (ModelSpeed::Slow, TextRole::Passage),
        (ModelSpeed::Slow, TextRole::Query),
        (ModelSpeed::Instant, TextRole::Passage),
        (ModelSpeed::Instant, TextRole::Query),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let profile = ToyModel::new(pace, ModelLanguages::English).profile().clone();
        let index = TestIndex::new(
            Some(folder.path()),
            vec![Arc::new(PanickingModel { profile, failing_role })],
        );
        fill(&index);
        let mut answers = (0..1_000_000).map(|_| index.search(&query("car")));
        assert!(answers.any(|hits| hits.pending == 0));
        let hits = index.search(&query("car"));
        assert_eq!((hits.signals, hits.total), (vec!["words".to_owned()], 1));
        index.apply(vec![document_with_text("later", "", "delta")]);
        assert_eq!(index.found_references("delta"), ["later"]);
        let indexed = index.indexed();
        drop(index);
        assert_eq!(TestIndex::on_disk(folder.path()).indexed(), indexed);
    }
}

#[test]
fn background_thread_survives_panicking_model() {
    let profile = ToyModel::new(ModelSpeed::Slow, ModelLanguages::Many).profile().clone();
    let panicking = Arc::new(PanickingModel { profile, failing_role: TextRole::Passage });
    let slow = ToyModel::new(ModelSpeed::Slow, ModelLanguages::English);
    let index = TestIndex::new(None, vec![panicking, slow.clone()]);
    fill(&index);
    let mut answers = (0..1_000_000).map(|_| index.search(&query("car")));
    let hits = answers.find(|hits| hits.pending == 0).unwrap();
    assert_eq!(hits.signals, ["words", "meaning:toy-slow"]);
    assert!(slow.passage_count() > 0);
}

// The memory is not visible here, but the file has the same vectors.
#[test]
fn vectors_of_deleted_documents_are_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let index = TestIndex::new(Some(folder.path()), vec![ToyModel::instant()]);
    let name = |number: usize| format!("d{number}");
    let added = (0..3_000).map(|i| document_with_text(&name(i), "", &format!("car {i}")));
    index.apply(added.collect());
    index.apply((0..3_000).map(|i| removed_document(&name(i))).collect());
    // Saves the index.
    drop(index);
    let mut vector_bytes = None;
    for entry in walk(folder.path()) {
        if entry.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vectors-")) {
            vector_bytes = Some(std::fs::metadata(entry).unwrap().len());
        }
    }
    assert!(vector_bytes.is_none_or(|length| length < 1_000), "{vector_bytes:?} bytes");
    let index = TestIndex::new(Some(folder.path()), vec![ToyModel::instant()]);
    fill(&index);
    assert_eq!(certain_references(&index.search(&query("car"))), ["car-1", "auto-1"]);
}

fn walk(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(walk(&path));
        } else {
            files.push(path);
        }
    }
    files
}
