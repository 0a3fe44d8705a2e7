//! Conversion of the application's types into the protocol's, and the one table of error codes.

use std::borrow::Cow;
use std::sync::Arc;

use reqlore_domain::error::{Error, ErrorKind};
use reqlore_domain::identity::redact;
use reqlore_domain::ports::service::{
    CompletionValues, PromptContent, PromptPart, PromptSpec, ResourceContent, ResourceInfo,
    TemplateSpec, ToolReply, ToolSpec,
};
use rmcp::model::{
    CallToolResult, CompleteResult, CompletionInfo, ContentBlock, ErrorCode, ErrorData,
    GetPromptResult, MetaObject, PromptArgument, PromptMessage, ResourceContents, ResourceTemplate,
    Role, Tool, ToolAnnotations,
};
use serde_json::{Map, Value, json};

use crate::request_context::{ClientDialect, RequestContext};

/// The key under which a failed tool call carries its error for programs.
pub const ERROR_META: &str = "reqlore/error";

pub fn mcp_tool(spec: &ToolSpec) -> Tool {
    let annotations = ToolAnnotations::new().read_only(!spec.may_change).open_world(false);
    // Meaningless for a tool that only reads, and models pay for each word.
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

pub fn tool_result(reply: ToolReply) -> CallToolResult {
    let mut result =
        CallToolResult::success(reply.text.into_iter().map(ContentBlock::text).collect());
    result.structured_content = Some(Arc::unwrap_or_clone(reply.data));
    result
}

pub fn mcp_resource(resource: ResourceInfo) -> rmcp::model::Resource {
    rmcp::model::Resource::new(resource.uri, resource.name)
        .with_title(resource.title)
        .with_description(resource.description)
        .with_mime_type(resource.mime_type)
}

pub fn resource_template(spec: &TemplateSpec) -> ResourceTemplate {
    ResourceTemplate::new(spec.uri_template, spec.name)
        .with_title(spec.title)
        .with_description(spec.description)
        .with_mime_type(spec.mime_type)
}

/// The protocol has no name and no description here, so they are metadata.
pub fn resource_contents(content: ResourceContent) -> ResourceContents {
    let meta = [("name", content.name), ("description", content.description)];
    let meta = meta.into_iter().map(|(key, value)| (key.to_owned(), json!(value)));
    ResourceContents::text(content.text, content.uri)
        .with_mime_type(content.mime_type)
        .with_meta(MetaObject(meta.collect()))
}

pub fn mcp_prompt(spec: &PromptSpec) -> rmcp::model::Prompt {
    let arguments = spec.arguments.iter().map(|argument| {
        PromptArgument::new(argument.name)
            .with_title(argument.title)
            .with_description(argument.description)
            .with_required(argument.required)
    });
    rmcp::model::Prompt::new(spec.name, Some(spec.description), Some(arguments.collect()))
        .with_title(spec.title)
}

/// All messages have the role `user`.
pub fn prompt_result(prompt: PromptContent) -> GetPromptResult {
    let messages = prompt.messages.into_iter().map(|message| {
        let block = match message {
            PromptPart::Text(text) => ContentBlock::text(text),
            PromptPart::Resource(stored) => ContentBlock::resource(resource_contents(stored)),
        };
        PromptMessage::new(Role::User, block)
    });
    GetPromptResult::new(messages.collect()).with_description(prompt.description)
}

pub fn completion_result(completion: CompletionValues) -> CompleteResult {
    let mut info = CompletionInfo::default();
    info.values = completion.values;
    info.values.truncate(CompletionInfo::MAX_VALUES);
    info.total = Some(u32::try_from(completion.total).unwrap_or(u32::MAX));
    info.has_more = Some(completion.total > info.values.len());
    CompleteResult::new(info)
}

/// The protocol generation of a request; errors look different in each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProtocolEra {
    /// With `initialize`, or without any handshake.
    Legacy,
    /// Since 2026-07-28.
    Modern,
}

