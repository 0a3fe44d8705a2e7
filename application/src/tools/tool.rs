//! The `Tool` trait, and the decoding and schemas of their arguments.

use std::sync::Arc;

use async_trait::async_trait;
use reqlore_domain::bounded_types::{shorten, truncate_echo};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::Access;
use reqlore_domain::ports::service::{ToolCall, ToolSpec};
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::untrusted_text::encode_line;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use serde_path_to_error::Segment;

use crate::answers::answer::{self, ToolAnswer};
use crate::context::ToolContext;
use crate::tools::arguments::CUSTOM_FIELDS;
use crate::tools::schema::{answer_schema, argument_schema, property, required_names};
use crate::tools::{arguments, synonyms};
use crate::writes::change::WriteTool;

#[async_trait]
pub(crate) trait Tool: Send + Sync {
    fn spec(&self) -> ToolSpec;

    /// Runs the tool. The service has authorized the caller.
    async fn call(&self, request: ToolRequest<'_>) -> Result<ToolAnswer>;

    /// `None` for a tool whose changes cannot be combined in one commit.
    fn as_write_tool(&self) -> Option<&dyn WriteTool> {
        None
    }
}

/// A call of a tool with the context of the call and the tool's spec.
pub(crate) struct ToolRequest<'a> {
    pub(crate) context: &'a ToolContext,
    pub(crate) spec: &'a ToolSpec,
    pub(crate) call: ToolCall,
}

impl ToolRequest<'_> {
    /// Decodes the arguments, which it takes out of the call.
    pub(crate) fn decode<T: DeserializeOwned>(&mut self) -> Result<T> {
        decode_arguments(&mut self.call, self.spec)
    }

    /// Like [`Self::decode`], for a type with more arguments than the schema of the tool has.
    pub(crate) fn decode_exactly<T: DeserializeOwned>(&mut self) -> Result<T> {
        let arguments = take_arguments(&mut self.call, self.spec);
        if schema_violations(&arguments, self.spec).is_empty()
            && let Ok(decoded) = T::deserialize(&arguments)
        {
            return Ok(decoded);
        }
        Err(invalid_arguments::<T>(arguments, self.spec))
    }

    /// The context of a write. All commits of the call have the same tool name and time.
    pub(crate) fn write_context(&self, reason: impl Into<String>) -> WriteContext {
        let Self { context, spec, call } = self;
        WriteContext {
            caller: call.caller.clone(),
            tool: spec.name,
            reason: reason.into(),
            correlation_id: call.correlation_id.clone(),
            at: *context.written_at.get_or_init(|| context.ports.clock.now()),
            audited: context.audit.clone(),
            idempotency_key: context.idempotency_key.clone(),
        }
    }
}

/// A tool and its spec, as the settings list it.
pub(crate) type ListedTool = (ToolSpec, Arc<dyn Tool>);

/// The spec of a tool that only reads. Its answer has a limit, which `max_tokens` sets.
pub(crate) fn read_tool<Arguments: JsonSchema, Answer: JsonSchema>(
    name: &'static str,
    title: &'static str,
    description: &'static str,
) -> ToolSpec {
    let mut spec = whole_tool::<Arguments, Answer>(name, title, description);
    if let Some(Value::Object(properties)) = spec.input_schema.get_mut("properties") {
        properties.insert(answer::MAX_TOKENS.to_owned(), json!({ "type": "integer" }));
    }
    ToolSpec { is_whole: false, ..spec }
}

/// The spec of a tool that only reads, and whose answer is always whole.
pub(crate) fn whole_tool<Arguments: JsonSchema, Answer: JsonSchema>(
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
        is_destructive: false,
        is_idempotent: true,
        is_whole: true,
        is_listed: true,
    }
}

/// The spec of a tool that writes without removing data.
pub(crate) fn write_tool<Arguments: JsonSchema, Answer: JsonSchema>(
    name: &'static str,
    title: &'static str,
    description: &'static str,
) -> ToolSpec {
    ToolSpec {
        access: Access::Write,
        may_change: true,
        is_idempotent: false,
        is_whole: false,
        ..whole_tool::<Arguments, Answer>(name, title, description)
    }
}

