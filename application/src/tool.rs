//! The `Tool` trait, the list of all tools, and the decoding and schemas of their arguments.

use std::sync::Arc;

use async_trait::async_trait;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::Access;
use reqlore_domain::ports::project_resolver::Toolset;
use reqlore_domain::ports::service::{ToolCall, ToolReply, ToolSpec};
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::{ApplicationPorts, ToolContext, backlog, docsets, knowledge, sections};

#[async_trait]
pub(crate) trait Tool: Send + Sync {
    fn spec(&self) -> ToolSpec;

    /// Runs the tool; the caller's right to it is checked already.
    async fn call(
        &self,
        context: &ToolContext,
        spec: &ToolSpec,
        call: ToolCall,
    ) -> Result<ToolReply>;
}

/// The spec of a tool that only reads.
pub(crate) fn read_tool<Arguments: JsonSchema, Answer: JsonSchema>(
    name: &'static str,
    title: &'static str,
    description: &'static str,
) -> ToolSpec {
    ToolSpec {
        name,
        title,
        description,
        input_schema: argument_schema::<Arguments>(),
        output_schema: answer_schema::<Answer>(),
        access: Access::Read,
        may_change: false,
        destructive: false,
        idempotent: true,
    }
}

/// The spec of a tool that writes and takes nothing away.
pub(crate) fn write_tool<Arguments: JsonSchema, Answer: JsonSchema>(
    name: &'static str,
    title: &'static str,
    description: &'static str,
) -> ToolSpec {
    ToolSpec {
        access: Access::Write,
        may_change: true,
        idempotent: false,
        ..read_tool::<Arguments, Answer>(name, title, description)
    }
}

/// The JSON Schema (2020-12) of a type: self-contained, and with standard keywords only, because
/// some clients reject a tool with a keyword that they do not know.
pub(crate) fn schema<T: JsonSchema>() -> Map<String, Value> {
    let mut settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    settings.transforms.push(Box::new(RecursiveTransform(|schema: &mut Schema| {
        schema.remove("format");
        if schema.get("default").is_some_and(Value::is_null) {
            schema.remove("default");
        }
        if let Some(Value::String(description)) = schema.get_mut("description") {
            *description = description.replace('\n', " ");
        }
    })));
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.remove("title");
    // Some clients require it even when it is empty.
    schema.ensure_object().entry("properties").or_insert_with(|| Value::Object(Map::new()));
    schema.as_object().cloned().unwrap_or_default()
}

/// The schema of a tool's arguments. An optional argument may be absent but not null.
fn argument_schema<T: JsonSchema>() -> Map<String, Value> {
    let mut schema = schema::<T>();
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for property in properties.into_iter().flat_map(Map::values_mut) {
        if let Some(Value::Array(values)) = property.get_mut("enum") {
            values.retain(|value| !value.is_null());
        }
        if let Some(Value::Array(types)) = property.get("type") {
            property["type"] = types[0].clone();
        }
    }
    schema
}

/// The schema of a tool's answers. It allows additional keys: a later version may add some.
fn answer_schema<T: JsonSchema>() -> Map<String, Value> {
    fn remove_closed_keys(value: &mut Value) {
        match value {
            Value::Object(object) => {
                object.remove("additionalProperties");
                object.values_mut().for_each(remove_closed_keys);
            }
            Value::Array(items) => items.iter_mut().for_each(remove_closed_keys),
            _ => {}
        }
    }
    let mut schema = schema::<T>();
    schema.values_mut().for_each(remove_closed_keys);
    schema.remove("additionalProperties");
    schema
}

/// An answer with one text block.
pub(crate) fn reply(text: String, data: &impl Serialize) -> Result<ToolReply> {
    let data = serde_json::to_value(data).map_err(|error| {
        Error::new(ErrorKind::Internal, "The answer could not be written.").caused_by(error)
    })?;
    Ok(ToolReply { text: vec![text], data: Arc::new(data) })
}

/// The tools of the slices that the settings name.
pub(crate) fn enabled_tools(ports: &ApplicationPorts) -> Vec<Box<dyn Tool>> {
    let wanted = Toolset::ALL.into_iter().filter(|slice| ports.settings.toolsets.contains(slice));
    wanted.flat_map(|slice| toolset_tools(slice, ports)).collect()
}

