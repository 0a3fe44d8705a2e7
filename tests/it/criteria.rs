//! Every criterion of the implemented specifications is named by a test.
//!
//! Tests and npm checks name criteria in a comment above the function, `// S1: S.3.3, R.2`.
//! Transcripts name them in a note that begins with `S1`. The headings T.3, G.3, S.3 and D.3 of S1
//! are not criteria. The criteria of S3 are numbered from 1 within their requirement.

use std::collections::BTreeSet;
use std::fs::read_to_string;
use std::path::PathBuf;

use crate::repository;
use crate::tidy::rust_sources;

const CRITERIA: [(&str, &str); 5] = [
    (
        "S1",
        "R.1 R.2 P.1 P.2 C.1 C.2 C.3 T.1 T.2 T.3.1 T.3.2 T.3.3 T.3.4 T.3.5 \
         G.1 G.2 G.3.1 G.3.2 G.3.3 G.3.4 S.1 S.2 S.3.1 S.3.2 S.3.3 S.3.4 S.3.5 S.3.6 \
         D.1 D.2 D.3.1 D.3.2 D.3.3 D.3.4 D.3.5",
    ),
    ("S2", "1.1 1.2 1.3 1.4 1.5 1.6 1.7 1.8 1.9 2.1 2.2 3.1 3.2 3.3 4.1 4.2"),
    (
        "S3",
        "REQ-1.1 REQ-1.2 REQ-1.3 REQ-1.4 REQ-1.5 REQ-2.1 REQ-2.2 REQ-2.3 REQ-2.4 \
         REQ-3.1 REQ-3.2 REQ-3.3 REQ-3.4 REQ-3.5 REQ-4.1 REQ-4.2 REQ-4.3 REQ-4.4 REQ-4.5 \
         REQ-5.1 REQ-5.2 REQ-5.3 REQ-5.4 REQ-6.1 REQ-6.2 REQ-6.3 REQ-6.4 REQ-6.5 \
         REQ-7.1 REQ-7.2 REQ-7.3 REQ-7.4 REQ-7.5 REQ-8.1 REQ-8.2 REQ-8.3 REQ-8.4 REQ-8.5 \
         REQ-9.1 REQ-9.2 REQ-9.3 REQ-9.4 REQ-9.5 \
         REQ-10.1 REQ-10.2 REQ-10.3 REQ-10.4 REQ-10.5",
    ),
    (
        "S4",
        "AC-001.1 AC-001.2 AC-001.3 AC-002.1 AC-002.2 AC-002.3 AC-002.4 AC-002.5 \
         AC-003.1 AC-003.2 AC-004.1 AC-004.2 AC-004.3",
    ),
    (
        "S5",
        "1.1 1.2 1.3 1.4 1.5 1.6 1.7 1.8 1.9 1.10 1.11 \
         2.1 2.2 2.3 2.4 2.5 2.6 2.7 2.8 2.9 2.10 3.1 3.2 3.3 3.4 3.5 3.6 3.7 3.8 3.9 \
         4.1 4.2 4.3 4.4 4.5 4.6 4.7 4.8 5.1 5.2 5.3 5.4 5.5 5.6 5.7 5.8 5.9 \
         6.1 6.2 6.3 6.4 6.5 6.6 6.7 6.8 7.1 7.2 7.3 7.4 7.5 7.6 7.7 7.8 7.9 \
         8.1 8.2 8.3 8.4 8.5 8.6 8.7 8.8",
    ),
];

