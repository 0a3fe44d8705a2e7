//! A resource's JSON: who it is, then what it says (S5 6.6).

use std::sync::Arc;

use reqlore_domain::document::DocumentMeta;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::service::Content;
use reqlore_domain::project::ProjectKey;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::uri::JSON;
use crate::backlog::find::{self, Backlog};
use crate::backlog::record::{self, Record};

/// A list is cut when its records are longer than this, in bytes.
const MOST_BYTES: usize = 1024 * 1024;

/// So many documents are read at once.
const AT_ONCE: usize = 100;

/// A title in a sentence is cut there.
const MOST_TITLE: usize = 200;

#[derive(Serialize)]
struct Envelope<'a, T> {
    uri: &'a str,
    name: &'a str,
    /// An item has one of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(flatten)]
    body: &'a T,
}

/// What tells a resource from others.
pub(super) struct Label {
    pub(super) uri: String,
    pub(super) name: String,
    pub(super) description: String,
}

impl Label {
    /// A resource of which the body tells no description.
    pub(super) fn content(self, body: &impl Serialize) -> Result<Content> {
        let description = self.description.clone();
        self.with(Some(&description), body)
    }

    /// A resource with a body that has a description.
    pub(super) fn described(self, body: &impl Serialize) -> Result<Content> {
        self.with(None, body)
    }

    fn with(self, description: Option<&str>, body: &impl Serialize) -> Result<Content> {
        let envelope = Envelope { uri: &self.uri, name: &self.name, description, body };
        let text = serde_json::to_string(&envelope).map_err(|error| {
            Error::new(ErrorKind::Internal, "The resource could not be written.").caused_by(error)
        })?;
        let Self { uri, name, description } = self;
        Ok(Content { uri, name, description, mime_type: JSON, text })
    }
}

/// A title as sentences have it.
pub(super) fn short(title: &str) -> String {
    let mut short: String = title.chars().take(MOST_TITLE).collect();
    if short.len() < title.len() {
        short.push('…');
    }
    short
}

/// Records under the plural name of their kind, with their true number.
pub(super) struct Records {
    key: &'static str,
    items: Vec<Record>,
    count: usize,
    /// What to do where not all of them are here.
    hint: &'static str,
    /// What can't be read.
    warnings: Vec<String>,
}

impl Records {
    /// The records of these heads, until there are too many.
    pub(super) async fn of(
        backlog: Backlog<'_>,
        heads: &[Arc<DocumentMeta>],
        key: &'static str,
        hint: &'static str,
    ) -> Result<Self> {
        let (items, warnings) = Default::default();
        let mut list = Self { key, items, count: heads.len(), hint, warnings };
        let mut bytes = 0;
        for heads in heads.chunks(AT_ONCE) {
            for (head, found) in heads.iter().zip(record::all(backlog, heads).await?) {
                // It may have gone meanwhile.
                let Some(record) =
                    found.and_then(|found| list.record(backlog.project, head, found))
                else {
                    list.count -= 1;
                    continue;
                };
                bytes += serde_json::to_string(&record).map_or(0, |text| text.len());
                if bytes > MOST_BYTES {
                    return Ok(list);
                }
                list.items.push(record);
            }
        }
        Ok(list)
    }

    /// One bad file harms no other.
    fn record(
        &mut self,
        project: &ProjectKey,
        head: &DocumentMeta,
        found: Result<Record>,
    ) -> Option<Record> {
        match found {
            Ok(record) => Some(record),
            Err(error) => {
                self.warnings.push(error.message);
                let item = find::item(head)?;
                Some(Record::new(project, item, &head.id.name, head.version, ""))
            }
        }
    }
}

impl Serialize for Records {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(self.key, &self.items)?;
        map.serialize_entry("count", &self.count)?;
        if self.items.len() < self.count {
            map.serialize_entry("truncated", &true)?;
            let (here, count) = (self.items.len(), self.count);
            let hint = format!("the first {here} of {count} are here; {}", self.hint);
            map.serialize_entry("hint", &hint)?;
        }
        if !self.warnings.is_empty() {
            map.serialize_entry("warnings", &self.warnings)?;
        }
        map.end()
    }
}
