//! How our words look on the wire: tools, resources, prompts, and the one table of errors
//! (rulings 6).

use std::sync::Arc;

use reqlore_domain::error::{Error, ErrorKind};
use reqlore_domain::ports::endpoint::{
    Completion, Content, Message, Prompt, PromptSpec, Reply, Resource, TemplateSpec, ToolSpec,
};
use rmcp::model::{
    CallToolResult, CompleteResult, CompletionInfo, ContentBlock, ErrorCode, ErrorData,
    GetPromptResult, MetaObject, PromptArgument, PromptMessage, ResourceContents, ResourceTemplate,
    Role, Tool, ToolAnnotations,
};
use serde_json::{Map, Value, json};

/// The key under which a failed tool call carries its error for programs.
pub const ERROR_META: &str = "reqlore/error";

pub fn tool(spec: &ToolSpec) -> Tool {
    let annotations = ToolAnnotations::new().read_only(!spec.may_change).open_world(false);
    // Of a tool that only reads these say nothing, and models pay for each word.
    let annotations = if spec.may_change {
        annotations.destructive(spec.destructive).idempotent(spec.idempotent)
    } else {
        annotations
    };
    Tool::new(spec.name, spec.description, Arc::new(spec.input_schema.clone()))
        .with_title(spec.title)
        .with_raw_output_schema(Arc::new(spec.output_schema.clone()))
        .with_annotations(annotations)
}

pub fn reply(reply: Reply) -> CallToolResult {
    let mut result =
        CallToolResult::success(reply.text.into_iter().map(ContentBlock::text).collect());
    result.structured_content = Some(Arc::unwrap_or_clone(reply.data));
    result
}

pub fn resource(resource: Resource) -> rmcp::model::Resource {
    rmcp::model::Resource::new(resource.uri, resource.name)
        .with_title(resource.title)
        .with_description(resource.description)
        .with_mime_type(resource.mime_type)
}

pub fn template(spec: &TemplateSpec) -> ResourceTemplate {
    ResourceTemplate::new(spec.uri_template, spec.name)
        .with_title(spec.title)
        .with_description(spec.description)
        .with_mime_type(spec.mime_type)
}

/// The protocol has no name and no description here, so they are metadata (S5 6.6).
pub fn content(content: Content) -> ResourceContents {
    let meta = [("name", content.name), ("description", content.description)];
    let meta = meta.into_iter().map(|(key, value)| (key.to_owned(), json!(value)));
    ResourceContents::text(content.text, content.uri)
        .with_mime_type(content.mime_type)
        .with_meta(MetaObject(meta.collect()))
}

pub fn prompt_spec(spec: &PromptSpec) -> rmcp::model::Prompt {
    let arguments = spec.arguments.iter().map(|argument| {
        PromptArgument::new(argument.name)
            .with_title(argument.title)
            .with_description(argument.description)
            .with_required(argument.required)
    });
    rmcp::model::Prompt::new(spec.name, Some(spec.description), Some(arguments.collect()))
        .with_title(spec.title)
}

/// All messages are the user's (S5 8.3).
pub fn prompt(prompt: Prompt) -> GetPromptResult {
    let messages = prompt.messages.into_iter().map(|message| {
        let block = match message {
            Message::Text(text) => ContentBlock::text(text),
            Message::Resource(stored) => ContentBlock::resource(content(stored)),
        };
        PromptMessage::new(Role::User, block)
    });
    GetPromptResult::new(messages.collect()).with_description(prompt.description)
}

pub fn completion(completion: Completion) -> CompleteResult {
    let mut info = CompletionInfo::default();
    info.values = completion.values;
    info.values.truncate(CompletionInfo::MAX_VALUES);
    info.total = Some(u32::try_from(completion.total).unwrap_or(u32::MAX));
    info.has_more = Some(completion.total > info.values.len());
    CompleteResult::new(info)
}

/// How a failed tool call is answered: what a model can mend is a result with `isError`; the rest
/// is a JSON-RPC error.
pub fn error(error: Error, correlation_id: &str) -> Result<CallToolResult, ErrorData> {
    match error.kind {
        ErrorKind::UnknownTool => Err(ErrorData::new(
            ErrorCode(kind(error.kind).1),
            error.message,
            error.reference.map(|name| json!({ "tool": name })),
        )),
        ErrorKind::Internal => Err(internal(&error, correlation_id)),
        _ => {
            let (message, detail) = refused(error, correlation_id);
            let mut result = CallToolResult::error(vec![ContentBlock::text(message)]);
            result.meta =
                Some(MetaObject(Map::from_iter([(ERROR_META.to_owned(), Value::Object(detail))])));
            Ok(result)
        }
    }
}

/// How everything else that failed is answered: a JSON-RPC error, with the URI where one was asked
/// for. Since 2026-07-28 the code of what is not found is -32602 on the wire, and `data.code` still
/// tells the two apart.
pub fn failure(error: Error, correlation_id: &str, uri: Option<&str>) -> ErrorData {
    if error.kind == ErrorKind::Internal {
        return internal(&error, correlation_id);
    }
    let code = ErrorCode(kind(error.kind).1);
    let (message, mut data) = refused(error, correlation_id);
    data.shift_remove("message");
    data.extend(uri.map(|uri| ("uri".to_owned(), json!(uri))));
    ErrorData::new(code, message, Some(Value::Object(data)))
}

/// The caller learns the correlation id, the log all the rest.
fn internal(error: &Error, correlation_id: &str) -> ErrorData {
    let source = std::error::Error::source(error).map(ToString::to_string);
    tracing::error!(id = correlation_id, message = error.message, source, "internal error");
    let message = format!(
        "Internal error. The server's log tells more under the correlation id {correlation_id}; \
         please report it."
    );
    let data = json!({ "correlation_id": correlation_id });
    ErrorData::new(ErrorCode(kind(ErrorKind::Internal).1), message, Some(data))
}

/// The words of an error, and what programs are told of it.
fn refused(error: Error, correlation_id: &str) -> (String, Map<String, Value>) {
    let (name, code) = kind(error.kind);
    let source = std::error::Error::source(&error).map(ToString::to_string);
    let message = error.message;
    tracing::debug!(id = correlation_id, kind = name, message, source, "refused");
    let mut detail = Map::from_iter([
        ("kind".to_owned(), json!(name)),
        ("code".to_owned(), json!(code)),
        ("message".to_owned(), json!(message)),
    ]);
    let optional =
        [("field", error.field), ("reference_id", error.reference), ("hint", error.hint)];
    for (key, value) in optional {
        detail.extend(value.map(|value| (key.to_owned(), json!(value))));
    }
    (message, detail)
}

/// The name and the JSON-RPC code of each kind of error.
fn kind(kind: ErrorKind) -> (&'static str, i32) {
    match kind {
        ErrorKind::InvalidArgument => ("invalid_argument", -32602),
        ErrorKind::UnknownTool => ("unknown_tool", -32601),
        ErrorKind::NotFound => ("not_found", -32002),
        ErrorKind::Forbidden => ("forbidden", -32011),
        ErrorKind::Conflict => ("conflict", -32012),
        ErrorKind::Refused => ("refused", -32012),
        ErrorKind::Busy => ("busy", -32015),
        ErrorKind::Cancelled => ("cancelled", -32015),
        ErrorKind::Unavailable => ("storage_unavailable", -32016),
        ErrorKind::Unreadable => ("unreadable", -32016),
        ErrorKind::Internal => ("internal", -32603),
    }
}
