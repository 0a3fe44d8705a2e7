//! The tools that create and update an item, such as `create_epic` and `update_epic`: the fields of
//! the kind are their arguments.

use std::fmt;
use std::marker::PhantomData;

use reqlore_domain::backlog::Reference;
use reqlore_domain::backlog::fields::{
    Assignee, Description, MAX_DESCRIPTION_CHARS, Status, Tags, Title,
};
use reqlore_domain::bounded_types::BoundedString;
use reqlore_domain::document::VersionPrefix;
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::ToolSpec;
use reqlore_domain::records::custom_field::CustomType;
use reqlore_domain::records::edit::RecordEdit;
use reqlore_domain::records::ended::SUPERSEDES;
use reqlore_domain::records::fields::{FieldType, RecordField, fields_of, value_fields};
use reqlore_domain::records::kinds::{ItemKind, RecordKind};
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use super::arguments::{
    AnyItemRef, CriteriaStatusArgument, ItemTarget, PriorityArgument, RequirementStatusArgument,
    RequirementTypeArgument, WorkStatusArgument,
};
use crate::tools::arguments::{take_custom_fields, take_extra};
use crate::tools::tool::{ToolRequest, tool_of_schema};
use crate::writes::change::{Change, WriteTool};
use crate::writes::local_names::LocalNames;
use crate::writes::record_answer::ItemOutcome;
use crate::writes::record_change::{RecordChange, RecordTarget, WANTED_ID};
use crate::writes::record_links::{LinkChange, Target, find_targets};
use crate::writes::superseded_records::take_superseded;

/// The arguments of all kinds. The schema of a tool decides which of them it takes.
#[derive(Default)]
struct ItemArguments {
    /// The item itself and its parent.
    references: Vec<(ItemKind, AnyItemRef)>,
    fields: RecordEdit,
    if_version: Option<VersionPrefix>,
    /// Of requirements only.
    supersedes: Option<Vec<String>>,
}

type CriterionText = BoundedString<MAX_DESCRIPTION_CHARS>;
type CriteriaArguments = DecodedArguments<CriteriaStatusArgument, CriterionText>;
type RequirementArguments = DecodedArguments<RequirementStatusArgument, Description>;
type WorkArguments = DecodedArguments<WorkStatusArgument, Description>;

/// Decodes status and description as these types.
struct DecodedArguments<StatusArgument, Text>(ItemArguments, PhantomData<(StatusArgument, Text)>);

impl<'de, StatusArgument, Text> Deserialize<'de> for DecodedArguments<StatusArgument, Text>
where
    StatusArgument: Deserialize<'de> + Into<Status>,
    Text: Deserialize<'de> + ToString,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_map(Self(ItemArguments::default(), PhantomData))
    }
}

impl<'de, StatusArgument, Text> Visitor<'de> for DecodedArguments<StatusArgument, Text>
where
    StatusArgument: Deserialize<'de> + Into<Status>,
    Text: Deserialize<'de> + ToString,
{
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> std::result::Result<Self, A::Error> {
        let ItemArguments { references, fields, if_version, .. } = &mut self.0;
        while let Some(name) = map.next_key::<String>()? {
            match &*name {
                "title" => fields.title = Some(map.next_value::<Title>()?.into_string()),
                "description" => fields.body = Some(map.next_value::<Text>()?.to_string()),
                "status" => {
                    let status: Status = map.next_value::<StatusArgument>()?.into();
                    fields.status = Some(status.name().to_owned());
                }
                "priority" => fields.priority = Some(map.next_value::<PriorityArgument>()?.0),
                "type" => {
                    fields.requirement_type = Some(map.next_value::<RequirementTypeArgument>()?.0);
                }
                "assignee" => {
                    let assignee = map.next_value::<Assignee>()?;
                    fields.assignee = Some(assignee.name().unwrap_or_default().to_owned());
                }
                "tags" => fields.tags = Some(map.next_value::<Tags>()?.into_vec()),
                "if_version" => *if_version = Some(map.next_value()?),
                name => match ItemKind::from_name(name) {
                    Some(kind) => references.push((kind, map.next_value()?)),
                    None => _ = map.next_value::<IgnoredAny>()?,
                },
            }
        }
        Ok(self)
    }
}

impl ItemArguments {
    fn decode(kind: ItemKind, request: &mut ToolRequest<'_>) -> Result<Self> {
        // Not in the schema: only some projects have custom fields.
        let custom = take_custom_fields(&mut request.call.arguments)?;
        // Not in the schema either: few calls need them.
        let extra = take_extra(&mut request.call.arguments)?;
        let rank = request.call.arguments.remove("rank").filter(|rank| !rank.is_null());
        let rank = rank.map(|rank| rank.as_str().map_or_else(|| rank.to_string(), str::to_owned));
        let is_requirement = kind == ItemKind::Requirement;
        let supersedes =
            if is_requirement { take_superseded(&mut request.call.arguments)? } else { None };
        let mut arguments = match kind {
            ItemKind::Requirement => request.decode_exactly::<RequirementArguments>()?.0,
            ItemKind::AcceptanceCriteria => request.decode_exactly::<CriteriaArguments>()?.0,
            _ => request.decode_exactly::<WorkArguments>()?.0,
        };
        arguments.supersedes = supersedes;
        arguments.fields.rank = rank;
        arguments.fields.custom = custom.into_iter().collect();
        arguments.fields.extra = extra;
        Ok(arguments)
    }

    /// The argument that names an item of a kind: the item itself or its parent.
    fn reference(&self, kind: ItemKind) -> Option<&AnyItemRef> {
        self.references.iter().find(|(one, _)| *one == kind).map(|(_, reference)| reference)
    }

