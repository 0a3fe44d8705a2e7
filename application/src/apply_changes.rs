//! `apply_changes`: several changes in one commit. Each entry is authorized and decoded as by the
//! tool for one item.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use reqlore_domain::backlog::reference::ParsedReference;
use reqlore_domain::backlog::{ItemKind, Reference, RelationshipType};
use reqlore_domain::bounded_types::truncate_echo;
use reqlore_domain::document::{Document, DocumentKind, DocumentMeta};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::knowledge::EntityKind;
use reqlore_domain::ports::project_resolver::Toolset;
use reqlore_domain::ports::service::{ToolCall, ToolSpec};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use reqlore_domain::untrusted_text::{encode_id, encode_line};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::answer::{ToolAnswer, reply};
use crate::change::{Action, Change, ChangeBatch, ChangeOutcome, LocalItem, LocalNames};
use crate::tool::{Tool, decode_arguments, write_tool};
use crate::{ToolContext, synonyms};

pub(crate) struct ApplyChanges {
    /// The toolsets whose items it creates.
    pub(crate) toolsets: Vec<Toolset>,
}

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
                    "create": { "enum": NewKind::names(&Toolset::ALL) },
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
        let mut spec = ToolSpec {
            is_destructive: true,
            ..write_tool::<Arguments, AppliedChanges>(
                "apply_changes",
                "Create or change many items at once",
                "Creates, updates, deletes and relates up to 100 items in one commit: all or \
                 nothing. Each entry has exactly one of create (a kind), update, delete, relate; \
                 its other keys are the arguments of the tool for one item.",
            )
        };
        // A model would try a kind that is listed.
        let create = "/properties/changes/items/properties/create/enum";
        let mut schema = Value::Object(std::mem::take(&mut spec.input_schema));
        if let Some(kinds) = schema.pointer_mut(create) {
            *kinds = NewKind::names(&self.toolsets).into();
        }
        if let Value::Object(schema) = schema {
            spec.input_schema = schema;
        }
        spec
    }

    async fn call(
        &self,
        context: &ToolContext,
        spec: &ToolSpec,
        mut call: ToolCall,
    ) -> Result<ToolAnswer> {
        let Arguments { changes: EntryList(entries), dry_run } = decode_arguments(&mut call, spec)?;
        // Checked here, because the deserializer does not enforce `minItems` and `maxItems`.
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
                change.map_err(|error| label_entry(position, Some(entry.operation), error))?;
            changes.push(change);
            operations.push(entry.operation);
        }
        let batch = ChangeBatch {
            reason: format!("apply {count} {}", change_noun(count)),
            changes,
            is_dry_run: dry_run,
            label_error: Arc::new(move |position, error| {
                label_entry(position, operations.get(position).copied(), error)
            }),
        };
        let (project, outcomes) = batch.commit(context, &call, spec).await?;
        render_outcomes(&project, outcomes, dry_run)
    }
}

/// The kind of a new document.
#[derive(Clone, Copy)]
enum NewKind {
    Item(ItemKind),
    Entity,
}

impl NewKind {
    fn parse(text: &str) -> Option<Self> {
        let item = synonyms::find_value(&ItemKind::ALL, ItemKind::name, text).map(Self::Item);
        item.or_else(|| EntityKind::parse(text).map(|_| Self::Entity))
    }

    /// The names of all kinds of these toolsets.
    fn names(toolsets: &[Toolset]) -> Vec<&'static str> {
        let mut names = Vec::new();
        if toolsets.contains(&Toolset::Backlog) {
            names.extend(ItemKind::ALL.map(ItemKind::name));
        }
        if toolsets.contains(&Toolset::Knowledge) {
            names.extend(EntityKind::ALL.map(EntityKind::name));
        }
        names
    }

    fn document_kind(self) -> DocumentKind {
        match self {
            Self::Item(kind) => DocumentKind::Item(kind),
            Self::Entity => DocumentKind::Entity,
        }
    }
}

/// The operation of an entry.
#[derive(Clone, Copy)]
enum Operation {
    Create(NewKind),
    UpdateItem(ItemKind),
    UpdateEntity,
    Delete,
    Relate,
}

impl Operation {
    /// The tool that does the same for one item.
    fn tool(self) -> &'static str {
        match self {
            Self::Create(NewKind::Item(ItemKind::Epic)) => "create_epic",
            Self::Create(NewKind::Item(ItemKind::UserStory)) => "create_user_story",
            Self::Create(NewKind::Item(ItemKind::Requirement)) => "create_requirement",
            Self::Create(NewKind::Item(ItemKind::AcceptanceCriteria)) => {
                "create_acceptance_criteria"
            }
            Self::Create(NewKind::Entity) => "ixchel_create",
            Self::UpdateItem(ItemKind::Epic) => "update_epic",
            Self::UpdateItem(ItemKind::UserStory) => "update_user_story",
            Self::UpdateItem(ItemKind::Requirement) => "update_requirement",
            Self::UpdateItem(ItemKind::AcceptanceCriteria) => "update_acceptance_criteria",
            Self::UpdateEntity => "ixchel_update",
            Self::Delete => "delete_item",
            Self::Relate => "create_relationship",
        }
    }

    /// The argument of the tool that has the value of the entry's operation.
    fn argument(self) -> Option<&'static str> {
        match self {
            Self::Create(NewKind::Item(_)) | Self::Relate => None,
            Self::Create(NewKind::Entity) => Some("kind"),
            Self::UpdateItem(kind) => Some(kind.name()),
            Self::UpdateEntity => Some("id"),
            Self::Delete => Some("reference"),
        }
    }

    /// The key of an entry that became this argument of the tool.
    fn entry_key(self, argument: &str) -> String {
        match self {
            Self::Relate if matches!(argument, "source" | "target" | "type") => {
                format!("relate.{argument}")
            }
            _ if self.argument() != Some(argument) => argument.to_owned(),
            Self::Create(_) => "create".to_owned(),
            Self::Delete => "delete".to_owned(),
            _ => "update".to_owned(),
        }
    }
}

