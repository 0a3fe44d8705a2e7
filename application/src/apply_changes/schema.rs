//! The schema of the entries of `apply_changes`.

use std::borrow::Cow;

use reqlore_domain::backlog::RelationshipType;
use reqlore_domain::ports::project_resolver::Toolset;
use reqlore_domain::records::fields::{FIELDS, FieldType, RecordField};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Map, Value, json};

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
        let text = || json!({ "type": "string" });
        let described = |text: &str| json!({ "type": "string", "description": text });
        let relationship = json!({
            "type": "object",
            "properties": {
                "source": text(),
                "target": text(),
                "type": {
                    "type": "string", "enum": RelationshipType::SETTABLE.map(RelationshipType::name)
                }
            },
            "required": ["source", "target", "type"]
        });
        let mut keys = vec![
            ("create", json!({ "type": "string", "enum": NewKind::names(&Toolset::ALL) })),
            ("update", described("ID.")),
            ("delete", described("ID.")),
            ("relate", relationship),
            ("name", described("Later entries pass \"$name\" as its ID.")),
        ];
        let mut fields: Vec<&RecordField> = FIELDS.iter().filter(|one| rank(one) > 0).collect();
        fields.sort_by_key(|field| rank(field));
        for field in fields {
            let schema = match field.field_type {
                FieldType::Priority => json!({ "type": "integer" }),
                FieldType::Tags => json!({ "type": "array", "items": text() }),
                FieldType::Links => json!({
                    "type": "object",
                    "additionalProperties": { "type": "array", "items": text() }
                }),
                _ => text(),
            };
            keys.push((field.name, schema));
        }
        keys.extend([
            ("section", described("Of a rule.")),
            ("text", text()),
            ("index", described("Default: the last.")),
            ("cascade", json!({ "type": "boolean" })),
            ("extra", json!({ "type": "object" })),
            ("if_version", text()),
        ]);
        let mut properties = Map::new();
        for (key, schema) in keys {
            properties.entry(key).or_insert(schema);
        }
        json_schema!({
            "type": "array",
            "maxItems": MAX_ENTRIES,
            "items": { "type": "object", "properties": properties }
        })
    }
}

/// The order of the arguments of tools that create; 0 for a field that no entry can set.
fn rank(field: &RecordField) -> u8 {
    match field.field_type {
        FieldType::Parent(_) => 1,
        // Entries have it in `fields`.
        FieldType::Value(..) => 0,
        _ if !field.is_editable => 0,
        FieldType::Title | FieldType::Body | FieldType::Priority => 2,
        _ => 3,
    }
}
