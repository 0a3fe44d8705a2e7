//! How our words look on the wire: tools, resources, prompts, and the one table of errors
//! (rulings 6).

use std::borrow::Cow;
use std::sync::Arc;

use reqlore_domain::error::{Error, ErrorKind};
use reqlore_domain::identity::redact;
use reqlore_domain::ports::service::{
    Completion, Content, Message, Prompt, PromptSpec, Reply, Resource, TemplateSpec, ToolSpec,
};
use rmcp::model::{
    CallToolResult, CompleteResult, CompletionInfo, ContentBlock, ErrorCode, ErrorData,
    GetPromptResult, MetaObject, PromptArgument, PromptMessage, ResourceContents, ResourceTemplate,
    Role, Tool, ToolAnnotations,
};
use serde_json::{Map, Value, json};

use crate::asker::{Asker, Style};

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

/// Which of the protocol's two manners a request speaks; they differ in what an error looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    /// With `initialize`, or with nothing at all.
    Legacy,
    /// Since 2026-07-28.
    Modern,
}

/// How a failed tool call is answered: what a model can mend is a result with `isError`, unless the
/// client speaks plain JSON-RPC; the rest is a JSON-RPC error.
pub(crate) fn error(error: Error, asker: &Asker, era: Era) -> Result<CallToolResult, ErrorData> {
    let over_http = asker.status.is_watched();
    match error.kind {
        ErrorKind::UnknownTool => {
            // Of -32601 rmcp makes a 404 there, which clients take for a missing server.
            let code = if over_http && era == Era::Modern { -32602 } else { code(error.kind) };
            let tool = error.reference.map(|name| json!({ "tool": redact(&name) }));
            Err(ErrorData::new(ErrorCode(code), redact(&error.message).into_owned(), tool))
        }
        ErrorKind::Internal => Err(internal(&error, &asker.request_id)),
        ErrorKind::Forbidden if over_http => Err(failure(error, asker, None)),
        _ if asker.style == Style::Plain && era == Era::Legacy => Err(failure(error, asker, None)),
        _ => {
            let (message, detail) = refused(error, &asker.request_id);
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
pub(crate) fn failure(error: Error, asker: &Asker, uri: Option<&str>) -> ErrorData {
    match error.kind {
        ErrorKind::Internal => return internal(&error, &asker.request_id),
        ErrorKind::Forbidden => asker.status.set(403),
        ErrorKind::Busy | ErrorKind::Cancelled | ErrorKind::Unavailable
            if asker.style == Style::Plain =>
        {
            asker.status.set(503);
        }
        _ => {}
    }
    let code = ErrorCode(code(error.kind));
    let (message, mut data) = refused(error, &asker.request_id);
    data.shift_remove("message");
    data.extend(uri.map(|uri| ("uri".to_owned(), json!(redact(uri)))));
    if asker.style == Style::Plain {
        data.insert("correlation_id".to_owned(), json!(*asker.request_id));
    }
    ErrorData::new(code, message, Some(Value::Object(data)))
}

/// The caller learns the correlation id, the log all the rest.
pub(crate) fn internal(error: &Error, correlation_id: &str) -> ErrorData {
    let source = std::error::Error::source(error).map(ToString::to_string);
    let backtrace = error.backtrace().map(tracing::field::display);
    let reason = &*error.message;
    tracing::error!(id = correlation_id, error = reason, source, backtrace, "internal error");
    let message = format!(
        "Internal error. The server's log tells more under the correlation id {correlation_id}; \
         please report it."
    );
    let data = json!({ "correlation_id": correlation_id });
    ErrorData::new(ErrorCode(code(ErrorKind::Internal)), message, Some(data))
}

/// The words of an error, and what programs are told of it. What a caller sent by mistake is not
/// said again, since answers end up in logs and models; a conflict shows a document as it is.
fn refused(error: Error, correlation_id: &str) -> (String, Map<String, Value>) {
    let is_shown = error.kind == ErrorKind::Conflict;
    let clean = |text: String| match redact(&text) {
        Cow::Owned(clean) if !is_shown => clean,
        _ => text,
    };
    let (name, code) = (error.kind.name(), code(error.kind));
    let source = std::error::Error::source(&error).map(ToString::to_string);
    let message = clean(error.message);
    tracing::debug!(id = correlation_id, kind = name, message, source, "refused");
    let mut detail = Map::from_iter([
        ("kind".to_owned(), json!(name)),
        ("code".to_owned(), json!(code)),
        ("message".to_owned(), json!(message)),
    ]);
    let optional =
        [("field", error.field), ("reference_id", error.reference), ("hint", error.hint)];
    for (key, value) in optional {
        detail.extend(value.map(|value| (key.to_owned(), json!(clean(value)))));
    }
    (message, detail)
}

/// The JSON-RPC code of each kind of error (rulings 6).
pub const fn code(kind: ErrorKind) -> i32 {
    match kind {
        ErrorKind::InvalidArgument => -32602,
        ErrorKind::UnknownTool => -32601,
        ErrorKind::NotFound => -32002,
        ErrorKind::Forbidden => -32011,
        ErrorKind::Conflict | ErrorKind::Refused => -32012,
        ErrorKind::Busy | ErrorKind::Cancelled => -32015,
        ErrorKind::Unavailable | ErrorKind::Unreadable => -32016,
        ErrorKind::Internal => -32603,
    }
}