fn toolset_tools(slice: Toolset, ports: &ApplicationPorts) -> Vec<Box<dyn Tool>> {
    match slice {
        Toolset::Sections => vec![
            Box::new(sections::get_instructions::GetInstructions),
            Box::<sections::get_requirements::GetRequirements>::default(),
            Box::new(sections::set_requirements::SetRequirements),
            Box::new(sections::delete_requirements::DeleteRequirements),
        ],
        Toolset::Backlog => backlog::tools(),
        Toolset::Docsets => {
            vec![
                Box::new(docsets::search_docs::SearchDocs),
                Box::new(docsets::list_docsets::ListDocsets),
            ]
        }
        Toolset::Knowledge => vec![
            Box::new(knowledge::sync::SyncTool { imports_files: ports.tree.is_some() }),
            Box::new(knowledge::search::SearchTool),
            Box::new(knowledge::show::ShowTool),
            Box::new(knowledge::show_graph::GraphTool),
            Box::new(knowledge::context::ContextTool),
            Box::new(knowledge::tags::TagsTool),
        ],
    }
}

/// Maximum characters of a reason; the rest would repeat the caller's own text.
const MAX_REASON_CHARS: usize = 300;

/// Decodes the arguments of a call. An optional argument may be absent but not null, so `Option`
/// fields never see a null.
pub(crate) fn decode<T: DeserializeOwned>(call: &mut ToolCall, spec: &ToolSpec) -> Result<T> {
    let arguments = std::mem::take(&mut call.arguments);
    let has_null = arguments.values().any(Value::is_null);
    let arguments = Value::Object(arguments);
    // Straight from the values: following the path costs an allocation at every step.
    match T::deserialize(&arguments) {
        Ok(decoded) if !has_null => Ok(decoded),
        _ => Err(invalid_arguments::<T>(arguments, spec)),
    }
}

fn invalid_arguments<T: DeserializeOwned>(mut arguments: Value, spec: &ToolSpec) -> Error {
    let mut faults = schema_violations(&arguments, spec);
    // Each round takes out the argument that is to blame; what is missing was told above.
    while let Err(error) = serde_path_to_error::deserialize::<_, T>(&arguments) {
        let path = error.path().to_string();
        let name = path.split(['.', '[']).next().unwrap_or_default().to_owned();
        let Some(object) = arguments.as_object_mut() else {
            break;
        };
        if object.remove(&name).is_none() {
            break;
        }
        if !faults.iter().any(|(field, _)| *field == name) {
            let reason: String = error.inner().to_string().chars().take(MAX_REASON_CHARS).collect();
            faults.push((path, reason));
        }
    }
    let fields = || faults.iter().map(|(field, reason)| format!("{field}: {reason}"));
    let message = format!("Invalid arguments. {}.", fields().collect::<Vec<_>>().join(". "));
    let error = Error::new(ErrorKind::InvalidArgument, message);
    match faults.into_iter().next() {
        Some((field, _)) => error.field(field),
        None => error,
    }
}

/// Unknown, missing and null arguments, by the published schema.
fn schema_violations(arguments: &Value, spec: &ToolSpec) -> Vec<(String, String)> {
    let mut faults = Vec::new();
    let (Some(given), Some(properties)) =
        (arguments.as_object(), spec.input_schema.get("properties").and_then(Value::as_object))
    else {
        return faults;
    };
    let known: Vec<&str> = properties.keys().map(String::as_str).collect();
    let accepted = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    let required = spec.input_schema.get("required").and_then(Value::as_array);
    let required: Vec<&str> = required.into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, value) in given {
        if !known.contains(&name.as_str()) {
            let name: String = name.chars().take(MAX_REASON_CHARS).collect();
            faults.push((name, format!("unknown argument; {} takes {accepted}", spec.name)));
        } else if value.is_null() && !required.contains(&name.as_str()) {
            faults.push((name.clone(), "null is not a value; leave the argument out".to_owned()));
        }
    }
    for name in required {
        if given.get(name).is_none_or(Value::is_null) {
            faults.push((name.to_owned(), "required, and missing".to_owned()));
        }
    }
    faults
}
