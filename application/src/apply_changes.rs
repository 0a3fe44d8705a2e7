//! `apply_changes`: several changes in one commit. Each entry is authorized and decoded as by the
//! tool for one item.

use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;
use reqlore_domain::backlog::fields::find_by_name;
use reqlore_domain::backlog::{ItemKind, RelationshipType};
use reqlore_domain::bounded_types::truncate_echo;
use reqlore_domain::document::{Document, DocumentKind, DocumentMeta};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::service::{ToolCall, ToolReply, ToolSpec};
use reqlore_domain::timestamp::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ToolContext;
use crate::backlog::arguments::parse_reference;
use crate::change::{Action, Change, ChangeBatch, ChangeOutcome, LocalItem, LocalNames};
use crate::tool::{Tool, decode_arguments, reply, write_tool};

pub(crate) struct ApplyChanges;

const MAX_ENTRIES: usize = 100;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Applied in order.
    changes: EntryList,
    /// Validates and writes nothing.
    #[serde(default)]
    dry_run: bool,
}

/// The entries as sent: the tool of each entry decodes its keys.
#[derive(Deserialize)]
#[serde(transparent)]
struct EntryList(Vec<Value>);

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
            "minItems": 1,
            "maxItems": MAX_ENTRIES,
            "items": {
                "type": "object",
                "properties": {
                    "create": { "enum": ItemKind::ALL.map(ItemKind::name) },
                    "update": { "type": "string", "description": "ID." },
                    "delete": { "type": "string", "description": "ID." },
                    "relate": {
                        "type": "object",
                        "properties": {
                            "source": { "type": "string" },
                            "target": { "type": "string" },
                            "type": { "enum": RelationshipType::ALL.map(RelationshipType::name) }
                        },
                        "required": ["source", "target", "type"],
                        "additionalProperties": false
                    },
                    "name": {
                        "type": "string",
                        "pattern": "^[a-z][a-z0-9_-]{0,31}$",
                        "description": "Later entries pass \"$name\" as ID of the new item."
                    },
                    "epic": { "type": "string" },
                    "user_story": { "type": "string" },
                    "title": { "type": "string" },
                    "description": { "type": "string" },
                    "priority": { "type": "integer" },
                    "status": { "type": "string" },
                    "type": { "type": "string" },
                    "assignee": { "type": "string" },
                    "tags": { "type": "array", "items": { "type": "string" } },
                    "cascade": { "type": "boolean" },
                    "if_version": { "type": "string" }
                },
                "additionalProperties": false
            }
        })
    }
}

#[derive(Serialize, JsonSchema)]
struct AppliedChanges {
    project: String,
    dry_run: bool,
    /// One per entry.
    results: Vec<EntryResult>,
}

#[derive(Serialize, JsonSchema)]
struct EntryResult {
    action: &'static str,
    /// Absent for a new item in a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", default)]
    id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", default)]
    version: Option<String>,
}

#[async_trait]
impl Tool for ApplyChanges {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            is_destructive: true,
            ..write_tool::<Arguments, AppliedChanges>(
                "apply_changes",
                "Apply several changes",
                "Creates, updates, deletes and relates up to 100 items in one commit: all or \
                 nothing. Each entry has exactly one of create (a kind), update, delete, relate; \
                 its other keys are the arguments of the tool for one item.",
            )
        }
    }

    async fn call(
        &self,
        context: &ToolContext,
        spec: &ToolSpec,
        mut call: ToolCall,
    ) -> Result<ToolReply> {
        let Arguments { changes: EntryList(entries), dry_run } = decode_arguments(&mut call, spec)?;
        let count = entries.len();
        if !(1..=MAX_ENTRIES).contains(&count) {
            let message = format!("changes: it has {count} entries; pass 1 to {MAX_ENTRIES}");
            return Err(Error::new(ErrorKind::InvalidArgument, message).field("changes"));
        }
        let mut names = LocalNames::of_call();
        let mut changes = Vec::with_capacity(count);
        let mut operations = Vec::with_capacity(count);
        for (position, entry) in entries.into_iter().enumerate() {
            let entry = Entry::parse(entry).map_err(|error| label_entry(position, None, error))?;
            let change = entry.decode(context, &call, position, &mut names);
            let change =
                change.map_err(|error| label_entry(position, Some(&entry.operation), error))?;
            changes.push(change);
            operations.push(entry.operation);
        }
        let batch = ChangeBatch {
            reason: format!("apply {count} changes"),
            changes,
            is_dry_run: dry_run,
            label_error: Arc::new(move |position, error| {
                label_entry(position, operations.get(position), error)
            }),
        };
        let outcomes = batch.commit(context, &call, spec).await?;
        render_outcomes(&call, outcomes, dry_run)
    }
}

