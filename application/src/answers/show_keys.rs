//! The argument `show`: the keys of entries that an answer returns.

use std::marker::PhantomData;

use reqlore_domain::bounded_types::{inline_schema, shorten, truncate_echo};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// The keys that a caller may choose. IDs are not among them, because entries always have them.
pub(crate) trait EntryKeys {
    const KEYS: &'static [&'static str];
}

/// The chosen keys of entries. Without the argument, or with an empty list, these are all keys.
pub(crate) struct ShowKeys<Keys> {
    chosen: Option<Vec<&'static str>>,
    keys: PhantomData<fn() -> Keys>,
}

impl<Keys> Default for ShowKeys<Keys> {
    fn default() -> Self {
        Self { chosen: None, keys: PhantomData }
    }
}

impl<Keys: EntryKeys> ShowKeys<Keys> {
    /// True if the caller chose keys.
    pub(crate) fn is_given(&self) -> bool {
        self.chosen.is_some()
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.chosen.as_ref().is_none_or(|chosen| chosen.contains(&key))
    }

    /// Removes the keys that were not chosen. IDs and other keys stay.
    pub(crate) fn filter(&self, entry: &mut Map<String, Value>) {
        entry.retain(|key, _| self.has(key) || !Keys::KEYS.contains(&key.as_str()));
    }

    /// [`Self::filter`] of a value that is an object.
    pub(crate) fn filter_value(&self, entry: &mut Value) {
        if let Value::Object(entry) = entry {
            self.filter(entry);
        }
    }

    /// [`Self::filter`] of all objects in a list.
    pub(crate) fn filter_list(&self, entries: &mut Value) {
        if let Value::Array(entries) = entries {
            for entry in entries {
                self.filter_value(entry);
            }
        }
    }

    fn parse(names: &[&str]) -> Result<Self, String> {
        let mut chosen = Vec::new();
        for name in names {
            let name = name.trim().to_lowercase();
            match Keys::KEYS.iter().find(|key| **key == name) {
                Some(key) => chosen.push(*key),
                None if name.is_empty() || name == "id" => {}
                None => {
                    let (shown, keys) = (truncate_echo(&name), Keys::KEYS.join(", "));
                    return Err(format!("{shown:?} is not a key; use some of {keys}"));
                }
            }
        }
        // `["id"]` chooses the IDs alone.
        let chosen = if names.is_empty() { None } else { Some(chosen) };
        Ok(Self { chosen, keys: PhantomData })
    }
}

impl<'de, Keys: EntryKeys> Deserialize<'de> for ShowKeys<Keys> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let names = match &value {
            Value::String(text) if text.trim().is_empty() => Some(Vec::new()),
            Value::String(text) => Some(text.split(',').collect()),
            Value::Array(items) => items.iter().map(Value::as_str).collect(),
            _ => None,
        };
        let Some(names) = names else {
            let (shown, first) = (shorten(&value), Keys::KEYS.first().unwrap_or(&"id"));
            let problem = format!("{shown} is not a list of keys; send a list such as [{first:?}]");
            return Err(D::Error::custom(problem));
        };
        Self::parse(&names).map_err(D::Error::custom)
    }
}

inline_schema!([Keys] ShowKeys<Keys>, { "type": "array", "items": { "type": "string" } });

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct TestKeys;

    impl EntryKeys for TestKeys {
        const KEYS: &'static [&'static str] = &["title", "status", "tags"];
    }

    fn parse(value: Value) -> Result<ShowKeys<TestKeys>, String> {
        serde_json::from_value(value).map_err(|error| error.to_string())
    }

    #[test]
    fn show_keys_are_a_list_or_text_and_keep_ids() {
        for (value, shown) in [
            (json!(["title", "status"]), vec!["title", "status"]),
            (json!("Title, status"), vec!["title", "status"]),
            (json!(["id"]), vec![]),
            (json!([]), vec!["title", "status", "tags"]),
            (json!(""), vec!["title", "status", "tags"]),
        ] {
            let keys = parse(value.clone()).unwrap_or_else(|problem| panic!("{value}: {problem}"));
            let has: Vec<&str> =
                TestKeys::KEYS.iter().copied().filter(|key| keys.has(key)).collect();
            assert_eq!(has, shown, "{value}");
            let mut entry = Map::from_iter(
                [("id", "a"), ("title", "b"), ("tags", "c")]
                    .map(|(key, value)| (key.to_owned(), json!(value))),
            );
            keys.filter(&mut entry);
            assert!(entry.contains_key("id"));
            assert_eq!(entry.contains_key("tags"), shown.contains(&"tags"), "{value}");
        }
    }

    #[test]
    fn unknown_show_key_is_an_error_that_lists_the_keys() {
        let error = |value| parse(value).err().unwrap();
        assert_eq!(
            error(json!(["titel"])),
            "\"titel\" is not a key; use some of title, status, tags"
        );
        let expected = "5 is not a list of keys; send a list such as [\"title\"]";
        assert_eq!(error(json!(5)), expected);
        assert!(error(json!([5])).contains("send a list such as"));
    }
}
