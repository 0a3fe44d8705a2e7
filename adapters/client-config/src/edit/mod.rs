//! One entry in a file of others: found, put in, taken out.
//!
//! All other bytes stay: comments, order, line ends, a BOM, trailing commas. What can't be read is
//! refused, since an edit of a file that the client itself can't read would hide the mistake.

pub mod block;

use serde_json::{Map, Value};

/// The name under which Reqlore stands in each client's list of servers.
pub const NAME: &str = "reqlore";

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

/// What stands there now.
pub fn find(_text: &str, _slot: Slot) -> Result<Option<Value>, Unreadable> {
    Err(Unreadable(String::new()))
}

/// The text with the entry as it shall be; the same text where it is so already. An empty text
/// becomes a whole file.
pub fn put(_text: &str, _slot: Slot, _entry: &Entry) -> Result<String, Unreadable> {
    Err(Unreadable(String::new()))
}

/// The text without the entry; the same text where there is none. What surrounded it stays, an empty
/// map too: whether it was there before, only a [`Trace`](crate::Trace) knows.
pub fn take(_text: &str, _slot: Slot) -> Result<String, Unreadable> {
    Err(Unreadable(String::new()))
}
