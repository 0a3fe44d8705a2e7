//! Edits of others' files: what each looks like afterwards, and what holds for any file.
//!
//! The expected texts are written by `UPDATE_EXPECT=1`; look at the difference before it is kept.

#![expect(clippy::expect_used, clippy::panic, reason = "a test that can't go on fails")]

mod any_json;
mod any_toml;
mod block;
mod cases;
mod trace;

use proptest::test_runner::Config as ProptestConfig;
use reqlore_client_config::edit::{self, Entry, Format, Slot};
use reqlore_client_config::{Trace, Unreadable};
use serde_json::{Map, Value, json};

const JSON: Slot = Slot { format: Format::Json, path: &["mcpServers"] };
const TOML: Slot = Slot { format: Format::Toml, path: &["mcp_servers"] };

fn command() -> Entry {
    entry(json!({"command": "reqlore", "args": ["serve", "--root", "/a b"]}), &["url"])
}

fn url() -> Entry {
    let set =
        json!({"url": "https://example.org/mcp", "headers": {"Authorization": "Bearer ${T}"}});
    entry(set, &["command", "args"])
}

fn entry(set: Value, drop: &'static [&'static str]) -> Entry {
    let Value::Object(set) = set else { panic!("an entry is an object") };
    Entry { set, drop }
}

/// Puts the entry in, and sees that all that has to hold for any file holds for this one.
fn put(text: &str, slot: Slot, entry: &Entry) -> String {
    let put = edit::put(text, slot, entry).expect("a file that can be edited");
    let mut expected = match edit::find(text, slot).expect("a file that can be read") {
        Some(Value::Object(there)) => there,
        _ => Map::new(),
    };
    expected.retain(|key, _| !entry.drop.contains(&key.as_str()));
    expected.extend(entry.set.clone());
    // TOML has no null.
    expected.retain(|_, value| slot == JSON || !value.is_null());
    let found = edit::find(&put, slot).expect("the edited file can be read");
    assert_eq!(found, Some(Value::Object(expected)), "what was put in is found\n{text}\n{put}");
    let again = edit::put(&put, slot, entry).expect("the edited file can be edited");
    assert_eq!(again, put, "nothing changes the second time\n{text}");
    if put != text {
        let undone = Trace::between(text, &put).undo(&put);
        assert_eq!(undone.as_deref(), Some(text), "an edit is undone to the byte\n{put}");
    }
    put
}

fn take(text: &str, slot: Slot) -> String {
    let taken = edit::take(text, slot).expect("a file that can be edited");
    assert_eq!(edit::find(&taken, slot), Ok(None), "what was taken out is gone\n{text}");
    taken
}

fn refusal(text: &str, slot: Slot) -> String {
    let refused = edit::put(text, slot, &command()).expect_err("a file that can't be edited");
    assert_eq!(edit::find(text, slot), Err(refused.clone()), "each asks the same of a file");
    assert_eq!(edit::take(text, slot), Err(refused.clone()));
    let Unreadable(refused) = refused;
    refused
}

/// A message in short lines.
fn in_lines(message: &str) -> String {
    let breaks = [(": ", ":\n"), ("; ", ";\n"), (", then", ",\nthen")];
    breaks.iter().fold(message.to_owned(), |text, (from, to)| text.replace(from, to)) + "\n"
}

/// No file of failures: what was found once becomes a test by hand.
fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// Everything that isn't white space.
fn ink(text: &str) -> String {
    text.chars().filter(|sign| !sign.is_whitespace()).collect()
}