/// The operation of an entry.
enum Operation {
    Create(ItemKind),
    Update(ItemKind),
    Delete,
    Relate,
}

impl Operation {
    /// The tool that does the same for one item.
    fn tool(&self) -> &'static str {
        match self {
            Self::Create(ItemKind::Epic) => "create_epic",
            Self::Create(ItemKind::UserStory) => "create_user_story",
            Self::Create(ItemKind::Requirement) => "create_requirement",
            Self::Create(ItemKind::AcceptanceCriteria) => "create_acceptance_criteria",
            Self::Update(ItemKind::Epic) => "update_epic",
            Self::Update(ItemKind::UserStory) => "update_user_story",
            Self::Update(ItemKind::Requirement) => "update_requirement",
            Self::Update(ItemKind::AcceptanceCriteria) => "update_acceptance_criteria",
            Self::Delete => "delete_item",
            Self::Relate => "create_relationship",
        }
    }

    /// The key of an entry that became this argument of the tool.
    fn entry_key(&self, argument: &str) -> String {
        match (self, argument) {
            (Self::Update(kind), argument) if argument == kind.name() => "update".to_owned(),
            (Self::Delete, "reference") => "delete".to_owned(),
            (Self::Relate, "source" | "target" | "type") => format!("relate.{argument}"),
            _ => argument.to_owned(),
        }
    }
}

/// Adds the position to the error of an entry. The message counts from 1, the path from 0.
fn label_entry(position: usize, operation: Option<&Operation>, mut error: Error) -> Error {
    error.message = format!("Entry {}: {}", position + 1, error.message);
    let mut path = format!("changes[{position}]");
    if let Some(field) = &error.field {
        let key = operation.map_or_else(|| field.clone(), |operation| operation.entry_key(field));
        path = format!("{path}.{key}");
    }
    error.field(path)
}

/// An entry with the arguments of its tool.
struct Entry {
    operation: Operation,
    name: Option<String>,
    arguments: Map<String, Value>,
}

const OPERATIONS: [&str; 4] = ["create", "update", "delete", "relate"];

impl Entry {
    fn parse(entry: Value) -> Result<Self> {
        let Value::Object(mut entry) = entry else {
            return Err(invalid_entry("it is not an object; see the schema".to_owned()));
        };
        let name = match entry.remove("name") {
            None | Some(Value::Null) => None,
            Some(Value::String(name)) => Some(name),
            Some(_) => {
                return Err(invalid_entry("name: it is not a string".to_owned()).field("name"));
            }
        };
        let mut given = Vec::new();
        for key in OPERATIONS {
            match entry.remove(key) {
                None | Some(Value::Null) => {}
                Some(value) => given.push((key, value)),
            }
        }
        let keys: Vec<&str> = given.iter().map(|(key, _)| *key).collect();
        let keys = if keys.is_empty() { "none".to_owned() } else { keys.join(" and ") };
        let (Some((key, value)), 1) = (given.pop(), given.len() + 1) else {
            let message = format!("pass exactly one of {}; it has {keys}", OPERATIONS.join(", "));
            return Err(invalid_entry(message));
        };
        let (operation, own_arguments) = match (key, value) {
            ("create", Value::String(kind)) => (Operation::Create(parse_kind(&kind)?), Map::new()),
            ("update", Value::String(id)) => {
                let kind = parse_target(&id, key)?;
                (Operation::Update(kind), argument(kind.name(), id))
            }
            ("delete", Value::String(id)) => {
                parse_target(&id, key)?;
                (Operation::Delete, argument("reference", id))
            }
            ("relate", Value::Object(relationship)) => (Operation::Relate, relationship),
            (key, _) => {
                let expected = if key == "relate" { "an object" } else { "a string" };
                return Err(invalid_entry(format!("{key}: it is not {expected}")).field(key));
            }
        };
        if name.is_some() && !matches!(operation, Operation::Create(_)) {
            let message = "name: only an entry with create has one".to_owned();
            return Err(invalid_entry(message).field("name"));
        }
        for key in own_arguments.keys() {
            if entry.get(key).is_some_and(|value| !value.is_null()) {
                let own = operation.entry_key(key);
                let message = format!("{key}: {own} has this value; remove {key}");
                return Err(invalid_entry(message).field(key));
            }
        }
        entry.extend(own_arguments);
        Ok(Self { operation, name, arguments: entry })
    }

