//! Compares the real model with vectors that `embed-static/distil.py reference` computed.
//!
//! `REQLORE_TEST_MODEL` is the folder of all-MiniLM-L6-v2; without it these tests are skipped.

use std::path::PathBuf;

use reqlore_domain::ports::embedder::{Embedder, TextRole};
use reqlore_embed_minilm::{LoadError, SentenceModel};

const REFERENCE: &str = include_str!("reference.txt");

#[expect(clippy::disallowed_methods, reason = "the folder of the model comes from the environment")]
fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("REQLORE_TEST_MODEL").map(PathBuf::from);
    if folder.is_none() {
        eprintln!("skipped: REQLORE_TEST_MODEL is not set to the folder of all-minilm-l6-v2");
    }
    folder
}

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[test]
fn vectors_equal_the_reference() {
    let Some(folder) = folder() else { return };
    let model = SentenceModel::open("all-minilm-l6-v2", &folder).unwrap();
    let lines: Vec<&str> = REFERENCE.lines().collect();
    let (texts, vectors): (Vec<&str>, Vec<&str>) =
        lines.chunks_exact(2).map(|pair| (pair[0], pair[1])).unzip();
    let found = model.embed(TextRole::Passage, &texts).unwrap();
    for ((text, expected), found) in texts.iter().zip(vectors).zip(&found) {
        let expected: Vec<f32> = expected.split(' ').map(|x| x.parse().unwrap()).collect();
        let near = cosine(&expected, found);
        assert!(near > 0.9999, "{text}: {near}");
        assert!((cosine(found, found) - 1.0).abs() < 1e-5);
        // The batch makes no difference.
        let alone = model.embed(TextRole::Query, &[text]).unwrap();
        assert!(cosine(&alone[0], found) > 0.99999, "{text}");
    }
}

#[test]
fn unknown_text_is_zero_and_long_text_is_truncated() {
    let Some(folder) = folder() else { return };
    let model = SentenceModel::open("all-minilm-l6-v2", &folder).unwrap();
    let long = "archive ".repeat(100_000);
    let short = "archive ".repeat(400);
    let texts = ["", " \n", "\u{1f600}", &long, &short];
    let found = model.embed(TextRole::Passage, &texts).unwrap();
    for nothing in &found[..3] {
        assert_eq!(*nothing, vec![0.0; model.profile().dimension]);
    }
    assert_eq!(found[3], found[4]);
}

#[test]
fn missing_file_and_unknown_name_are_reported() {
    let nowhere = PathBuf::from("no-such-folder");
    let Err(LoadError::Read { path, .. }) = SentenceModel::open("all-minilm-l6-v2", &nowhere)
    else {
        panic!("it must not load");
    };
    assert!(path.contains("tokenizer.json"), "{path}");
    let unknown = SentenceModel::open("minilm", &nowhere).unwrap_err().to_string();
    assert!(unknown.contains("all-minilm-l6-v2, multilingual-e5-small"), "{unknown}");
}