/// The response to a failed tool call. An error that a model can correct is a result with
/// `isError`, unless the client speaks plain JSON-RPC; any other is a JSON-RPC error.
pub(crate) fn tool_error(
    error: Error,
    context: &RequestContext,
    era: ProtocolEra,
) -> Result<CallToolResult, ErrorData> {
    let over_http = context.status.is_over_http();
    match error.kind {
        ErrorKind::UnknownTool => {
            // rmcp turns -32601 into a 404 there, which clients take for a missing server.
            let code = if over_http && era == ProtocolEra::Modern {
                -32602
            } else {
                error_code(error.kind)
            };
            let tool = error.reference.map(|name| json!({ "tool": redact(&name) }));
            Err(ErrorData::new(ErrorCode(code), redact(&error.message).into_owned(), tool))
        }
        ErrorKind::Internal => Err(internal_error(&error, &context.request_id)),
        ErrorKind::Forbidden if over_http => Err(request_error(error, context, None)),
        _ if context.dialect == ClientDialect::JsonRpc && era == ProtocolEra::Legacy => {
            Err(request_error(error, context, None))
        }
        _ => {
            let (message, detail) = describe_error(error, &context.request_id);
            let mut result = CallToolResult::error(vec![ContentBlock::text(message)]);
            result.meta =
                Some(MetaObject(Map::from_iter([(ERROR_META.to_owned(), Value::Object(detail))])));
            Ok(result)
        }
    }
}

/// The JSON-RPC error of any other failed request, with the requested URI if there is one. Since
/// 2026-07-28 "not found" is -32602 on the wire; `data.code` still distinguishes it.
pub(crate) fn request_error(
    error: Error,
    context: &RequestContext,
    uri: Option<&str>,
) -> ErrorData {
    match error.kind {
        ErrorKind::Internal => return internal_error(&error, &context.request_id),
        ErrorKind::Forbidden => context.status.request_status(403),
        ErrorKind::Busy | ErrorKind::Cancelled | ErrorKind::Unavailable
            if context.dialect == ClientDialect::JsonRpc =>
        {
            context.status.request_status(503);
        }
        _ => {}
    }
    let code = ErrorCode(error_code(error.kind));
    let (message, mut data) = describe_error(error, &context.request_id);
    data.shift_remove("message");
    data.extend(uri.map(|uri| ("uri".to_owned(), json!(redact(uri)))));
    if context.dialect == ClientDialect::JsonRpc {
        data.insert("correlation_id".to_owned(), json!(*context.request_id));
    }
    ErrorData::new(code, message, Some(Value::Object(data)))
}

/// Logs the details; the client gets only the correlation id.
pub(crate) fn internal_error(error: &Error, correlation_id: &str) -> ErrorData {
    let source = std::error::Error::source(error).map(ToString::to_string);
    let backtrace = error.backtrace().map(tracing::field::display);
    let reason = &*error.message;
    tracing::error!(id = correlation_id, error = reason, source, backtrace, "internal error");
    let message = format!(
        "Internal error. The server's log tells more under the correlation id {correlation_id}; \
         please report it."
    );
    let data = json!({ "correlation_id": correlation_id });
    ErrorData::new(ErrorCode(error_code(ErrorKind::Internal)), message, Some(data))
}

/// The message of an error and its data for programs. Secrets in it are redacted, since responses
/// end up in logs and models; a conflict shows the document unchanged.
fn describe_error(error: Error, correlation_id: &str) -> (String, Map<String, Value>) {
    let is_shown = error.kind == ErrorKind::Conflict;
    let clean = |text: String| match redact(&text) {
        Cow::Owned(clean) if !is_shown => clean,
        _ => text,
    };
    let (name, code) = (error.kind.name(), error_code(error.kind));
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

/// The JSON-RPC code of each kind of error.
pub const fn error_code(kind: ErrorKind) -> i32 {
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
