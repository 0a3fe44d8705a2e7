//! A relationship that a change adds or removes. Only the source's file changes.

use std::fmt;

use reqlore_domain::backlog::{ItemMeta, Reference, Relationship, RelationshipType};
use reqlore_domain::document::Document;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::records::answers::items::ItemRecord;
use reqlore_domain::timestamp::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::answers::answer::{ToolAnswer, text_answer};
use crate::documents::document_text;

/// A relationship between two existing items.
#[derive(Clone, Copy)]
pub(crate) struct RelationshipSpec {
    source: Reference,
    kind: RelationshipType,
    target: Reference,
}

impl fmt::Display for RelationshipSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.source, self.kind.name(), self.target)
    }
}

impl RelationshipSpec {
    pub(crate) fn new(source: Reference, kind: RelationshipType, target: Reference) -> Self {
        Self { source, kind, target }
    }

    /// Returns the source's relationships with this one added.
    pub(crate) fn add(self, item: &ItemMeta, target: &Document) -> Result<Vec<Relationship>> {
        let mut relationships = item.relationships.clone();
        let relationship = Relationship { kind: self.kind, target: self.target };
        if relationships.contains(&relationship) || self.has_mirror(target)? {
            let message = format!("This relationship already exists: {self}");
            return Err(Error::new(ErrorKind::Refused, message).reference(self.source.to_string()));
        }
        relationships.push(relationship);
        Ok(relationships)
    }

    /// True if the target already holds the same relationship of a mutual type.
    fn has_mirror(self, target: &Document) -> Result<bool> {
        // The metadata of the target may be older than the snapshot, so the document is parsed. An
        // unreadable target is an error for all types.
        let (name, text) = (&target.id.name, document_text(target)?);
        let (target, _) = ItemMeta::parse(self.target.kind, name, text, Timestamp::default());
        let mirror = Relationship { kind: self.kind, target: self.source };
        Ok(self.kind.is_mutual() && target.relationships.contains(&mirror))
    }

    /// Returns the source's relationships with this one removed.
    pub(crate) fn remove(self, item: &ItemMeta) -> Result<Vec<Relationship>> {
        let Self { source, kind, target } = self;
        let mut relationships = item.relationships.clone();
        relationships.retain(|link| *link != Relationship { kind, target });
        if relationships.len() == item.relationships.len() {
            let message = format!("This relationship does not exist: {self}; get_item lists all");
            return Err(Error::new(ErrorKind::NotFound, message).reference(source.to_string()));
        }
        Ok(relationships)
    }

    pub(crate) fn answer(self, outcome: &str, record: &ItemRecord) -> Result<ToolAnswer> {
        let text = format!("{outcome}: {self} (version {})", &record.version[..8]);
        let (source, target) = (self.source.to_string(), self.target.to_string());
        text_answer(text, &RelatedRecord { record, source, kind: self.kind.name(), target })
    }
}

/// The record of the source and the relationship that changed.
#[derive(Serialize)]
struct RelatedRecord<'a> {
    #[serde(flatten)]
    record: &'a ItemRecord,
    source: String,
    #[serde(rename = "type")]
    kind: &'a str,
    target: String,
}

// The guaranteed part of the result. (A doc comment would become part of the schema.)
#[derive(JsonSchema)]
#[expect(dead_code, reason = "a schema")]
pub(crate) struct RelationshipOutcome {
    project: String,
    /// The source.
    reference_id: String,
    version: String,
    source: String,
    #[schemars(rename = "type")]
    kind: String,
    target: String,
}
