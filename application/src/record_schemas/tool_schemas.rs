//! The schemas of tools in a project with custom fields or statuses.

use reqlore_domain::backlog::Status;
use reqlore_domain::ports::service::{ToolSchemas, ToolSpec};
use reqlore_domain::records::custom_field::CustomField;
use reqlore_domain::records::kinds::{IdSource, ItemKind, KINDS};
use reqlore_domain::records::schema::RecordSchema;
use serde_json::{Map, Value, json};

use crate::tools::arguments::CUSTOM_FIELDS;
use crate::tools::schema::property;

/// Maximum bytes that custom fields and statuses add to the list of tools: about 300 tokens.
const MAX_BYTES: usize = 750;
/// Size of an empty description, in bytes.
const DESCRIPTION_BYTES: usize = 24;

/// The part of each field that a description names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FieldDetail {
    Values,
    Names,
    Nothing,
}

/// Details for the tools that create and for the others. The first pair within the limit is used.
const DETAILS: [[FieldDetail; 2]; 4] = [
    [FieldDetail::Values, FieldDetail::Values],
    [FieldDetail::Values, FieldDetail::Names],
    [FieldDetail::Values, FieldDetail::Nothing],
    [FieldDetail::Names, FieldDetail::Nothing],
];

/// The additions to the schema of one tool.
struct SchemaAddition<'s> {
    spec: &'s ToolSpec,
    creates: bool,
    fields: Vec<&'s CustomField>,
    /// The custom statuses of the tool's kind.
    statuses: Option<Vec<Status>>,
}

/// Returns the argument schemas that differ from those of the specs. Descriptions omit details to
/// stay within the limit, because errors name the fields, values and statuses too.
pub(crate) fn tool_schemas(specs: &[&ToolSpec], schema: &RecordSchema) -> ToolSchemas {
    let additions: Vec<_> =
        specs.iter().filter_map(|spec| SchemaAddition::of_tool(spec, schema)).collect();
    let with_statuses = additions.iter().filter(|one| one.statuses.is_some());
    let statuses: usize = with_statuses.map(|one| one.status_schema(true).to_string().len()).sum();
    let has_statuses = statuses <= MAX_BYTES / 2;
    let budget = if has_statuses { MAX_BYTES - statuses } else { MAX_BYTES };
    let size = |details: [FieldDetail; 2]| -> usize {
        let schemas = additions.iter().map(|one| one.field_schema(details, usize::MAX));
        schemas.map(|schema| schema.to_string().len()).sum()
    };
    let details = DETAILS.into_iter().find(|details| size(*details) <= budget);
    let (details, max_text) = details.map_or_else(
        || {
            let creating = additions.iter().filter(|one| one.creates).count().max(1);
            let rest = budget.saturating_sub(size([FieldDetail::Nothing; 2])) / creating;
            ([FieldDetail::Names, FieldDetail::Nothing], rest.saturating_sub(DESCRIPTION_BYTES))
        },
        |details| (details, usize::MAX),
    );
    let mut schemas = ToolSchemas::new();
    for addition in &additions {
        schemas.insert(addition.spec.name, addition.schema(details, max_text, has_statuses));
    }
    schemas
}

impl<'s> SchemaAddition<'s> {
    /// `None` if the project adds nothing to the tool.
    fn of_tool(spec: &'s ToolSpec, schema: &'s RecordSchema) -> Option<Self> {
        let kinds = KINDS.iter().filter(|kind| match spec.name {
            "list_items" | "apply_changes" => true,
            name => [kind.create_tool, kind.update_tool].contains(&name),
        });
        let kinds: Vec<_> = kinds.collect();
        let has = |field: &&CustomField| {
            // The schema of a tool may list a built-in one.
            (!field.is_built_in || property(spec, &field.name).is_none())
                && kinds
                    .iter()
                    .any(|kind| field.has_kind(kind.name, kind.id_source == IdSource::FrontMatter))
        };
        let fields: Vec<_> = schema.fields.iter().filter(has).collect();
        let statuses = match kinds.as_slice() {
            [kind] => ItemKind::from_name(kind.name).map(|kind| (kind, schema.statuses(kind))),
            _ => None,
        };
        let statuses = statuses.filter(|(kind, statuses)| *statuses != kind.statuses());
        let statuses = statuses.map(|(_, statuses)| statuses);
        let creates = kinds.iter().any(|kind| kind.create_tool == spec.name);
        let is_empty = fields.is_empty() && statuses.is_none();
        (!is_empty).then_some(Self { spec, creates, fields, statuses })
    }

    fn schema(
        &self,
        details: [FieldDetail; 2],
        max_text: usize,
        has_statuses: bool,
    ) -> Map<String, Value> {
        let mut schema = Value::Object(self.spec.input_schema.clone());
        if self.statuses.is_some() {
            schema["properties"]["status"] = self.status_schema(has_statuses);
        }
        let field_schema = self.field_schema(details, max_text);
        let entries = "/properties/changes/items";
        let target = if schema.pointer(entries).is_some() { entries } else { "" };
        if let (false, Some(target)) = (field_schema.is_null(), schema.pointer_mut(target)) {
            target["properties"][CUSTOM_FIELDS] = field_schema;
        }
        match schema {
            Value::Object(schema) => schema,
            _ => Map::new(),
        }
    }

    /// Null without custom statuses.
    fn status_schema(&self, has_names: bool) -> Value {
        let Some(statuses) = &self.statuses else { return Value::Null };
        let mut schema = json!({ "type": "string" });
        if has_names {
            schema["enum"] = statuses.iter().map(Status::name).collect();
        }
        schema
    }

    /// Null without custom fields.
    fn field_schema(&self, [created, other]: [FieldDetail; 2], max_text: usize) -> Value {
        if self.fields.is_empty() {
            return Value::Null;
        }
        let detail = if self.creates { created } else { other };
        let mut text = String::new();
        for field in &self.fields {
            let (separator, part) = match detail {
                FieldDetail::Values => ("; ", self.describe(field)),
                FieldDetail::Names => (", ", field.name.clone()),
                FieldDetail::Nothing => break,
            };
            if text.len() + part.len() > max_text {
                text.push_str(if text.is_empty() { "" } else { ", …" });
                break;
            }
            if !text.is_empty() {
                text.push_str(separator);
            }
            text.push_str(&part);
        }
        let mut schema = json!({ "type": "object" });
        if !text.is_empty() {
            schema["description"] = text.into();
        }
        schema
    }

    /// `risk: Low, High`, `effort (required): number`.
    fn describe(&self, field: &CustomField) -> String {
        let required = if field.is_required && self.creates { " (required)" } else { "" };
        let values = match &*field.choices {
            [] => field.field_type.name().to_owned(),
            choices => choices.join(", "),
        };
        format!("{}{required}: {values}", field.name)
    }
}
