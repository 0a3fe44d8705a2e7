//! Words and meaning together.

use std::sync::Arc;

use reqlore_domain::ports::embedder::{Embedder, ModelLanguages, ModelSpeed, TextRole};
use reqlore_domain::search::{SearchQuery, SemanticMode};

use crate::support::{Panicking, Tester, Toy, document, holding, item, query};

fn filled(index: &Tester) {
    let mut documents: Vec<_> =
        (0..30).map(|i| document(&format!("other-{i:02}"), "", "nothing of interest")).collect();
    documents.extend([
        document("auto-1", "", "an auto with four wheels"),
        document("car-1", "", "the car is red"),
        document("cat-1", "", "a cat is a cat"),
    ]);
    index.apply(documents);
}

#[test]
fn meaning_finds_what_words_do_not() {
    let index = Tester::new(None, vec![Toy::instant()]);
    filled(&index);
    let hits = index.search(&query("car"));
    let found: Vec<_> = hits.hits.iter().map(|hit| hit.reference.as_str()).collect();
    assert_eq!(found, ["car-1", "auto-1"]);
    assert_eq!((hits.total, hits.pending), (2, 0));
    assert_eq!(hits.signals, ["words", "meaning:toy-instant"]);
    assert_eq!(hits.hits[1].snippet, "an auto with four wheels");
    let words = index.search(&SearchQuery { meaning: SemanticMode::Off, ..query("car") });
    assert_eq!((words.total, words.signals.len()), (1, 1));
    let kinds = vec!["decision".to_owned()];
    assert_eq!(index.search(&SearchQuery { kinds, ..query("car") }).total, 0);
}

#[test]
fn the_nearest_chunk_counts_and_shows() {
    let index = Tester::new(None, vec![Toy::instant()]);
    filled(&index);
    let filler = "plain ".repeat(100);
    let text = format!("{filler}\n\n## Beasts\n\nfeline feline\n\n## End\n\n{filler}");
    index.apply(vec![holding("long", vec![item("long", "", &text)])]);
    let hits = index.search(&query("cat")).hits;
    let long = hits.iter().find(|hit| hit.reference == "long").unwrap();
    assert!(long.snippet.starts_with("…feline feline ## End"), "{}", long.snippet);
}

#[test]
fn an_english_model_is_silent_on_other_scripts() {
    let index = Tester::new(None, vec![Toy::instant()]);
    filled(&index);
    assert_eq!(index.search(&query("машина")).signals, ["words"]);
    let many = Tester::new(None, vec![Toy::new(ModelSpeed::Instant, ModelLanguages::Many)]);
    filled(&many);
    let mut found = many.found("машина");
    found.sort();
    assert_eq!(found, ["auto-1", "car-1"]);
}

#[test]
fn a_slow_model_reads_behind_and_words_rank_meanwhile() {
    let (quick, slow) = (Toy::instant(), Toy::new(ModelSpeed::Slow, ModelLanguages::English));
    slow.open(false);
    let index = Tester::new(None, vec![quick, slow.clone()]);
    filled(&index);
    let before = index.search(&query("car"));
    assert_eq!(before.signals, ["words", "meaning:toy-instant"]);
    // Equal texts are read once and wait as often as they stand there.
    assert_eq!(before.pending, 33);
    slow.open(true);
    let answers = (0..1_000_000).map(|_| index.search(&query("car")));
    let after = answers.into_iter().find(|hits| hits.pending == 0).unwrap();
    assert_eq!(after.signals, ["words", "meaning:toy-slow"]);
    assert_eq!(after.hits.len(), 2);
    assert_eq!(slow.texts(), 4);
}

#[test]
fn the_first_answer_ranks_by_meaning_however_much_was_brought() {
    let model = Toy::instant();
    let index = Tester::new(None, vec![model.clone()]);
    let text = "## One\n\n".to_owned() + &"plain ".repeat(200);
    let documents = (0..3000).map(|i| document(&format!("n-{i}"), &format!("Note {i}"), &text));
    let mut documents: Vec<_> = documents.collect();
    documents.push(document("auto-1", "", "an auto with four wheels"));
    for batch in documents.chunks(256) {
        index.apply(batch.to_vec());
    }
    let hits = index.search(&query("car"));
    assert_eq!(hits.pending, 0);
    assert_eq!(hits.signals, ["words", "meaning:toy-instant"]);
    assert_eq!(hits.hits[0].reference, "auto-1");
    // More than one for each, so that it is no small matter.
    assert!(model.texts() > 2 * 3000, "{}", model.texts());
}

#[test]
fn an_index_is_dropped_while_much_is_unread() {
    let folder = tempfile::tempdir().unwrap();
    let slow = Toy::new(ModelSpeed::Slow, ModelLanguages::English);
    let index = Tester::new(Some(folder.path()), vec![slow.clone()]);
    filled(&index);
    drop(index);
    let index = Tester::new(Some(folder.path()), vec![slow]);
    let mut answers = (0..1_000_000).map(|_| index.search(&query("car")));
    assert!(answers.any(|hits| hits.pending == 0));
}

#[test]
fn a_model_that_panics_is_off_and_nothing_else_is() {
    for (pace, panics_at) in [
        (ModelSpeed::Slow, TextRole::Passage),
        (ModelSpeed::Slow, TextRole::Query),
        (ModelSpeed::Instant, TextRole::Passage),
        (ModelSpeed::Instant, TextRole::Query),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let profile = Toy::new(pace, ModelLanguages::English).profile().clone();
        let index =
            Tester::new(Some(folder.path()), vec![Arc::new(Panicking { profile, panics_at })]);
        filled(&index);
        let mut answers = (0..1_000_000).map(|_| index.search(&query("car")));
        assert!(answers.any(|hits| hits.pending == 0));
        let hits = index.search(&query("car"));
        assert_eq!((hits.signals, hits.total), (vec!["words".to_owned()], 1));
        index.apply(vec![document("later", "", "delta")]);
        assert_eq!(index.found("delta"), ["later"]);
        let indexed = index.indexed();
        drop(index);
        assert_eq!(Tester::on_disk(folder.path()).indexed(), indexed);
    }
}

#[test]
fn the_thread_behind_outlives_a_model_that_panics() {
    let profile = Toy::new(ModelSpeed::Slow, ModelLanguages::Many).profile().clone();
    let panicking = Arc::new(Panicking { profile, panics_at: TextRole::Passage });
    let slow = Toy::new(ModelSpeed::Slow, ModelLanguages::English);
    let index = Tester::new(None, vec![panicking, slow.clone()]);
    filled(&index);
    let mut answers = (0..1_000_000).map(|_| index.search(&query("car")));
    let hits = answers.find(|hits| hits.pending == 0).unwrap();
    assert_eq!(hits.signals, ["words", "meaning:toy-slow"]);
    assert!(slow.texts() > 0);
}
