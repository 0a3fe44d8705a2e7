//! Finds, writes and removes one server entry in a client's configuration file.
//!
//! All other bytes stay: comments, order, line ends, a BOM, trailing commas. A file that its client
//! can't read is rejected.

pub mod block;
mod braces;
mod json;
mod text;
mod toml;

use serde_json::{Map, Value};

use crate::error::ConfigError;

/// The key of this server in each client's map of servers.
pub const SERVER_NAME: &str = "reqlore";

/// Large, because Claude Code keeps its history in the same file as its servers.
const MAX_FILE_BYTES: usize = 16 * 1024 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigFormat {
    /// With comments and trailing commas.
    Json,
    Toml,
}

/// The entry [`SERVER_NAME`] in the map of servers at `path`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntrySlot {
    pub format: ConfigFormat,
    pub path: &'static [&'static str],
}

impl EntrySlot {
    fn names(self) -> Vec<&'static str> {
        let mut names = self.path.to_vec();
        names.push(SERVER_NAME);
        names
    }
}

/// The keys to write. Other keys of an existing entry (`env`, `disabled`, `timeout`) stay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryEdit {
    pub set: Map<String, Value>,
    /// Keys to remove, because they conflict with those set: `url` and `command`.
    pub drop: &'static [&'static str],
}

/// The entry, if the text has one.
pub fn find_entry(text: &str, slot: EntrySlot) -> Result<Option<Value>, ConfigError> {
    find_in(split_bom(text)?.1, slot)
}

fn find_in(body: &str, slot: EntrySlot) -> Result<Option<Value>, ConfigError> {
    match slot.format {
        ConfigFormat::Json => json::find_object(body, &slot.names()),
        ConfigFormat::Toml => toml::find_table(body, &slot.names()),
    }
}

/// The text with this entry. Unchanged if it has this entry; an empty text becomes a whole file.
pub fn put_entry(text: &str, slot: EntrySlot, entry: &EntryEdit) -> Result<String, ConfigError> {
    let (bom, body) = split_bom(text)?;
    let edited = if find_in(body, slot)?.is_some() {
        update_entry(body, slot, entry)?
    } else {
        match slot.format {
            ConfigFormat::Json => {
                json::set_value(body, &slot.names(), &Value::Object(entry.set.clone()))?
            }
            ConfigFormat::Toml => toml::append_entry(body, &slot.names(), &entry.set)?,
        }
    };
    // A valid file may use a notation that the edit does not handle. Then nothing is written.
    match find_in(&edited, slot) {
        Ok(Some(found)) if entry.is_in(&found) => Ok(format!("{bom}{edited}")),
        _ => Err(unsupported_notation(
            slot,
            "add",
            "the entry can't be added without breaking this file",
        )),
    }
}

fn update_entry(body: &str, slot: EntrySlot, entry: &EntryEdit) -> Result<String, ConfigError> {
    let names = slot.names();
    let mut edited = body.to_owned();
    for key in entry.drop {
        edited = remove_value(&edited, slot.format, &[&names[..], &[key]].concat())?;
    }
    for (key, value) in &entry.set {
        let names = [&names[..], &[key.as_str()]].concat();
        edited = match slot.format {
            ConfigFormat::Json => json::set_value(&edited, &names, value)?,
            ConfigFormat::Toml => toml::set_value(&edited, &names, value)?,
        };
    }
    Ok(edited)
}

/// The text without the entry. Empty maps around it stay: only an
/// [`UndoPatch`](crate::UndoPatch) knows whether they existed before.
pub fn remove_entry(text: &str, slot: EntrySlot) -> Result<String, ConfigError> {
    let (bom, body) = split_bom(text)?;
    // Only for its errors: a file that can't be parsed must not be edited.
    find_in(body, slot)?;
    let edited = remove_value(body, slot.format, &slot.names())?;
    match find_in(&edited, slot) {
        Ok(None) => Ok(format!("{bom}{edited}")),
        _ => Err(unsupported_notation(
            slot,
            "remove",
            "the entry can't be removed without breaking this file",
        )),
    }
}

