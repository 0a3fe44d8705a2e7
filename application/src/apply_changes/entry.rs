//! One entry of `apply_changes`: its operation, and the arguments of the tool that does the same.

use reqlore_domain::backlog::reference::ParsedReference;
use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::bounded_types::truncate_echo;
use reqlore_domain::document::DocumentKind;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::project_resolver::Toolset;
use reqlore_domain::ports::service::ToolCall;
use reqlore_domain::records::fields::{FieldType, fields_of};
use reqlore_domain::records::kinds::{IdSource, KINDS, RecordKind, find_kind};
use reqlore_domain::untrusted_text::encode_line;
use serde_json::{Map, Value};

use crate::sections::rule_change::{self, RuleOperation};
use crate::tools::tool::{ListedTool, ToolRequest};
use crate::writes::change::Change;
use crate::writes::local_names::{LocalItem, LocalNames};

/// The kind of a new document.
#[derive(Clone, Copy)]
pub(super) enum NewKind {
    Record(&'static RecordKind),
    Rule,
}

/// The value of `create` for a rule.
const RULE: &str = "rule";

impl NewKind {
    fn parse(text: &str) -> Option<Self> {
        if text.trim().trim_end_matches('s').eq_ignore_ascii_case(RULE) {
            return Some(Self::Rule);
        }
        find_kind(text).map(Self::Record)
    }

    /// The names of all kinds of these toolsets.
    pub(super) fn names(toolsets: &[Toolset]) -> Vec<&'static str> {
        let kinds = KINDS.iter().filter(|kind| toolsets.contains(&kind.toolset));
        let mut names: Vec<_> = kinds.map(|kind| kind.name).collect();
        if toolsets.contains(&Toolset::Sections) {
            names.push(RULE);
        }
        names
    }

    fn document_kind(self) -> DocumentKind {
        match self {
            Self::Record(kind) => {
                ItemKind::from_name(kind.name).map_or(DocumentKind::Entity, DocumentKind::Item)
            }
            Self::Rule => DocumentKind::Section,
        }
    }
}

/// The operation of an entry.
#[derive(Clone, Copy)]
pub(super) enum Operation {
    Create(NewKind),
    UpdateItem(ItemKind),
    UpdateEntity,
    UpdateRule,
    Delete,
    DeleteRule,
    Relate,
}

impl Operation {
    /// The tool that does the same for one item.
    fn tool(self) -> &'static str {
        match self {
            Self::Create(NewKind::Record(kind)) => kind.create_tool,
            Self::UpdateItem(kind) => kind.row().update_tool,
            Self::UpdateEntity => "ixchel_update",
            Self::Delete => "delete_item",
            Self::Relate => "create_relationship",
            Self::Create(NewKind::Rule) | Self::UpdateRule | Self::DeleteRule => {
                self.rule_operation().map_or("", RuleOperation::tool)
            }
        }
    }

    fn rule_operation(self) -> Option<RuleOperation> {
        match self {
            Self::Create(NewKind::Rule) => Some(RuleOperation::Create),
            Self::UpdateRule => Some(RuleOperation::Update),
            Self::DeleteRule => Some(RuleOperation::Delete),
            _ => None,
        }
    }

    /// The arguments of the tool that have the value of the entry's operation.
    fn arguments(self, text: &str) -> Vec<(String, Value)> {
        let name = match self {
            Self::Create(NewKind::Record(kind)) if kind.id_source == IdSource::FrontMatter => {
                "kind"
            }
            Self::Create(_) | Self::Relate => return Vec::new(),
            Self::UpdateItem(kind) => kind.name(),
            Self::UpdateEntity => "id",
            Self::Delete => "reference",
            Self::UpdateRule | Self::DeleteRule => {
                let (section, index) = rule_change::parse_address(text).unwrap_or_default();
                let [section, index] = [("section", section), ("index", index)];
                return [section, index].map(|(key, value)| (key.to_owned(), value.into())).into();
            }
        };
        vec![(name.to_owned(), text.into())]
    }

    /// The key of an entry that became this argument of the tool.
    pub(super) fn entry_key(self, argument: &str) -> String {
        let own = match self {
            Self::Relate if matches!(argument, "source" | "target" | "type") => {
                return format!("relate.{argument}");
            }
            Self::Create(NewKind::Record(_)) if argument == "kind" => "create",
            Self::UpdateItem(kind) if argument == kind.name() => "update",
            Self::UpdateEntity if argument == "id" => "update",
            Self::UpdateRule if matches!(argument, "section" | "index") => "update",
            Self::Delete if argument == "reference" => "delete",
            Self::DeleteRule if matches!(argument, "section" | "index") => "delete",
            _ => argument,
        };
        own.to_owned()
    }

    /// The argument for a long text.
    fn text_argument(self) -> Option<&'static str> {
        let text_of = |kind| fields_of(kind).find(|field| field.field_type == FieldType::Body);
        match self {
            Self::Create(NewKind::Record(kind)) => text_of(kind).map(|field| field.name),
            Self::UpdateItem(kind) => text_of(kind.row()).map(|field| field.name),
            Self::UpdateEntity => Some("body"),
            Self::Create(NewKind::Rule) | Self::UpdateRule => Some("text"),
            Self::Delete | Self::DeleteRule | Self::Relate => None,
        }
    }
}

