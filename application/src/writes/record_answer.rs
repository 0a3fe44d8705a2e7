//! The answers of tools that create and update items and entities.

use std::collections::BTreeMap;
use std::sync::Arc;

use reqlore_domain::backlog::ItemMeta;
use reqlore_domain::document::{Document, Version};
use reqlore_domain::error::Result;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::records::answers::items::ItemRecord;
use reqlore_domain::records::schema::RecordSchema;
use reqlore_domain::timestamp::Timestamp;
use reqlore_domain::untrusted_text::{encode_id, encode_line};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::answers::answer::{ToolAnswer, text_answer};
use crate::backlog::relationship::RelationshipSpec;
use crate::documents::document_text;
use crate::writes::change::Action;
use crate::writes::stored_record::StoredRecord;

// The guaranteed part of a write tool's result, which is the whole record. A schema with every key
// in each of nine tools would cost models too many tokens. (A doc comment would enter the schema.)
#[derive(JsonSchema)]
#[expect(dead_code, reason = "a schema")]
pub(crate) struct ItemOutcome {
    project: String,
    reference_id: String,
    version: String,
}

// The same for an entity.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "a schema")]
pub(crate) struct EntityOutcome {
    project: String,
    id: String,
    version: String,
}

#[derive(Serialize)]
struct EntityRecord<'a> {
    project: &'a str,
    id: &'a str,
    kind: &'a str,
    title: &'a str,
    path: String,
    version: &'a str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    fields: BTreeMap<String, Value>,
}

/// A record that a commit created or updated.
pub(crate) struct WrittenRecord {
    pub(crate) action: Action,
    pub(crate) project: ProjectKey,
    pub(crate) schema: Arc<RecordSchema>,
    /// The default for missing times.
    pub(crate) at: Timestamp,
    /// The written record and its version.
    pub(crate) parsed: Option<(Version, StoredRecord)>,
    /// The relationship that changed, with its outcome.
    pub(crate) relationship: Option<(RelationshipSpec, &'static str)>,
}

/// Renders the answer: a sentence, and the record of the final document.
pub(crate) fn render_written(written: WrittenRecord, document: &Document) -> Result<ToolAnswer> {
    let record = match written.parsed {
        Some((version, record)) if version == document.version => record,
        // A later change of the commit may have added a relationship.
        _ => StoredRecord::parse_new(document, written.at)?,
    };
    let done = match written.action {
        Action::Create => "Created",
        Action::Keep => "No change in",
        _ => "Updated",
    };
    let (project, name) = (&written.project, &document.id.name);
    match &record {
        StoredRecord::Item(item) => {
            let description = ItemMeta::description(document_text(document)?);
            let (version, schema) = (document.version, &*written.schema);
            let record = ItemRecord::new(project, item, name, version, description, schema);
            if let Some((relationship, outcome)) = written.relationship {
                return relationship.answer(outcome, &record);
            }
            let ItemRecord { reference_id, title, version, .. } = &record;
            let (noun, title) = (item.kind.noun().to_lowercase(), encode_line(title));
            let id = encode_id(reference_id);
            text_answer(format!("{done} {noun} {id}: {title} (version {})", &version[..8]), &record)
        }
        StoredRecord::Entity(entity) => {
            let (kind, id) = (encode_line(&entity.kind), encode_id(&entity.id));
            let version = &*document.version.to_string();
            let record = EntityRecord {
                project: project.as_str(),
                id: &entity.id,
                kind: &entity.kind,
                title: &entity.title,
                path: document.id.to_string(),
                version,
                fields: written.schema.answers(entity),
            };
            text_answer(format!("{done} {kind} {id} (version {})", &version[..8]), &record)
        }
    }
}
