//! Pagination: a cursor is the sort key of the last item, so that changes of other items neither
//! skip nor repeat one.
//!
//! A digest binds the cursor to its list, arguments and project.

use std::fmt::Write as _;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqlore_domain::bounded_types::{BoundedInt, inline_schema};
use reqlore_domain::document::Version;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::project_key::ProjectKey;
use serde::de::{self, DeserializeOwned};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::answers::answer::Answer;

pub(crate) type PageLimit = BoundedInt<1, 100>;

const DEFAULT_LIMIT: usize = 50;
/// Longer than any cursor of the server, which holds at most a file name.
const MAX_CURSOR_CHARS: usize = 8_000;

pub(crate) fn page_limit<const MAX: usize>(limit: Option<BoundedInt<1, MAX>>) -> usize {
    limit.map_or(DEFAULT_LIMIT, BoundedInt::get)
}

/// A cursor as a caller passes it. [`PageReader::position`] validates it.
#[derive(Clone)]
pub(crate) struct PageCursor(String);

impl From<String> for PageCursor {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl<'de> Deserialize<'de> for PageCursor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) if text.chars().count() <= MAX_CURSOR_CHARS => Ok(Self(text)),
            _ => Err(de::Error::custom(
                "must be the text of next_cursor; pass it unchanged, or omit cursor to start",
            )),
        }
    }
}

inline_schema!([] PageCursor, { "type": "string" });

/// Reads and writes the cursors of one list.
pub(crate) struct PageReader {
    /// Identifies the list in the project.
    list: Vec<u8>,
}

impl PageReader {
    /// `list` identifies the list in the project: the tool's name, the query and the filters.
    pub(crate) fn new(project: &ProjectKey, list: &impl Serialize) -> Self {
        // The arguments are strings and numbers, which always serialize.
        Self { list: serde_json::to_vec(&(project, list)).unwrap_or_default() }
    }

    /// Returns the position that a cursor contains.
    ///
    /// A cursor of another list is rejected: it would silently skip the wrong items.
    pub(crate) fn position<Key: DeserializeOwned>(
        &self,
        cursor: Option<&PageCursor>,
    ) -> Result<Option<Key>> {
        let Some(PageCursor(cursor)) = cursor else { return Ok(None) };
        if let Some(position) = self.decode(cursor) {
            return Ok(Some(position));
        }
        let message = "cursor: not from a list with these arguments; pass that of the previous \
                       page with unchanged arguments, or omit it.";
        Err(Error::new(ErrorKind::InvalidArgument, message).field("cursor"))
    }

    fn decode<Key: DeserializeOwned>(&self, cursor: &str) -> Option<Key> {
        // Before decoding, which would allocate for any length.
        if cursor.len() > MAX_CURSOR_CHARS {
            return None;
        }
        let text = String::from_utf8(URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()?;
        // Checked, because a forged text may be shorter or not split there.
        let (digest, position) = text.split_at_checked(Version::LENGTH)?;
        if digest != self.digest(position) {
            return None;
        }
        serde_json::from_str(position).ok()
    }

    /// Returns the cursor of the page that starts after this position.
    pub(crate) fn cursor(&self, position: &impl Serialize) -> String {
        // Sort keys are strings and numbers, which always serialize.
        let position = serde_json::to_string(position).unwrap_or_default();
        URL_SAFE_NO_PAD.encode(format!("{}{position}", self.digest(&position)))
    }

    fn digest(&self, position: &str) -> String {
        Version::of_bytes(&[self.list.as_slice(), b"\n", position.as_bytes()].concat()).to_string()
    }
}

/// The answer of a list: a page that a size limit may cut after any entry. Its cursor continues
/// after the last entry that is shown.
pub(crate) struct PageAnswer {
    /// The first line of the text, by the number of entries that follow.
    pub(crate) heading: Box<dyn Fn(usize) -> String + Send>,
    /// The line of each entry, with encoded names.
    pub(crate) lines: Vec<String>,
    /// The data of the whole page, with `next_cursor` unless it is the last one.
    pub(crate) data: Arc<Value>,
    /// The key of the entries in the data.
    pub(crate) key: &'static str,
    /// The cursor after the first entries, at least one; `None` if no cursor can continue there.
    pub(crate) cursor_after: Box<dyn Fn(usize) -> Option<String> + Send>,
}

/// The part of a heading that tells a page from the whole list.
pub(crate) fn showing(shown: usize, total: usize) -> String {
    if shown < total { format!(", showing {shown}") } else { String::new() }
}

impl PageAnswer {
    fn next_cursor(&self, parts: usize) -> Option<String> {
        if parts >= self.lines.len() {
            return self.data["next_cursor"].as_str().map(str::to_owned);
        }
        if parts == 0 { None } else { (self.cursor_after)(parts) }
    }
}

impl Answer for PageAnswer {
    fn part_count(&self) -> usize {
        self.lines.len()
    }