    /// Authorizes and decodes the entry by its tool, and defines its name.
    fn decode(
        &self,
        context: &ToolContext,
        call: &ToolCall,
        position: usize,
        names: &mut LocalNames,
    ) -> Result<Box<dyn Change>> {
        let tool = self.operation.tool();
        let enabled = context.find_tool(tool);
        let Some((spec, Some(tool))) = enabled.map(|(spec, tool)| (spec, tool.as_write_tool()))
        else {
            let message = format!("{tool} is not enabled; start the server with its toolset");
            return Err(Error::new(ErrorKind::Refused, message));
        };
        context.check_access(&call.caller, spec.access, spec.name)?;
        let mut call = ToolCall { arguments: self.arguments.clone(), ..call.clone() };
        let change = tool.decode(&mut call, spec, names)?;
        if let (Some(name), Operation::Create(kind)) = (&self.name, &self.operation) {
            names.define(name, LocalItem { entry: position, kind: DocumentKind::Item(*kind) })?;
        }
        Ok(change)
    }
}

fn argument(name: &str, value: String) -> Map<String, Value> {
    Map::from_iter([(name.to_owned(), Value::String(value))])
}

fn invalid_entry(message: String) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}

fn parse_kind(text: &str) -> Result<ItemKind> {
    if let Some(kind) = find_by_name(&ItemKind::ALL, ItemKind::name, text.trim()) {
        return Ok(kind);
    }
    let shown = truncate_echo(text);
    let message = format!(
        "create: {shown:?} is not one of {}; a requirement of a section is written by \
         reqlix_set_requirements",
        ItemKind::ALL.map(ItemKind::name).join(", ")
    );
    Err(invalid_entry(message).field("create"))
}

/// The kind of the item that an entry updates or deletes.
fn parse_target(id: &str, key: &str) -> Result<ItemKind> {
    if id.trim_start().starts_with('$') {
        let shown = truncate_echo(id);
        let message = format!(
            "{key}: {shown} is created by this call; an item may be changed by one entry only, so \
             put its values into the entry that creates it"
        );
        return Err(Error::new(ErrorKind::Refused, message).field(key));
    }
    Ok(parse_reference(&ItemKind::ALL, id, key)?.kind)
}

fn render_outcomes(
    call: &ToolCall,
    outcomes: Vec<ChangeOutcome>,
    dry_run: bool,
) -> Result<ToolReply> {
    let count = outcomes.len();
    let noun = if count == 1 { "change" } else { "changes" };
    let mut text = if dry_run {
        format!("Dry run: {count} {noun} would be applied; nothing was written")
    } else {
        format!("Applied {count} {noun}")
    };
    let mut results = Vec::with_capacity(count);
    for (position, outcome) in outcomes.into_iter().enumerate() {
        let ChangeOutcome { action, document, render } = outcome;
        let subject = Subject::of(&document);
        let rendered = render(&document)?;
        let mut lines = rendered.text.first().map(String::as_str).unwrap_or_default().lines();
        let done = lines.next().unwrap_or_default();
        let line = if dry_run { subject.planned_line(action) } else { done.to_owned() };
        text = format!("{text}\n{}. {line}", position + 1);
        // Other items that a deletion changes.
        for line in lines {
            text = format!("{text}\n   {line}");
        }
        let is_issued = !(dry_run && action == Action::Create);
        results.push(EntryResult {
            action: action_name(action),
            id: is_issued.then_some(subject.id),
            version: (!dry_run).then(|| document.version.to_string()),
        });
    }
    let project = call.caller.project.to_string();
    reply(text, &AppliedChanges { project, dry_run, results })
}

fn action_name(action: Action) -> &'static str {
    match action {
        Action::Create => "create",
        Action::Update => "update",
        Action::Keep => "keep",
        Action::Relate => "relate",
        Action::Delete => "delete",
    }
}

/// The item or entity of a document.
struct Subject {
    noun: String,
    id: String,
    title: String,
}

impl Subject {
    fn of(document: &Document) -> Self {
        // Times are not shown.
        let meta = DocumentMeta::from_document(document, Timestamp::default());
        match (&meta.item, &meta.entity) {
            (Some(item), _) => Self {
                noun: item.kind.noun().to_lowercase(),
                id: item.display_name(&document.id.name).into_owned(),
                title: item.title.clone(),
            },
            (_, Some(entity)) => Self {
                noun: entity.kind.clone(),
                id: entity.id.clone(),
                title: entity.title.clone(),
            },
            _ => Self { noun: String::new(), id: document.id.to_string(), title: String::new() },
        }
    }

    fn planned_line(&self, action: Action) -> String {
        let Self { noun, id, title } = self;
        match action {
            // A dry run reserves no reference.
            Action::Create => format!("Would create {noun}: {title}"),
            Action::Keep => format!("No change in {noun} {id}: {title}"),
            action => format!("Would {} {noun} {id}: {title}", action_name(action)),
        }
    }
}
