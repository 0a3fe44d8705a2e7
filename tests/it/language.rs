//! Rejects the words, names and comment forms that docs/glossary.md replaces, in sources and pages.

use std::fmt::Write as _;
use std::process::Command;

use crate::repository;

/// Rejected phrases, in lower case and as whole words, and their replacements.
const PHRASES: [(&str, &str); 28] = [
    ("again and again", "repeatedly"),
    ("anew", "again, or from the start"),
    ("beside", "next to, or during"),
    ("counts no more", "is no longer valid"),
    ("is no address", "is not an address"),
    ("is no file", "is not a file"),
    ("is no folder", "is not a folder"),
    ("is no link", "is not a link"),
    ("is no text", "is not text"),
    ("mend", "fix, or repair"),
    ("mended", "fixed, or repaired"),
    ("mending", "fixing, or repairing"),
    ("mends", "fixes, or repairs"),
    ("nobody", "the actor: caller, client, server, user, process, editor"),
    ("so many", "at most N"),
    ("somebody", "the actor: caller, client, server, user, process, editor"),
    ("the trap", "the rule or invariant itself"),
    ("told", "notified, reported, or passed"),
    ("trap:", "the rule or invariant itself"),
    ("vouch", "guarantee, or \"is valid\""),
    ("vouched", "guaranteed, or \"is valid\""),
    ("vouches", "guarantees, or \"is valid\""),
    ("what comes", "the noun"),
    ("what goes", "the noun"),
    ("what stands", "the noun"),
    ("whatever", "any, or the thing itself"),
    ("whoever", "the actor: caller, client, server, user, process, editor"),
    ("whom", "the actor: caller, client, server, user, process, editor"),
];
/// Rejected words of product sources, and their replacements. Tests inject faults.
const PRODUCT_WORDS: [(&str, &str); 4] = [
    ("fault", "diagnostic, or error"),
    ("faults", "diagnostics, or errors"),
    ("replies", "answers"),
    ("reply", "answer"),
];
/// First words of a comment, in lower case. A comment begins with the thing or with a verb.
const OPENINGS: [&str; 6] = ["how far ", "what ", "where ", "whether ", "who ", "whose "];
const CONSTANTS: [&str; 7] = ["ENOUGH", "FEW", "LOOK", "MANY", "MOST", "PATIENCE", "SOME"];
/// Participles that do not end in "ed".
const PARTICIPLES: [&str; 22] = [
    "Begun", "Bound", "Broken", "Caught", "Done", "Found", "Given", "Gone", "Held", "Kept",
    "Known", "Left", "Lost", "Made", "Met", "Put", "Read", "Seen", "Shown", "Taken", "Told",
    "Written",
];
const MAX_TEST_NAME: usize = 60;

#[test]
fn sources_and_pages_use_the_glossary() {
    let mut problems = String::new();
    for (path, text) in tracked_texts() {
        for (index, line) in text.lines().enumerate() {
            let mut found = rejected_phrases(line, &PHRASES);
            if extension(&path) == "rs" {
                if !is_test(&path) {
                    found.extend(rejected_phrases(line, &PRODUCT_WORDS));
                }
                found.extend(rejected_rust(line, is_test(&path)));
            }
            for problem in found {
                writeln!(problems, "{path}:{}: {problem}", index + 1).unwrap();
            }
        }
    }
    assert!(problems.is_empty(), "{problems}docs/glossary.md has the words of this project.");
}

#[test]
fn test_names_are_at_most_60_characters() {
    let mut problems = String::new();
    for (path, text) in tracked_texts() {
        for test in text.split("test]\n").skip(1).filter(|_| extension(&path) == "rs") {
            let name = test.split_once("fn ").and_then(|(_, rest)| rest.split('(').next());
            if name.is_some_and(|name| name.len() > MAX_TEST_NAME) {
                writeln!(problems, "{path}: {}", name.unwrap_or_default()).unwrap();
            }
        }
    }
    assert!(problems.is_empty(), "{problems}");
}