fn criteria(specification: &str) -> BTreeSet<String> {
    let (_, ids) = CRITERIA.iter().find(|(name, _)| *name == specification).unwrap();
    ids.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn criteria_each_has_a_test() {
    for (specification, _) in CRITERIA {
        let covered = covered_criteria(specification);
        let missing: Vec<_> = criteria(specification).difference(&covered).cloned().collect();
        assert!(missing.is_empty(), "no test names {missing:?} of {specification}");
    }
}

fn covered_criteria(specification: &str) -> BTreeSet<String> {
    let mut covered = BTreeSet::new();
    for (path, source) in rust_sources().into_iter().chain(npm_checks()) {
        let lines: Vec<&str> = source.lines().map(str::trim).collect();
        for (index, line) in lines.iter().enumerate() {
            if let Some(ids) = line.strip_prefix(&format!("// {specification}: ")) {
                // A test may name criteria of several specifications, one per line.
                let next_code = lines[index..].iter().find(|line| !line.starts_with("// "));
                let is_test = next_code.is_some_and(|line| is_test(line));
                assert!(is_test, "{path}: {ids} is not above a test");
                covered.extend(parse_ids(specification, &path, ids));
            }
        }
    }
    for entry in std::fs::read_dir(repository().join("tests/transcripts")).unwrap() {
        let path = entry.unwrap().path();
        for line in read_to_string(&path).unwrap().lines() {
            if let Some(note) = line.strip_prefix(&format!("{{\"note\":\"{specification} ")) {
                let ids = note.split(':').next().unwrap_or_default();
                covered.extend(parse_ids(specification, &path.to_string_lossy(), ids));
            }
        }
    }
    covered
}

/// The scripts of the npm check, with their text.
fn npm_checks() -> Vec<(String, String)> {
    let files = std::fs::read_dir(repository().join("tests/npm")).unwrap();
    let paths = files.map(|entry| entry.unwrap().path());
    let scripts = paths.filter(|path| path.extension().is_some_and(|end| end == "mjs"));
    let read = |path: PathBuf| (path.display().to_string(), read_to_string(&path).unwrap());
    scripts.map(read).collect()
}

fn is_test(line: &str) -> bool {
    ["#[test]", "#[tokio::test", "async function"].iter().any(|begin| line.starts_with(begin))
}

/// Parses the criteria of a list such as `S.3.3, R.2; catalogue 26`.
fn parse_ids(specification: &str, path: &str, ids: &str) -> BTreeSet<String> {
    let known_criteria = criteria(specification);
    let words = ids.split([',', ';', ' ']).filter(|word| word.contains('.'));
    let named: BTreeSet<String> = words.map(|word| word.trim().to_owned()).collect();
    let unknown: Vec<_> = named.difference(&known_criteria).collect();
    assert!(unknown.is_empty(), "{path}: {unknown:?} are not criteria");
    named
}

/// The text of a specification, if it is available next to the repository.
fn read_specification(file: &str) -> Option<String> {
    let source = read_to_string(repository().join("../shared/spec").join(file)).ok();
    if source.is_none() {
        println!("the specification is not next to the repository; nothing to compare with");
    }
    source
}

#[test]
fn criteria_list_matches_the_specifications() {
    for (name, file, criteria_of) in [
        ("S1", "1-requirement-sections.md", section_criteria as fn(&str) -> BTreeSet<String>),
        ("S2", "2-user-story-requirements.md", numbered_criteria),
        ("S3", "3-docsets.md", counted_criteria),
        ("S4", "4-knowledge-graph.md", table_criteria),
        ("S5", "5-json-rpc-api.md", numbered_criteria),
    ] {
        let Some(source) = read_specification(file) else { return };
        assert_eq!(criteria_of(&source), criteria(name), "{name}");
    }
}

fn section_criteria(source: &str) -> BTreeSet<String> {
    let section = reqlore_domain::sections::Section::parse(source);
    let headings = ["T.3", "G.3", "S.3", "D.3"];
    let ids = section.requirements().iter().map(|requirement| requirement.index.to_owned());
    ids.filter(|id| !headings.contains(&id.as_str())).collect()
}

/// Numbers the list items below each heading from 1.
fn counted_criteria(source: &str) -> BTreeSet<String> {
    let mut criteria = BTreeSet::new();
    let (mut requirement, mut count) = ("", 0);
    let (_, document) = source.split_once("# Requirements Document").unwrap();
    for line in document.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            requirement = heading.split(':').next().unwrap();
            count = 0;
        } else if line.starts_with("- ") {
            count += 1;
            criteria.insert(format!("{requirement}.{count}"));
        }
    }
    criteria
}

/// The criteria in the first column of the tables.
fn table_criteria(source: &str) -> BTreeSet<String> {
    let rows = source.lines().filter_map(|line| line.strip_prefix("| AC-"));
    let ids = rows.filter_map(|row| row.split_whitespace().next());
    ids.map(|id| format!("AC-{id}")).collect()
}

/// The numbered criteria of a specification: `### Requirement 6`, below it `4. WHEN …`.
fn numbered_criteria(source: &str) -> BTreeSet<String> {
    let mut criteria = BTreeSet::new();
    let mut requirement = "";
    for line in source.lines() {
        if let Some(heading) = line.strip_prefix("### Requirement ") {
            requirement = heading.split(':').next().unwrap().trim();
        } else if let Some((number, _)) = line.split_once(". ")
            && number.parse::<u32>().is_ok()
        {
            criteria.insert(format!("{requirement}.{number}"));
        }
    }
    criteria
}