    fn text(&self, parts: usize) -> String {
        let mut text = (self.heading)(parts);
        for line in self.lines.iter().take(parts) {
            text.extend(["\n", line]);
        }
        match self.next_cursor(parts) {
            Some(cursor) => text.extend(["\nNext page: cursor ", &cursor]),
            None if parts < self.lines.len() => {
                let missing = self.lines.len() - parts;
                // Writing to a string does not fail.
                let _ = write!(text, "\n({missing} left out; pass a larger max_tokens)");
            }
            None => {}
        }
        text
    }

    fn visit_data(&self, parts: usize, visit: &mut dyn FnMut(&Value)) -> Result<()> {
        let entries = self.data[self.key].as_array();
        entries.into_iter().flatten().take(parts).for_each(visit);
        Ok(())
    }

    fn data(&self, parts: usize) -> Result<Value> {
        let mut data = Value::clone(&self.data);
        if parts < self.lines.len() {
            if let Some(Value::Array(entries)) = data.get_mut(self.key) {
                entries.truncate(parts);
            }
            if let Value::Object(data) = &mut data {
                // That of the whole page would skip the entries that are left out.
                match self.next_cursor(parts) {
                    Some(cursor) => data.insert("next_cursor".to_owned(), cursor.into()),
                    None => data.remove("next_cursor"),
                };
            }
        }
        Ok(data)
    }

    fn whole_data(&self) -> Result<Arc<Value>> {
        Ok(Arc::clone(&self.data))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cursor_of_another_list_is_rejected() {
        let (project, other) = (&ProjectKey::default(), &ProjectKey::new("other"));
        let pages = PageReader::new(project, &("a", 1));
        let other_arguments = PageReader::new(project, &("a", 2));
        let other_project = PageReader::new(other, &("a", 1));
        let next = PageCursor(pages.cursor(&50));
        assert_eq!(pages.position::<u32>(Some(&next)).unwrap(), Some(50));
        assert_eq!(pages.position::<u32>(None).unwrap(), None);
        assert!(other_arguments.position::<u32>(Some(&next)).is_err());
        assert!(other_project.position::<u32>(Some(&next)).is_err());
        // The digest is correct, but the list has other sort keys.
        assert!(pages.position::<String>(Some(&next)).is_err());
        let cut = next.0[1..].to_owned();
        let long = "A".repeat(100_000);
        for wrong in ["50", "", ".", "é", &cut, &format!("{}A", next.0), &long] {
            let cursor = PageCursor(wrong.to_owned());
            let error = pages.position::<u32>(Some(&cursor)).unwrap_err();
            assert_eq!(error.field.as_deref(), Some("cursor"));
        }
    }

    #[test]
    fn cursor_of_a_wrong_type_is_an_error_that_says_what_to_do() {
        for wrong in [json!(5), json!(["x"]), json!({ "a": 1 }), json!(true)] {
            let error = serde_json::from_value::<PageCursor>(wrong).err().unwrap().to_string();
            assert!(error.contains("pass it unchanged, or omit cursor to start"), "{error}");
        }
    }
}
