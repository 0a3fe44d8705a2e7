//! Updating the section list of any AGENTS.md is idempotent and changes only the list.
//!
//! Input: `keys NUL file`, one key per line, optionally followed by `=` and a title.

#![no_main]

use libfuzzer_sys::fuzz_target;
use reqlore_domain::sections::instructions::{SectionTitles, listed, update_section_list};
use reqlore_domain::sections::requirement_index::SectionKey;

const BOM: char = '\u{feff}';
const NONE_DEFINED: &str = "No sections defined yet.";

fuzz_target!(|data: &[u8]| {
    let Ok(text) = str::from_utf8(data) else { return };
    let (keys, source) = text.split_once('\0').unwrap_or(("", text));
    let titles: SectionTitles = keys.lines().filter_map(titled_key).collect();
    let _ = listed(source);
    let edited = update_section_list(source, &titles).body.unwrap_or_else(|| source.to_owned());
    // With mixed line ends, the edit may change which line end is most frequent.
    let repeated = update_section_list(&edited, &titles).body.unwrap_or_else(|| edited.clone());
    assert_eq!(
        with_unix_line_ends(&repeated),
        with_unix_line_ends(&edited),
        "a correct list is unchanged"
    );
    assert_only_the_list_changed(source, &edited);
    let is_listed_key = |key: &&String| SectionKey::try_from((*key).clone()).is_ok_and(is_new);
    let expected: Vec<&String> = titles.keys().filter(is_listed_key).collect();
    let listed = listed(&edited);
    // A page whose list is inside an unclosed fence is left unchanged.
    assert!(edited == source || !listed.is_empty() || expected.is_empty(), "{edited:?}");
    if listed.is_empty() {
        return;
    }
    assert!(expected.iter().all(|key| listed.contains_key(*key)), "{edited:?}");
});

fn titled_key(line: &str) -> Option<(String, Option<String>)> {
    let (key, title) = line.split_once('=').unwrap_or((line, ""));
    let key = SectionKey::try_from(key.to_owned()).ok()?;
    let title = title.trim();
    Some((key.as_str().to_owned(), (!title.is_empty()).then(|| title.to_owned())))
}

fn is_new(key: SectionKey) -> bool {
    key.check_new().is_ok()
}

/// Asserts that every line except those of the list is still there, in its order.
fn assert_only_the_list_changed(before: &str, after: &str) {
    assert_eq!(before.starts_with(BOM), after.starts_with(BOM));
    let mut kept = after.split(['\n', '\r']);
    for line in before.split(['\n', '\r']) {
        let is_list = line.contains("(key:") || line.trim() == NONE_DEFINED;
        let is_kept = is_list || kept.any(|other| other == line);
        assert!(is_kept, "lost {line:?}\nbefore {before:?}\nafter {after:?}");
    }
}

fn with_unix_line_ends(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}
