//! One entry in a file of others: found, put in, taken out.
//!
//! All other bytes stay: comments, order, line ends, a BOM, trailing commas. What can't be read is
//! refused, since an edit of a file that the client itself can't read would hide the mistake. A
//! text is read again after each small change, since one change moves the places of all others.

pub mod block;
mod json;
mod text;
mod toml;

use serde_json::{Map, Value};

/// The name under which Reqlore stands in each client's list of servers.
pub const NAME: &str = "reqlore";

/// Claude Code keeps its histories beside its servers, so a file may be large; but not like this.
const MOST_BYTES: usize = 16 * 1024 * 1024;

/// The language of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// JSON, with comments and trailing commas where they are.
    Json,
    Toml,
}

/// Which entry of which file: `path` leads to the map of servers, in which [`NAME`] is ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    pub format: Format,
    pub path: &'static [&'static str],
}

/// What shall stand there. Keys of an entry that is there already and that neither list names
/// (`env`, `disabled`, `timeout`) are its owner's and stay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub set: Map<String, Value>,
    /// Keys that would contradict what is set, as `url` does beside `command`.
    pub drop: &'static [&'static str],
}

/// Why a file can't be edited: what is wrong, where, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(pub String);

impl Unreadable {
    fn at(text: &str, place: usize, what: &str) -> Self {
        Self(format!("{}: {what}", text::place(text, place)))
    }
}

/// What stands there now.
pub fn find(text: &str, slot: Slot) -> Result<Option<Value>, Unreadable> {
    let (_, body) = opened(text)?;
    match slot.format {
        Format::Json => json::find(body, slot.path),
        Format::Toml => toml::find(body, slot.path),
    }
}

/// The text with the entry as it shall be; the same text where it is so already. An empty text
/// becomes a whole file.
pub fn put(text: &str, slot: Slot, entry: &Entry) -> Result<String, Unreadable> {
    let (bom, body) = opened(text)?;
    let edited = match slot.format {
        Format::Json => json::put(body, slot.path, entry)?,
        Format::Toml => toml::put(body, slot.path, entry)?,
    };
    let edited = format!("{bom}{edited}");
    // A file may be written in ways that nobody here thought of; then a person has to do it.
    match find(&edited, slot) {
        Ok(Some(found)) if entry.is_in(&found) => Ok(edited),
        _ => Err(Unreadable(format!(
            "`{}` can't be written into this file without breaking it; add it by hand",
            in_words(slot.path)
        ))),
    }
}

/// The text without the entry; the same text where there is none. What surrounded it stays, an
/// empty map too: whether it was there before, only a [`Trace`](crate::Trace) knows.
pub fn take(text: &str, slot: Slot) -> Result<String, Unreadable> {
    let (bom, body) = opened(text)?;
    let edited = match slot.format {
        Format::Json => json::take(body, slot.path)?,
        Format::Toml => toml::take(body, slot.path)?,
    };
    let edited = format!("{bom}{edited}");
    match find(&edited, slot) {
        Ok(None) => Ok(edited),
        _ => Err(Unreadable(format!(
            "`{}` can't be taken out of this file without breaking it; remove it by hand",
            in_words(slot.path)
        ))),
    }
}

impl Entry {
    fn is_in(&self, found: &Value) -> bool {
        let set = self.set.iter().filter(|(_, value)| !value.is_null());
        set.into_iter().all(|(key, value)| found.get(key) == Some(value))
            && self.drop.iter().all(|key| found.get(key).is_none())
    }
}

/// A byte order mark, and the text after it.
fn opened(text: &str) -> Result<(&str, &str), Unreadable> {
    if text.len() > MOST_BYTES {
        return Err(Unreadable(format!(
            "it has {} bytes, which is more than {MOST_BYTES}; is it the right file?",
            text.len()
        )));
    }
    let bom = if text.starts_with(text::BOM) { text::BOM.len_utf8() } else { 0 };
    Ok(text.split_at(bom))
}

/// `mcpServers.reqlore`.
fn in_words(path: &[&str]) -> String {
    path.iter().copied().chain([NAME]).collect::<Vec<_>>().join(".")
}