fn remove_value(body: &str, format: ConfigFormat, names: &[&str]) -> Result<String, ConfigError> {
    match format {
        ConfigFormat::Json => json::remove_property(body, names),
        ConfigFormat::Toml => toml::remove_table(body, names),
    }
}

/// The error for a valid file in a notation that these edits do not handle.
fn unsupported_notation(slot: EntrySlot, verb: &str, problem: &str) -> ConfigError {
    ConfigError(format!("`{}.{SERVER_NAME}`: {problem}; {verb} it by hand", slot.path.join(".")))
}

impl EntryEdit {
    /// True if an entry of a file has these values.
    fn is_in(&self, entry: &Value) -> bool {
        for (key, value) in &self.set {
            // Null is not written to TOML.
            if !value.is_null() && entry.get(key) != Some(value) {
                return false;
            }
        }
        self.drop.iter().all(|key| entry.get(key).is_none())
    }
}

/// The items of the list at `path`; empty if there is none.
pub fn find_items(text: &str, path: &[&str]) -> Result<Vec<Value>, ConfigError> {
    json::find_items(split_bom(text)?.1, path)
}

/// The text with this item in the list at `path`.
pub fn put_item(text: &str, path: &[&str], item: &Value) -> Result<String, ConfigError> {
    if find_items(text, path)?.contains(item) {
        return Ok(text.to_owned());
    }
    let (bom, body) = split_bom(text)?;
    Ok(format!("{bom}{}", json::append_item(body, path, item)?))
}

/// The entries of this server's hook in the list at `path`.
pub fn find_hook(text: &str, path: &[&str]) -> Result<Vec<Value>, ConfigError> {
    let mut found = find_items(text, path)?;
    found.retain(is_hook);
    Ok(found)
}

/// The text with these entries at the end of the list. Unchanged if they are its hook already; an
/// empty text becomes a whole file.
pub fn put_hook(text: &str, path: &[&str], entries: &[Value]) -> Result<String, ConfigError> {
    if find_hook(text, path)? == entries {
        return Ok(text.to_owned());
    }
    let mut text = remove_hook(text, path)?;
    for entry in entries {
        text = put_item(&text, path, entry)?;
    }
    Ok(text)
}

/// The text without this server's hook.
pub fn remove_hook(text: &str, path: &[&str]) -> Result<String, ConfigError> {
    let (bom, body) = split_bom(text)?;
    Ok(format!("{bom}{}", json::remove_items(body, path, is_hook)?))
}

/// The shell command of a hook's entry. `None` if the entry has other commands too.
pub fn hook_command(entry: &Value) -> Option<&str> {
    let hook = match entry.get("hooks") {
        Some(hooks) => hooks.as_array().filter(|hooks| hooks.len() == 1)?.first()?,
        None => entry,
    };
    hook.get("command").or_else(|| hook.get("bash"))?.as_str()
}

/// True for an entry that init wrote, possibly edited since.
fn is_hook(entry: &Value) -> bool {
    let is_ours = |text: &str| HOOK_WORDS.iter().any(|words| text.contains(words));
    hook_command(entry).is_some_and(|text| text.contains(SERVER_NAME) && is_ours(text))
}

/// One of them is in the command of each hook of this server.
const HOOK_WORDS: [&str; 2] = [" hook session ", " hook prompt "];

fn split_bom(text: &str) -> Result<(&str, &str), ConfigError> {
    if text.len() > MAX_FILE_BYTES {
        return Err(ConfigError(format!(
            "the file has {} bytes, which is more than {MAX_FILE_BYTES}; check that it is the \
             right one",
            text.len()
        )));
    }
    let bom = if text.starts_with(text::BOM) { text::BOM.len_utf8() } else { 0 };
    Ok(text.split_at(bom))
}
