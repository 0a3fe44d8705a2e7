//! The schema of the entries of `apply_changes`.

use std::borrow::Cow;

use reqlore_domain::backlog::RelationshipType;
use reqlore_domain::ports::project_resolver::Toolset;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::Value;

use super::entry::NewKind;

pub(super) const MAX_ENTRIES: usize = 100;

/// The entries as sent: the tool of each entry decodes its keys.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct EntryList(pub(super) Vec<Value>);

impl JsonSchema for EntryList {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "EntryList".into()
    }

    // Without the limits and allowed values of each tool, which would cost models many tokens.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "array",
            "maxItems": MAX_ENTRIES,
            "items": {
                "type": "object",
                "properties": {
                    "create": { "type": "string", "enum": NewKind::names(&Toolset::ALL) },
                    "update": { "type": "string", "description": "ID." },
                    "delete": { "type": "string", "description": "ID." },
                    "relate": {
                        "type": "object",
                        "properties": {
                            "source": { "type": "string" },
                            "target": { "type": "string" },
                            "type": {
                                "type": "string",
                                "enum": RelationshipType::ALL.map(RelationshipType::name)
                            }
                        },
                        "required": ["source", "target", "type"]
                    },
                    "name": {
                        "type": "string",
                        "description": "Later entries pass \"$name\" as its ID."
                    },
                    "epic": { "type": "string" },
                    "user_story": { "type": "string" },
                    "title": { "type": "string" },
                    "description": { "type": "string" },
                    "body": { "type": "string" },
                    "priority": { "type": "integer" },
                    "status": { "type": "string" },
                    "type": { "type": "string" },
                    "assignee": { "type": "string" },
                    "tags": { "type": "array", "items": { "type": "string" } },
                    "links": {
                        "type": "object",
                        "additionalProperties": { "type": "array", "items": { "type": "string" } }
                    },
                    "section": { "type": "string", "description": "Of a rule." },
                    "text": { "type": "string" },
                    "index": { "type": "string", "description": "Default: the last." },
                    "cascade": { "type": "boolean" },
                    "if_version": { "type": "string" }
                }
            }
        })
    }
}
