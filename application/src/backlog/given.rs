//! References as callers give them.
//!
//! The trap: a malformed reference has an answer of its own (S2 2.2), so these take any text, and
//! [`Given::reference`] judges it.

use std::borrow::Cow;
use std::marker::PhantomData;

use reqlore_domain::backlog::reference::Reading;
use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::error::{Error, ErrorKind, Result};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};

/// Which references an argument takes.
pub(crate) trait Of {
    const KINDS: &'static [ItemKind];
    const PATTERN: &'static str;
}

pub(crate) struct Epic;
pub(crate) struct UserStory;
pub(crate) struct Requirement;
pub(crate) struct Criteria;
pub(crate) struct Any;

impl Of for Epic {
    const KINDS: &'static [ItemKind] = &[ItemKind::Epic];
    const PATTERN: &'static str = r"^EP-\d+$";
}

impl Of for UserStory {
    const KINDS: &'static [ItemKind] = &[ItemKind::UserStory];
    const PATTERN: &'static str = r"^US-\d+$";
}

impl Of for Requirement {
    const KINDS: &'static [ItemKind] = &[ItemKind::Requirement];
    const PATTERN: &'static str = r"^REQ-\d+$";
}

impl Of for Criteria {
    const KINDS: &'static [ItemKind] = &[ItemKind::AcceptanceCriteria];
    const PATTERN: &'static str = r"^AC-\d+$";
}

impl Of for Any {
    const KINDS: &'static [ItemKind] = &ItemKind::ALL;
    const PATTERN: &'static str = r"^(EP|US|REQ|AC)-\d+$";
}

/// A reference as it was given.
pub(crate) struct Given<K> {
    text: String,
    kind: PhantomData<fn() -> K>,
}

impl<K: Of> Given<K> {
    /// The reference, or why there is none; `field` is the argument's name.
    pub(crate) fn reference(&self, field: &str) -> Result<Reference> {
        read(K::KINDS, &self.text, field)
    }
}

/// Reads a reference of one of these kinds.
pub(crate) fn read(kinds: &[ItemKind], text: &str, field: &str) -> Result<Reference> {
    let mut readings = kinds.iter().map(|kind| (kind, Reference::read(*kind, text)));
    match readings.find(|(_, reading)| *reading != Reading::Malformed) {
        Some((_, Reading::Reference(reference))) => Ok(reference),
        Some((kind, _)) => Err(not_found(*kind, text).field(field)),
        None => Err(malformed(kinds, text, field)),
    }
}

/// What is said of an item that is not there (S2 1.2).
pub(crate) fn not_found(kind: ItemKind, reference: &str) -> Error {
    let shown: String = reference.chars().take(100).collect();
    let message = format!("{} not found: {shown}", kind.noun());
    Error::new(ErrorKind::NotFound, message).reference(shown).hint("search_global finds references")
}

/// S2 2.2.
fn malformed(kinds: &[ItemKind], text: &str, field: &str) -> Error {
    let shown: String = text.chars().take(100).collect();
    let what = match kinds {
        [kind] => format!("{} ", kind.noun().to_lowercase()),
        _ => String::new(),
    };
    let like: Vec<String> = kinds.iter().map(|kind| format!("{}-047", kind.prefix())).collect();
    let hint = format!("write it like {}", like.join(" or "));
    let first = match kinds {
        [_] => format!("Invalid {what}reference ID format"),
        _ => "Invalid reference ID format".to_owned(),
    };
    let message = format!("{first}: {shown:?}; {hint}");
    Error::new(ErrorKind::InvalidArgument, message).field(field).reference(shown).hint(hint)
}

impl<'de, K> Deserialize<'de> for Given<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self { text, kind: PhantomData })
    }
}

impl<K: Of> JsonSchema for Given<K> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        K::PATTERN.into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": K::PATTERN })
    }
}