    /// The parent and the superseded requirements that the arguments name.
    fn links(&mut self, kind: ItemKind, names: &LocalNames) -> Result<LinkChange<Target>> {
        let given = kind.parent().and_then(|kind| Some((kind, self.reference(kind)?)));
        let parent = match given {
            Some((kind, given)) => {
                Some((kind.name(), Target::Item(given.resolve_kind(kind, names)?)))
            }
            None => None,
        };
        let supersedes =
            self.supersedes.take().map(|ids| find_targets(ids, names, SUPERSEDES)).transpose()?;
        Ok(LinkChange::Item { parent, supersedes })
    }
}

/// The schema of the arguments that create an item of a kind, or update one.
fn argument_schema(kind: &RecordKind, is_update: bool) -> Map<String, Value> {
    let fields: Vec<&RecordField> = fields_of(kind)
        .chain(value_fields().filter(|field| field.is_of(kind)))
        .filter(|field| field.is_editable || (!is_update && field.is_required))
        .collect();
    // A tool that updates one field needs it.
    let is_only = is_update && fields.len() == 1;
    let is_required = |field: &RecordField| is_only || (!is_update && field.is_required);
    let is_parent = |field: &RecordField| matches!(field.field_type, FieldType::Parent(_));
    let mut properties = Map::new();
    if is_update {
        properties.insert(kind.name.to_owned(), reference_schema(kind));
    }
    let mut required: Vec<&str> = properties.keys().map(|_| kind.name).collect();
    let mut ordered = fields.clone();
    // Stable: required fields come first when an item is created, and the parent before them.
    ordered.sort_by_key(|field| (!is_required(field), is_update || !is_parent(field)));
    for field in ordered {
        if is_required(field) {
            required.push(field.name);
        }
        let description = field.descriptions[usize::from(is_update)];
        properties.insert(field.name.to_owned(), field_schema(kind, field, description));
    }
    if is_update {
        let version = json!({ "type": "string", "description": "Current version." });
        properties.insert("if_version".to_owned(), version);
    }
    Map::from_iter([
        ("type".to_owned(), json!("object")),
        ("required".to_owned(), json!(required)),
        ("properties".to_owned(), properties.into()),
    ])
}

fn reference_schema(kind: &RecordKind) -> Value {
    json!({ "type": "string", "description": format!("Such as {}-047.", kind.prefixes[0]) })
}

fn field_schema(kind: &RecordKind, field: &RecordField, description: &str) -> Value {
    let mut schema = match field.field_type {
        FieldType::Parent(parent) => return reference_schema(parent.row()),
        FieldType::Status => {
            let names: Vec<&str> = kind.statuses.iter().map(Status::name).collect();
            json!({ "type": "string", "enum": names })
        }
        FieldType::Choice(names) | FieldType::Value(CustomType::Choice, names) => {
            json!({ "type": "string", "enum": names })
        }
        FieldType::Value(CustomType::Number, _) => json!({ "type": "number" }),
        FieldType::Priority => json!({ "type": "integer", "minimum": 1, "maximum": 4 }),
        FieldType::Tags | FieldType::Value(CustomType::Tags, _) => json!({ "type": "array" }),
        _ => json!({ "type": "string" }),
    };
    if !description.is_empty() {
        schema["description"] = json!(description);
    }
    if schema["type"] == "array" {
        schema["items"] = json!({ "type": "string" });
    }
    schema
}

/// Creates an item of a kind.
pub(crate) struct CreateItem(pub(crate) ItemKind);

impl WriteTool for CreateItem {
    fn spec(&self) -> ToolSpec {
        let ([title, description], row) = (self.0.row().tool_texts[0], self.0.row());
        let schema = argument_schema(row, false);
        tool_of_schema::<ItemOutcome>(row.create_tool, title, description, schema)
    }

    fn decode(&self, request: &mut ToolRequest<'_>, names: &LocalNames) -> Result<Box<dyn Change>> {
        // Not in the schema: only imports keep references.
        let wanted = request.call.arguments.remove(WANTED_ID);
        let wanted = wanted.as_ref().and_then(Value::as_str).and_then(Reference::parse);
        let wanted = wanted.filter(|reference| reference.kind == self.0);
        let mut arguments = ItemArguments::decode(self.0, request)?;
        let links = arguments.links(self.0, names)?;
        let (target, fields) = (RecordTarget::NewItem(self.0, wanted), arguments.fields);
        Ok(Box::new(RecordChange { target, fields, links, if_version: None, repo: None }))
    }
}

/// Updates the given fields of an item of a kind, or moves it.
pub(crate) struct UpdateItem(pub(crate) ItemKind);

impl WriteTool for UpdateItem {
    fn spec(&self) -> ToolSpec {
        let ([title, description], row) = (self.0.row().tool_texts[1], self.0.row());
        let schema = argument_schema(row, true);
        let spec = tool_of_schema::<ItemOutcome>(row.update_tool, title, description, schema);
        ToolSpec { is_idempotent: true, ..spec }
    }

    fn decode(&self, request: &mut ToolRequest<'_>, names: &LocalNames) -> Result<Box<dyn Change>> {
        let mut arguments = ItemArguments::decode(self.0, request)?;
        // The schema requires it, so an absent one is an empty text.
        let item =
            arguments.reference(self.0).unwrap_or(&AnyItemRef::default()).parse_kind(self.0)?;
        let target = RecordTarget::Item(ItemTarget::Stored(item));
        let (links, if_version) = (arguments.links(self.0, names)?, arguments.if_version.take());
        let fields = arguments.fields;
        RecordChange { target, fields, links, if_version, repo: None }.into_change(request.spec)
    }
}
