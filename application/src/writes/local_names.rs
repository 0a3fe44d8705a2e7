//! Names that the entries of one call give to their new documents.

use std::collections::BTreeMap;

use reqlore_domain::bounded_types::truncate_echo;
use reqlore_domain::document::DocumentKind;
use reqlore_domain::error::{Error, ErrorKind, Result};

/// Local names of the documents that earlier entries of a call create, such as `$checkout`.
#[derive(Debug, Default)]
pub(crate) struct LocalNames {
    /// `None` for a tool that changes one document.
    items: Option<BTreeMap<String, LocalItem>>,
}

/// A document that an earlier entry of a call creates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LocalItem {
    /// Position of the entry.
    pub(crate) entry: usize,
    pub(crate) kind: DocumentKind,
}

impl LocalNames {
    /// The names of a call whose entries may define some.
    pub(crate) fn of_call() -> Self {
        Self { items: Some(BTreeMap::new()) }
    }

    /// Gives a name to the document that an entry creates.
    pub(crate) fn define(&mut self, name: &str, item: LocalItem) -> Result<()> {
        let mut letters = name.chars();
        let is_valid = letters.next().is_some_and(|first| first.is_ascii_lowercase())
            && letters.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c))
            && name.len() <= MAX_NAME_CHARS;
        let problem = if !is_valid {
            format!(
                "use a lower-case letter, then at most {} of a-z, 0-9, _, -",
                MAX_NAME_CHARS - 1
            )
        } else if let Some(earlier) = self.items.get_or_insert_default().get(name) {
            format!("entry {} has this name already; use another", earlier.entry + 1)
        } else {
            self.items.get_or_insert_default().insert(name.to_owned(), item);
            return Ok(());
        };
        let message = format!("name: {:?}: {problem}", truncate_echo(name));
        Err(Error::new(ErrorKind::InvalidArgument, message).field("name"))
    }

    /// The entry that has a name, which is given without `$`.
    pub(crate) fn entry_of(&self, name: &str) -> Option<usize> {
        Some(self.items.as_ref()?.get(name.trim())?.entry)
    }

    /// Finds the item that an ID argument means; `None` if the text is no local name.
    pub(crate) fn find(&self, text: &str, field: &str) -> Result<Option<LocalItem>> {
        let (Some(items), Some(name)) = (&self.items, text.trim().strip_prefix('$')) else {
            return Ok(None);
        };
        match items.get(name) {
            Some(item) if item.kind == DocumentKind::Section => {
                let message = format!(
                    "{field}: ${name} is a rule created by this call; refer to it in a later call"
                );
                return Err(Error::new(ErrorKind::InvalidArgument, message).field(field));
            }
            Some(item) => return Ok(Some(*item)),
            None => {}
        }
        let known: Vec<&str> = items.keys().map(String::as_str).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let message = format!(
            "{field}: no earlier entry has the name {:?}; known: {known}",
            truncate_echo(name)
        );
        Err(Error::new(ErrorKind::InvalidArgument, message).field(field))
    }
}

/// Maximum characters of a local name.
const MAX_NAME_CHARS: usize = 32;