/// An entry with the arguments of its tool.
pub(super) struct Entry {
    pub(super) operation: Operation,
    name: Option<String>,
    arguments: Map<String, Value>,
}

const OPERATIONS: [&str; 4] = ["create", "update", "delete", "relate"];

impl Entry {
    pub(super) fn parse(entry: Value) -> Result<Self> {
        let Some(mut entry) = into_object(entry) else {
            return Err(invalid_entry(
                "not an object; send one such as {\"update\": \"REQ-048\", \"status\": \"Active\"}"
                    .to_owned(),
            ));
        };
        let name = match entry.remove("name") {
            None | Some(Value::Null) => None,
            // Sent as it is used.
            Some(Value::String(name)) => Some(name.trim_start_matches('$').to_owned()),
            Some(_) => {
                return Err(invalid_entry("name: send text".to_owned()).field("name"));
            }
        };
        let (key, value) = take_operation(&mut entry)?;
        let (operation, own_arguments) = match (key, value) {
            ("relate", value) => {
                let Some(relationship) = into_object(value) else {
                    let message = "relate: send an object with source, target and type";
                    return Err(invalid_entry(message.to_owned()).field(key));
                };
                (Operation::Relate, relationship)
            }
            (key, Value::String(text)) => {
                let is_rule = rule_change::parse_address(&text).is_some();
                let operation = match key {
                    "create" => Operation::Create(parse_kind(&text)?),
                    "update" if is_rule => Operation::UpdateRule,
                    "update" => parse_update(&text),
                    _ if is_rule => Operation::DeleteRule,
                    _ => Operation::Delete,
                };
                check_not_local(&text, key)?;
                (operation, Map::from_iter(operation.arguments(&text)))
            }
            (key, _) => return Err(invalid_entry(format!("{key}: send text")).field(key)),
        };
        if name.is_some() && !matches!(operation, Operation::Create(_)) {
            let message = "name: allowed only with create; remove name".to_owned();
            return Err(invalid_entry(message).field("name"));
        }
        for key in own_arguments.keys() {
            if entry.get(key).is_some_and(|value| !value.is_null()) {
                let own = operation.entry_key(key);
                let message = format!("{key}: {own} already sets it; remove {key}");
                return Err(invalid_entry(message).field(key));
            }
        }
        entry.extend(own_arguments);
        if let Some(argument) = operation.text_argument() {
            rename_text(&mut entry, argument);
        }
        Ok(Self { operation, name, arguments: entry })
    }

    /// Authorizes and decodes the entry by its tool, and defines its name.
    pub(super) fn decode(
        self,
        request: &ToolRequest<'_>,
        tools: &[ListedTool],
        position: usize,
        names: &mut LocalNames,
    ) -> Result<Box<dyn Change>> {
        let change = self.decode_change(request, tools, names);
        if let (Some(name), Operation::Create(kind)) = (&self.name, self.operation) {
            // After decoding, so that an entry cannot refer to itself. Also after an error, so that
            // later entries do not repeat it.
            let item = LocalItem { entry: position, kind: kind.document_kind() };
            let defined = names.define(name, item);
            return change.and_then(|change| defined.map(|()| change));
        }
        change
    }