/// Like [`write_tool`], with a schema that no type has.
pub(crate) fn tool_of_schema<Answer: JsonSchema>(
    name: &'static str,
    title: &'static str,
    description: &'static str,
    input_schema: Map<String, Value>,
) -> ToolSpec {
    ToolSpec { input_schema, ..write_tool::<(), Answer>(name, title, description) }
}

/// The error of an update without a field to change.
pub(crate) fn nothing_to_change_error(spec: &ToolSpec) -> Error {
    // These choose the document and its version, and change nothing.
    const CONDITIONS: [&str; 2] = ["if_version", "repo"];
    let mut optional_fields = Vec::new();
    if let Some(Value::Object(properties)) = spec.input_schema.get("properties") {
        let required = spec.input_schema.get("required").and_then(Value::as_array);
        for name in properties.keys() {
            let is_required = required.is_some_and(|names| names.iter().any(|key| key == name));
            if !is_required && !CONDITIONS.contains(&name.as_str()) {
                optional_fields.push(name.as_str());
            }
        }
    }
    let names = optional_fields.join(", ");
    let message = format!("No field to change was given; pass at least one of {names}");
    Error::new(ErrorKind::InvalidArgument, message)
        .field(optional_fields.first().copied().unwrap_or_default())
}

/// Maximum characters of one reason; longer ones repeat the caller's input.
const MAX_REASON_CHARS: usize = 300;

// The arguments of a tool that takes none. (A doc comment would enter the schema.)
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoArguments {}

/// Decodes the arguments of a call, which it takes out of `call`.
///
/// Null means that the argument was not given. Synonyms and other forms are accepted if their
/// meaning is clear. The error lists all problems and has the first field.
pub(crate) fn decode_arguments<T: DeserializeOwned>(
    call: &mut ToolCall,
    spec: &ToolSpec,
) -> Result<T> {
    let arguments = take_arguments(call, spec);
    // Fast path: tracking the path of an error allocates at every step.
    T::deserialize(&arguments).map_err(|_| invalid_arguments::<T>(arguments, spec))
}

fn take_arguments(call: &mut ToolCall, spec: &ToolSpec) -> Value {
    let mut arguments = std::mem::take(&mut call.arguments);
    arguments::normalize(&mut arguments, spec);
    arguments.retain(|name, value| !value.is_null() || property(spec, name).is_none());
    Value::Object(arguments)
}

/// Arguments of reading tools that no schema has, because few calls need them.
const UNLISTED_ARGUMENTS: [(&str, &[&str]); 3] = [
    (CUSTOM_FIELDS, &["list_items"]),
    ("include_stale", &["ixchel_search", "search_global", "search_requirements"]),
    ("parents", &["get_item"]),
];

/// Corrects the arguments of a reading tool, and returns a note on each correction.
///
/// An unknown argument is removed and a limit above the maximum is cut: the result is still useful
/// and harmless. A writing tool rejects both, because it could write something else.
pub(crate) fn correct_arguments(call: &mut ToolCall, spec: &ToolSpec) -> Vec<String> {
    let mut notes = Vec::new();
    if spec.may_change {
        return notes;
    }
    if let Some(limit) = call.arguments.get_mut("limit")
        && let Some(maximum) = property(spec, "limit").and_then(|limit| limit["maximum"].as_u64())
        && is_above(limit, maximum)
    {
        notes.push(format!("limit: {} is above the maximum; {maximum} was used.", shorten(limit)));
        *limit = maximum.into();
    }
    // The error for a missing argument names the unknown ones, which may be misspelled.
    if required_names(spec).any(|name| !call.arguments.contains_key(name)) {
        return notes;
    }
    call.arguments.retain(|name, _| {
        let is_known = property(spec, name).is_some()
            || synonyms::find_argument(spec, name).is_some()
            || UNLISTED_ARGUMENTS
                .iter()
                .any(|(one, tools)| one == name && tools.contains(&spec.name));
        if !is_known {
            let problem = unknown_argument(name, spec);
            let name = encode_line(truncate_echo(name));
            notes.push(format!("{name}: {problem}. It was ignored."));
        }
        is_known
    });
    notes
}

