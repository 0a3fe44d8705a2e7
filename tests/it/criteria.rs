//! Every criterion of specification 1 is named by a test that proves it.
//!
//! A test names its criteria in a comment right above its attribute, `// S1: S.3.3, R.2`; a
//! transcript in a note that begins with `S1`. The headings T.3, G.3, S.3 and D.3 only introduce
//! the criteria below them.

use std::collections::BTreeSet;
use std::path::Path;

use crate::repository;
use crate::tidy::sources;

const CRITERIA: &str = "\
R.1 R.2 P.1 P.2 C.1 C.2 C.3 \
T.1 T.2 T.3.1 T.3.2 T.3.3 T.3.4 T.3.5 \
G.1 G.2 G.3.1 G.3.2 G.3.3 G.3.4 \
S.1 S.2 S.3.1 S.3.2 S.3.3 S.3.4 S.3.5 S.3.6 \
D.1 D.2 D.3.1 D.3.2 D.3.3 D.3.4 D.3.5";

fn criteria() -> BTreeSet<String> {
    CRITERIA.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn every_criterion_is_covered_by_a_test() {
    let mut covered = BTreeSet::new();
    for (path, source) in sources() {
        let lines: Vec<&str> = source.lines().map(str::trim).collect();
        for pair in lines.windows(2) {
            if let Some(ids) = pair[0].strip_prefix("// S1: ") {
                assert!(is_test(pair[1]), "{path}: {ids} stands above no test");
                covered.extend(named(&path, ids));
            }
        }
    }
    for entry in std::fs::read_dir(repository().join("tests/transcripts")).unwrap() {
        let path = entry.unwrap().path();
        for line in std::fs::read_to_string(&path).unwrap().lines() {
            if let Some(note) = line.strip_prefix("{\"note\":\"S1 ") {
                let ids = note.split(':').next().unwrap_or_default();
                covered.extend(named(&path.to_string_lossy(), ids));
            }
        }
    }
    let missing: Vec<_> = criteria().difference(&covered).cloned().collect();
    assert!(missing.is_empty(), "no test names {missing:?}");
}

fn is_test(line: &str) -> bool {
    line.starts_with("#[test]") || line.starts_with("#[tokio::test")
}

/// The criteria in a list such as `S.3.3, R.2; catalogue 26`.
fn named(place: &str, ids: &str) -> BTreeSet<String> {
    let all = criteria();
    let words = ids.split([',', ';', ' ']).filter(|word| word.contains('.'));
    let found: BTreeSet<String> = words.map(|word| word.trim().to_owned()).collect();
    let unknown: Vec<_> = found.difference(&all).collect();
    assert!(unknown.is_empty(), "{place} names {unknown:?}, which is no criterion");
    found
}

/// Where the specification lies beside the repository, the list above is compared with it.
#[test]
fn the_list_of_criteria_is_that_of_the_specification() {
    let path = repository().join("../shared/spec/1-requirement-sections.md");
    if !Path::new(&path).is_file() {
        println!("the specification is not beside the repository; nothing to compare with");
        return;
    }
    let source = std::fs::read_to_string(path).unwrap();
    let section = reqlore_domain::sections::Section::of(&source);
    let headings = ["T.3", "G.3", "S.3", "D.3"];
    let ids = section.requirements().iter().map(|requirement| requirement.index.to_owned());
    let found: BTreeSet<String> = ids.filter(|id| !headings.contains(&id.as_str())).collect();
    assert_eq!(found, criteria());
}
