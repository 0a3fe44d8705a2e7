//! The rejected words of docs/glossary.md: each file may hold as many as `banned_words.txt` allows.
//!
//! The counts only fall. `UPDATE_EXPECT=1` lowers them to the present state and raises none.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Command;

use crate::repository;

const COUNTS: &str = "tests/banned_words.txt";
/// Pages that name the words in order to reject them.
const EXEMPT: [&str; 3] = ["CONTRIBUTING.md", "docs/glossary.md", "tests/it/language.rs"];

/// In lower case, as whole words, separated by commas.
const PHRASES: &str = "again and again,anew,counts no more,is no address,is no file,is no folder,\
    is no link,is no text,mend,mended,mending,mends,nobody,shall,so many,somebody,the trap,\
    the traps,trap:,vouch,vouched,vouches,vouching,what comes,what goes,what stands,what stood,\
    whatever,whoever,whomever,whose word";
/// First words of a comment, in lower case.
const OPENINGS: [&str; 6] = ["how far ", "what ", "where ", "whether ", "who ", "whom "];
const CONSTANTS: [&str; 6] = ["ENOUGH", "FEW", "LOOK", "MANY", "MOST", "PATIENCE"];

fn is_test(path: &str) -> bool {
    ["tests/", "benches/", "fuzz/"]
        .iter()
        .any(|dir| path.starts_with(dir) || path.contains("/tests/"))
        || path.ends_with("tests.rs")
}

/// The phrases of one line.
fn banned(path: &str, line: &str) -> Vec<String> {
    let lower = line.to_lowercase();
    let is_edge = |c: Option<char>| !c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let mut found = Vec::new();
    for phrase in PHRASES.split(',') {
        for (at, _) in lower.match_indices(phrase) {
            let after = lower[at + phrase.len()..].chars().next();
            if is_edge(lower[..at].chars().next_back()) && is_edge(after) {
                found.push(phrase.to_owned());
            }
        }
    }
    if extension(path) != "rs" {
        return found;
    }
    let comment =
        lower.trim_start().strip_prefix("//").map(|text| text.trim_start_matches(['/', '!', ' ']));
    let opening =
        comment.and_then(|text| OPENINGS.iter().find(|opening| text.starts_with(**opening)));
    found.extend(opening.map(|opening| format!("a comment that begins with {opening:?}")));
    let constant = CONSTANTS.iter().find(|name| line.contains(&format!("const {name}:")));
    found.extend(constant.map(|name| format!("const {name}")));
    if !is_test(path) && cites_private_document(line) {
        found.push("a reference to a document outside the repository".to_owned());
    }
    found
}

fn extension(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or_default()
}

/// `rulings 3`, `catalogue 12`, `S5 7.5`, `S1 T.3.1`.
fn cites_private_document(line: &str) -> bool {
    let words: Vec<&str> = line.split(|c: char| c.is_whitespace() || "(),;".contains(c)).collect();
    words.windows(2).any(|pair| {
        let is_spec = pair[0].len() == 2
            && pair[0].starts_with('S')
            && pair[0].ends_with(['1', '2', '3', '4', '5']);
        let is_numbered = pair[1].starts_with(|c: char| c.is_ascii_digit());
        let is_section =
            pair[1].split('.').skip(1).any(|part| part.starts_with(|c: char| c.is_ascii_digit()));
        let is_list = ["rulings", "ruling", "catalogue"].contains(&pair[0].to_lowercase().as_str());
        (is_spec && is_section) || (is_list && is_numbered)
    })
}

#[test]
#[expect(clippy::disallowed_methods, reason = "tests have no configuration to read it from")]
fn banned_words_become_fewer() {
    let tracked = Command::new("git").arg("ls-files").current_dir(repository()).output().unwrap();
    let tracked = String::from_utf8(tracked.stdout).unwrap();
    let counts = std::fs::read_to_string(repository().join(COUNTS)).unwrap_or_default();
    let allowed: BTreeMap<&str, usize> = counts
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(count, path)| (path, count.parse().unwrap()))
        .collect();
    let (mut lowered, mut excess) = (String::new(), String::new());
    for path in tracked.lines() {
        let is_text = ["rs", "md", "toml"].contains(&extension(path));
        if !is_text || EXEMPT.contains(&path) || path.starts_with("tests/fixtures/") {
            continue;
        }
        // A file that is deleted and not yet committed.
        let Ok(text) = std::fs::read_to_string(repository().join(path)) else { continue };
        let lines = text.lines().enumerate();
        let found: Vec<(usize, String)> = lines
            .flat_map(|(at, line)| banned(path, line).into_iter().map(move |word| (at + 1, word)))
            .collect();
        let most = allowed.get(path).copied().unwrap_or_default();
        let count = if counts.is_empty() { found.len() } else { found.len().min(most) };
        if count > 0 {
            writeln!(lowered, "{count} {path}").unwrap();
        }
        if found.len() > most {
            writeln!(
                excess,
                "{path} holds {} banned phrases, at most {most} are allowed:",
                found.len()
            )
            .unwrap();
            for (line, word) in found {
                writeln!(excess, "  {path}:{line}: {word}").unwrap();
            }
        }
    }
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(repository().join(COUNTS), lowered).unwrap();
    }
    assert!(excess.is_empty(), "{excess}See docs/glossary.md for the words to write instead.");
}