fn is_above(value: &Value, maximum: u64) -> bool {
    let number = match value {
        Value::String(text) => text.trim().parse().ok(),
        value => value.as_f64(),
    };
    // The maximum of a limit is small, so it has an exact `f64`.
    #[expect(clippy::cast_precision_loss, reason = "small")]
    number.is_some_and(|number| number > maximum as f64)
}

fn invalid_arguments<T: DeserializeOwned>(mut arguments: Value, spec: &ToolSpec) -> Error {
    // All problems are collected, so that a model can correct them in one more call.
    let mut problems = schema_violations(&arguments, spec);
    // The deserializer stops at the first error, so each round removes the argument that failed.
    while let Err(error) = serde_path_to_error::deserialize::<_, T>(&arguments) {
        let path = error.path();
        let Some(Segment::Map { key: name }) = path.iter().next() else { break };
        let problem = property(spec, name).map(|_| {
            // Keys of objects are the caller's input.
            let shown = encode_line(truncate_echo(&path.to_string())).into_owned();
            let reason = arguments::wanted_form(&arguments, spec, &error).unwrap_or_else(|| {
                error.inner().to_string().chars().take(MAX_REASON_CHARS).collect()
            });
            (shown, reason)
        });
        // Missing and unknown arguments are already in the list.
        let Some(object) = arguments.as_object_mut() else { break };
        if object.remove(name).is_none() {
            break;
        }
        problems.extend(problem);
    }
    let mut sentences = vec!["Invalid arguments".to_owned()];
    for (field, reason) in &problems {
        sentences.push(format!("{field}: {reason}"));
    }
    let message = format!("{}.", sentences.join(". "));
    let error = Error::new(ErrorKind::InvalidArgument, message);
    match problems.into_iter().next() {
        Some((field, _)) => error.field(field),
        None => error,
    }
}

/// Returns the unknown and missing arguments as field and reason.
fn schema_violations(arguments: &Value, spec: &ToolSpec) -> Vec<(String, String)> {
    let mut violations = Vec::new();
    let Some(arguments) = arguments.as_object() else { return violations };
    for name in arguments.keys() {
        if property(spec, name).is_none() {
            let shown = encode_line(truncate_echo(name)).into_owned();
            let problem = match synonyms::find_argument(spec, name) {
                Some(real) => format!("it is another name of {real}; send only {real}"),
                None => unknown_argument(name, spec),
            };
            violations.push((shown, problem));
        }
    }
    for name in required_names(spec) {
        if !arguments.contains_key(name) {
            violations.push((name.to_owned(), "required, and missing".to_owned()));
        }
    }
    violations
}

/// Describes an unknown argument, with the most similar one and a list of all.
fn unknown_argument(name: &str, spec: &ToolSpec) -> String {
    /// Less similar names are not suggested.
    const MIN_SIMILARITY: f64 = 0.8;
    let (mut accepted, mut nearest) = (Vec::new(), None);
    if let Some(Value::Object(properties)) = spec.input_schema.get("properties") {
        let mut best = MIN_SIMILARITY;
        for candidate in properties.keys() {
            let similarity = strsim::jaro_winkler(truncate_echo(name), candidate);
            // `story` means `user_story`, although the beginnings differ.
            let is_part = name.len() > 2 && candidate.split('_').any(|word| word == name);
            if similarity > best || (is_part && nearest.is_none()) {
                (best, nearest) = (similarity.max(best), Some(candidate));
            }
            accepted.push(candidate.as_str());
        }
    }
    let suggestion = match nearest {
        Some(nearest) => format!(", did you mean {nearest}?"),
        None => ";".to_owned(),
    };
    let accepted = if accepted.is_empty() { "none".to_owned() } else { accepted.join(", ") };
    format!("unknown argument{suggestion} {} takes {accepted}", spec.name)
}

#[cfg(test)]
mod tests;