/// Sources and pages that Git tracks. Fixtures are data, and this file holds the rejected words.
fn tracked_texts() -> Vec<(String, String)> {
    let listed = Command::new("git").arg("ls-files").current_dir(repository()).output().unwrap();
    let mut texts = Vec::new();
    for path in String::from_utf8(listed.stdout).unwrap().lines() {
        let is_text = ["rs", "md", "toml", "py", "yml"].contains(&extension(path));
        if !is_text || path.starts_with("tests/fixtures/") || path == "tests/it/language.rs" {
            continue;
        }
        // A deleted file is tracked until the next commit.
        if let Ok(text) = std::fs::read_to_string(repository().join(path)) {
            texts.push((path.to_owned(), text));
        }
    }
    texts
}

fn extension(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or_default()
}

fn is_test(path: &str) -> bool {
    let folders = ["tests/", "benches/", "fuzz/"];
    path.ends_with("tests.rs")
        || folders.iter().any(|dir| path.starts_with(dir) || path.contains(&format!("/{dir}")))
}

fn rejected_phrases(line: &str, phrases: &[(&str, &str)]) -> Vec<String> {
    let lower = line.to_lowercase();
    let mut found = Vec::new();
    for (phrase, replacement) in phrases {
        for (start, _) in lower.match_indices(phrase) {
            let before = lower[..start].chars().next_back();
            let after = lower[start + phrase.len()..].chars().next();
            if !before.is_some_and(is_word_character) && !after.is_some_and(is_word_character) {
                found.push(format!("{phrase:?}; write {replacement}"));
            }
        }
    }
    found
}

fn is_word_character(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

fn rejected_rust(line: &str, is_test: bool) -> Vec<String> {
    let mut found = Vec::new();
    let trimmed = line.trim_start();
    if let Some(comment) = trimmed.strip_prefix("//") {
        let comment = comment.trim_start_matches(['/', '!', ' ']).to_lowercase();
        if let Some(opening) = OPENINGS.iter().find(|opening| comment.starts_with(**opening)) {
            found.push(format!("a comment that begins with {opening:?}; begin with the noun"));
        }
    }
    if let Some(name) = CONSTANTS.iter().find(|name| line.contains(&format!("const {name}:"))) {
        found.push(format!("const {name}; name the thing"));
    }
    let mut words = trimmed
        .split(|c: char| !is_word_character(c))
        .skip_while(|word| ["", "pub", "crate", "super", "in"].contains(word));
    if let (Some("struct" | "enum" | "trait"), Some(name)) = (words.next(), words.next()) {
        let is_one_word = name.chars().filter(char::is_ascii_uppercase).count() == 1;
        if is_one_word && (name.ends_with("ed") || PARTICIPLES.contains(&name)) {
            found.push(format!("type {name}; name the thing"));
        }
    }
    if !is_test && cites_private_document(line) {
        found.push("a reference to a document outside the repository; state the rule".to_owned());
    }
    found
}

/// `rulings 3`, `catalogue 12`, `S5 7.5`, `S1 T.3.1`.
fn cites_private_document(line: &str) -> bool {
    let words: Vec<&str> = line.split(|c: char| c.is_whitespace() || "(),;".contains(c)).collect();
    words.windows(2).any(|pair| {
        let is_spec = matches!(pair[0], "S1" | "S2" | "S3" | "S4" | "S5");
        let is_numbered = pair[1].starts_with(|c: char| c.is_ascii_digit());
        let mut parts = pair[1].split('.').skip(1);
        let is_section = parts.any(|part| part.starts_with(|c: char| c.is_ascii_digit()));
        let is_list = ["rulings", "ruling", "catalogue"].contains(&pair[0].to_lowercase().as_str());
        (is_spec && is_section) || (is_list && is_numbered)
    })
}