    fn decode_change(
        &self,
        request: &ToolRequest<'_>,
        tools: &[ListedTool],
        names: &LocalNames,
    ) -> Result<Box<dyn Change>> {
        let tool = self.operation.tool();
        let Some((spec, handler)) = tools.iter().find(|(spec, _)| spec.name == tool) else {
            return Err(disabled_tool_error(tool));
        };
        // Each entry needs the access of its own tool.
        let ToolRequest { context, call, .. } = request;
        context.check_access(&call.caller, spec.access, spec.name)?;
        let mut call = ToolCall { arguments: self.arguments.clone(), ..call.clone() };
        if let Some(operation) = self.operation.rule_operation() {
            return operation.decode(&mut call);
        }
        let Some(handler) = handler.as_write_tool() else {
            return Err(disabled_tool_error(tool));
        };
        handler.decode(&mut ToolRequest { context, spec, call }, names)
    }
}

fn disabled_tool_error(tool: &str) -> Error {
    let message = format!("{tool} is not enabled; this server runs without its toolset");
    Error::new(ErrorKind::Refused, message)
}

/// Takes the only operation of an entry and its value.
fn take_operation(entry: &mut Map<String, Value>) -> Result<(&'static str, Value)> {
    let mut given = Vec::new();
    for key in OPERATIONS {
        match entry.remove(key) {
            None | Some(Value::Null) => {}
            Some(value) => given.push((key, value)),
        }
    }
    if given.len() == 1
        && let Some(operation) = given.pop()
    {
        return Ok(operation);
    }
    let keys: Vec<&str> = given.iter().map(|(key, _)| *key).collect();
    let keys = if keys.is_empty() { "none".to_owned() } else { keys.join(" and ") };
    let message = format!("send exactly one of {}; it has {keys}", OPERATIONS.join(", "));
    Err(invalid_entry(message))
}

/// An object, also as JSON text: some models write it so.
fn into_object(value: Value) -> Option<Map<String, Value>> {
    match value {
        Value::Object(object) => Some(object),
        Value::String(text) => serde_json::from_str(&text).ok(),
        _ => None,
    }
}

/// Renames the argument for a long text if the entry has that of another kind.
fn rename_text(entry: &mut Map<String, Value>, argument: &str) {
    let has = |key: &str| entry.get(key).is_some_and(|value| !value.is_null());
    let mut others = ["description", "body", "text"].into_iter().filter(|key| has(key));
    if let (Some(other), None) = (others.next(), others.next())
        && other != argument
        && let Some(value) = entry.remove(other)
    {
        entry.insert(argument.to_owned(), value);
    }
}

fn invalid_entry(message: String) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}

fn parse_kind(text: &str) -> Result<NewKind> {
    NewKind::parse(text).ok_or_else(|| {
        let message = format!(
            "create: {:?} is not one of {}",
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
    if id.trim_start().starts_with('$') { Err(own_item_error(id, key)) } else { Ok(()) }
}

pub(super) fn own_item_error(id: &str, key: &str) -> Error {
    let message = format!(
        "{key}: {} is created by this call; move these values into the entry that creates it",
        truncate_echo(id)
    );
    Error::new(ErrorKind::Refused, message).field(key)
}

pub(super) fn local_name(entry: &Value) -> Option<String> {
    let name = entry.get("name")?.as_str()?;
    Some(name.trim_start_matches('$').to_owned())
}

/// The operation and the item of an entry as sent, for errors; empty if it has none.
pub(super) fn describe(entry: &Value) -> String {
    const MAX_TITLE_CHARS: usize = 60;
    let text = |key: &str| entry.get(key).and_then(Value::as_str).map(str::trim);
    if let Some(kind) = text("create") {
        let kind = encode_line(truncate_echo(kind)).into_owned();
        let Some(title) = text("title") else { return format!("create {kind}") };
        let mut shown: String = title.chars().take(MAX_TITLE_CHARS).collect();
        if shown.len() < title.len() {
            shown.push('…');
        }
        return format!("create {kind} \"{}\"", encode_line(&shown));
    }
    for key in ["update", "delete"] {
        if let Some(id) = text(key) {
            return format!("{key} {}", encode_line(truncate_echo(id)));
        }
    }
    let Some(Value::Object(relationship)) = entry.get("relate") else { return String::new() };
    let words = ["source", "type", "target"].map(|key| relationship.get(key)?.as_str());
    let words: Vec<_> = words.into_iter().flatten().map(truncate_echo).collect();
    encode_line(&format!("relate {}", words.join(" "))).trim_end().to_owned()
}
