//! Edits of clients' files: reviewed cases, and properties of random files.
//!
//! The expected texts are written by `UPDATE_EXPECT=1`; review the difference.

#![expect(clippy::expect_used, clippy::panic, reason = "a test that can't go on fails")]

mod any_json;
mod any_toml;
mod block;
mod cases;
mod undo;

use proptest::test_runner::Config as ProptestConfig;
use reqlore_client_config::edit::{self, ConfigFormat, EntryEdit, EntrySlot};
use reqlore_client_config::{ConfigError, UndoPatch};
use serde_json::{Map, Value, json};

const JSON: EntrySlot = EntrySlot { format: ConfigFormat::Json, path: &["mcpServers"] };
const TOML: EntrySlot = EntrySlot { format: ConfigFormat::Toml, path: &["mcp_servers"] };

fn command() -> EntryEdit {
    entry(json!({"command": "reqlore", "args": ["serve", "--root", "/a b"]}), &["url"])
}

fn url() -> EntryEdit {
    let set =
        json!({"url": "https://example.org/mcp", "headers": {"Authorization": "Bearer ${T}"}});
    entry(set, &["command", "args"])
}

fn entry(set: Value, drop: &'static [&'static str]) -> EntryEdit {
    let Value::Object(set) = set else { panic!("an entry is an object") };
    EntryEdit { set, drop }
}

/// Adds the entry, and checks the properties that hold for any file.
fn put(text: &str, slot: EntrySlot, entry: &EntryEdit) -> String {
    let put = edit::put_entry(text, slot, entry).expect("a file that can be edited");
    let mut expected = match edit::find_entry(text, slot).expect("a file that can be read") {
        Some(Value::Object(there)) => there,
        _ => Map::new(),
    };
    expected.retain(|key, _| !entry.drop.contains(&key.as_str()));
    expected.extend(entry.set.clone());
    // TOML has no null.
    expected.retain(|_, value| slot == JSON || !value.is_null());
    let found = edit::find_entry(&put, slot).expect("the edited file can be read");
    assert_eq!(found, Some(Value::Object(expected)), "the entry is found\n{text}\n{put}");
    let again = edit::put_entry(&put, slot, entry).expect("the edited file can be edited");
    assert_eq!(again, put, "nothing changes the second time\n{text}");
    if put != text {
        let undone = UndoPatch::between(text, &put).undo(&put);
        assert_eq!(undone.as_deref(), Some(text), "an edit is undone to the byte\n{put}");
    }
    put
}

fn take(text: &str, slot: EntrySlot) -> String {
    let taken = edit::remove_entry(text, slot).expect("a file that can be edited");
    assert_eq!(edit::find_entry(&taken, slot), Ok(None), "the entry is removed\n{text}");
    taken
}

fn rejection(text: &str, slot: EntrySlot) -> String {
    let rejected =
        edit::put_entry(text, slot, &command()).expect_err("a file that can't be edited");
    assert_eq!(
        edit::find_entry(text, slot),
        Err(rejected.clone()),
        "all functions reject the same files"
    );
    assert_eq!(edit::remove_entry(text, slot), Err(rejected.clone()));
    let ConfigError(rejected) = rejected;
    rejected
}

/// The message, split into short lines.
fn in_lines(message: &str) -> String {
    let breaks = [(": ", ":\n"), ("; ", ";\n"), (", then", ",\nthen")];
    breaks.iter().fold(message.to_owned(), |text, (from, to)| text.replace(from, to)) + "\n"
}

/// Without a failure file: each failure becomes a reviewed case instead.
fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// The text without white space.
fn without_space(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

/// Checks that two edits and the removal keep all other values, and that the second can be undone.
fn check_other_values_stay(text: &str, slot: EntrySlot, others: impl Fn(&str) -> String) {
    let first = put(text, slot, &command());
    let second = put(&first, slot, &url());
    let taken = take(&second, slot);
    for after in [&first, &second, &taken] {
        assert_eq!(others(after), others(text), "{after}");
    }
    let undone = UndoPatch::between(&first, &second).undo(&second);
    assert_eq!(undone.as_ref(), Some(&first));
}

/// Adds and removes an entry, and checks that no other character is lost. Returns the text without
/// the entry.
fn check_characters_stay(text: &str, slot: EntrySlot) -> String {
    let without = take(text, slot);
    let with = put(&without, slot, &command());
    assert_eq!(text.ends_with('\n') || slot == TOML, with.ends_with('\n') || slot == TOML);
    let mut rest = without_space(&with).into_bytes().into_iter();
    assert!(without_space(&without).bytes().all(|byte| rest.any(|other| other == byte)), "{with}");
    let is_windows = text.contains("\r\n") && without.contains("\r\n");
    assert!(!is_windows || !with.replace("\r\n", "").contains('\n'), "{with:?}");
    without
}

/// Checks that a damaged text is edited like a valid one, or rejected.
fn check_damaged(
    text: &str,
    damage: (usize, usize, &str),
    slot: EntrySlot,
    others: impl Fn(&str) -> String,
) {
    let (at, length, signs) = damage;
    let mut damaged: Vec<char> = text.chars().collect();
    let at = at % (damaged.len() + 1);
    damaged.splice(at..(at + length).min(damaged.len()), signs.chars());
    let damaged: String = damaged.into_iter().collect();
    match edit::put_entry(&damaged, slot, &command()) {
        Ok(_) => assert_eq!(others(&put(&damaged, slot, &command())), others(&damaged)),
        Err(rejected) => assert!(rejected.to_string().ends_with("again"), "{rejected}"),
    }
    if let Ok(taken) = edit::remove_entry(&damaged, slot) {
        assert_eq!(others(&taken), others(&damaged));
    }
}