/// Adds the position to the error of an entry. The message counts from 1, the path from 0.
fn label_entry(position: usize, operation: Option<Operation>, mut error: Error) -> Error {
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
            ("relate", Value::Object(relationship)) => (Operation::Relate, relationship),
            ("relate", _) => {
                return Err(invalid_entry("relate: it is not an object".to_owned()).field(key));
            }
            (key, Value::String(text)) => {
                let operation = match key {
                    "create" => Operation::Create(parse_kind(&text)?),
                    "update" => parse_update(&text),
                    _ => Operation::Delete,
                };
                check_not_local(&text, key)?;
                let argument = operation.argument().map(|name| (name.to_owned(), text.into()));
                (operation, Map::from_iter(argument))
            }
            (key, _) => {
                return Err(invalid_entry(format!("{key}: it is not a string")).field(key));
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
            let message = format!("{tool} is not enabled; this server runs without its toolset");
            return Err(Error::new(ErrorKind::Refused, message));
        };
        // Each entry needs the access of its own tool.
        context.check_access(&call.caller, spec.access, spec.name)?;
        let mut call = ToolCall { arguments: self.arguments.clone(), ..call.clone() };
        let change = tool.decode(&mut call, spec, names)?;
        if let (Some(name), Operation::Create(kind)) = (&self.name, &self.operation) {
            // After decoding, so that an entry cannot refer to itself.
            names.define(name, LocalItem { entry: position, kind: kind.document_kind() })?;
        }
        Ok(change)
    }
}

fn invalid_entry(message: String) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}

fn parse_kind(text: &str) -> Result<NewKind> {
    NewKind::parse(text).ok_or_else(|| {
        let message = format!(
            "create: {:?} is not one of {}; a requirement of a section is written by \
             reqlix_set_requirements",
            truncate_echo(text),
            NewKind::names(&Toolset::ALL).join(", ")
        );
        invalid_entry(message).field("create")
    })
}

/// Anything but a reference is the ID of an entity; `ixchel_update` names the tool of another ID.
fn parse_update(id: &str) -> Operation {
    for kind in ItemKind::ALL {
        if Reference::parse_any_case(kind, id) != ParsedReference::Malformed {
            return Operation::UpdateItem(kind);
        }
    }
    Operation::UpdateEntity
}

/// Rejects the local name of a new item.
fn check_not_local(id: &str, key: &str) -> Result<()> {
    if !id.trim_start().starts_with('$') {
        return Ok(());
    }
    let message = format!(
        "{key}: {} is created by this call; an item may be changed by one entry only, so put its \
         values into the entry that creates it",
        truncate_echo(id)
    );
    Err(Error::new(ErrorKind::Refused, message).field(key))
}

fn change_noun(count: usize) -> &'static str {
    if count == 1 { "change" } else { "changes" }
}

fn render_outcomes(
    project: &ProjectKey,
    outcomes: Vec<ChangeOutcome>,
    dry_run: bool,
) -> Result<ToolAnswer> {
    let count = outcomes.len();
    let noun = change_noun(count);
    let mut text = if dry_run {
        format!("Dry run: {count} {noun} would be applied; nothing was written")
    } else {
        format!("Applied {count} {noun}")
    };
    // A dry run reserves no reference.
    let mut unissued = BTreeSet::new();
    for outcome in &outcomes {
        if dry_run && outcome.action == Action::Create {
            unissued.insert(outcome.document.id.clone());
        }
    }
    let mut results = Vec::with_capacity(count);
    for (position, outcome) in outcomes.into_iter().enumerate() {
        let ChangeOutcome { action, document, render } = outcome;
        let subject = Subject::of(&document);
        let is_issued = !unissued.contains(&document.id);
        let rendered = render(&document)?;
        let rendered = rendered.whole_text();
        let mut lines = rendered.lines();
        let done = lines.next().unwrap_or_default();
        let line = if dry_run { subject.planned_line(action, is_issued) } else { done.to_owned() };
        text = format!("{text}\n{}. {line}", position + 1);
        // Other items that a deletion changes.
        for line in lines {
            text = format!("{text}\n   {line}");
        }
        results.push(EntryResult {
            action: action_name(action),
            id: is_issued.then_some(subject.id),
            version: (!dry_run).then(|| document.version.to_string()),
        });
    }
    let project = project.to_string();
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

    fn planned_line(&self, action: Action, is_issued: bool) -> String {
        let noun = encode_line(&self.noun);
        let (id, title) = (encode_id(&self.id), encode_line(&self.title));
        match action {
            action if !is_issued => format!("Would {} {noun}: {title}", action_name(action)),
            Action::Keep => format!("No change in {noun} {id}: {title}"),
            action => format!("Would {} {noun} {id}: {title}", action_name(action)),
        }
    }
}
