//! Converts the application's types into the protocol's types; holds the table of error codes.

use std::borrow::Cow;
use std::sync::Arc;

use reqlore_domain::error::{Error, ErrorKind};
use reqlore_domain::identity::{redact_echo, redact_secrets};
use reqlore_domain::ports::service::{
    CompletionValues, PromptContent, PromptPart, PromptSpec, RenderedAnswer, ResourceContent,
    ResourceInfo, TemplateSpec, ToolSpec,
};
use reqlore_domain::untrusted_text::encode_lines;
use rmcp::model::{
    CallToolResult, CompleteResult, CompletionInfo, ContentBlock, ErrorCode, ErrorData,
    GetPromptResult, MetaObject, PromptArgument, PromptMessage, ResourceContents, ResourceTemplate,
    Role, Tool, ToolAnnotations,
};
use serde_json::{Map, Value, json};

use crate::request_context::{ClientDialect, RequestContext};

/// The `_meta` key for the structured error of a failed tool call.
pub const ERROR_META: &str = "reqlore/error";
/// For a request whose text had to be changed.
pub(crate) const REPLACEMENT_NOTE: &str =
    "The request had lone surrogates, such as \\ud800; each was read as U+FFFD.";

/// The tools to call first. Claude Code loads their schemas at the start, the rest on demand.
const FIRST_TOOLS: [&str; 4] =
    ["get_item", "reqlix_get_instructions", "reqlix_get_requirements", "search_global"];
/// The tools whose whole answers exceed the 50,000 characters that Claude Code shows by default.
const LARGE_ANSWERS: [&str; 4] = [
    "get_user_story_requirements",
    "ixchel_show",
    "reqlix_get_instructions",
    "reqlix_get_requirements",
];
const MAX_ANSWER_CHARS: usize = 400_000;

pub fn mcp_tool(spec: &ToolSpec) -> Tool {
    // The protocol's defaults (not read-only, not idempotent) are left out, because tokens cost.
    // The other hints decide about confirmations, which a tool that only reads needs in no client.
    let annotations = if spec.may_change {
        let mut hints = ToolAnnotations::new().destructive(spec.is_destructive).open_world(false);
        hints.idempotent_hint = spec.is_idempotent.then_some(true);
        hints
    } else {
        ToolAnnotations::new().read_only(true)
    };
    let mut meta = Map::new();
    if FIRST_TOOLS.contains(&spec.name) {
        meta.insert("anthropic/alwaysLoad".to_owned(), true.into());
    }
    if LARGE_ANSWERS.contains(&spec.name) {
        meta.insert("anthropic/maxResultSizeChars".to_owned(), MAX_ANSWER_CHARS.into());
    }
    let tool = Tool::new(spec.name, spec.description, Arc::new(spec.input_schema.clone()))
        .with_title(spec.title)
        .with_raw_output_schema(Arc::new(spec.output_schema.clone()))
        .with_annotations(annotations);
    if meta.is_empty() { tool } else { tool.with_meta(MetaObject(meta)) }
}

pub fn tool_result(answer: RenderedAnswer) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(answer.text)]);
    if !answer.data.is_null() {
        // Copied only if the application still holds the data.
        result.structured_content = Some(Arc::unwrap_or_clone(answer.data));
    }
    result
}

/// Says in an answer that lone surrogates of its request were replaced.
pub(crate) fn note_replacements(
    outcome: Result<RenderedAnswer, Error>,
) -> Result<RenderedAnswer, Error> {
    match outcome {
        Ok(mut answer) => {
            // A text that is JSON stays JSON.
            if let Ok(mut value) = serde_json::from_str(&answer.text) {
                add_note(&mut value, REPLACEMENT_NOTE);
                answer.text = value.to_string();
                add_note(Arc::make_mut(&mut answer.data), REPLACEMENT_NOTE);
            } else {
                append_note(&mut answer, REPLACEMENT_NOTE);
            }
            Ok(answer)
        }
        Err(error) => {
            let hint = match &error.hint {
                Some(hint) => format!("{hint}. {REPLACEMENT_NOTE}"),
                None => REPLACEMENT_NOTE.to_owned(),
            };
            Err(error.hint(hint))
        }
    }
}

/// Adds a note after the text of an answer, and to its data.
pub(crate) fn append_note(answer: &mut RenderedAnswer, note: &str) {
    let separator = if answer.text.contains("\n\nNote: ") { "\n" } else { "\n\n" };
    answer.text.extend([separator, "Note: ", note]);
    add_note(Arc::make_mut(&mut answer.data), note);
}

fn add_note(answer: &mut Value, note: &str) {
    if let Value::Object(members) = answer
        && let Value::Array(notes) = members.entry("notes").or_insert_with(|| json!([]))
    {
        notes.push(json!(note));
    }
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

/// The protocol has no fields for name and description here, so `_meta` holds them.
pub fn resource_contents(content: ResourceContent) -> ResourceContents {
    let meta = Map::from_iter([
        ("name".to_owned(), json!(content.name)),
        ("description".to_owned(), json!(content.description)),
    ]);
    ResourceContents::text(content.text, content.uri)
        .with_mime_type(content.mime_type)
        .with_meta(MetaObject(meta))
}

/// Copies name and description of each content to the side of its URI, where plain JSON-RPC clients
/// expect them. `None` for the response to another request than `resources/read`, and for an error.
pub fn name_contents(response: &[u8]) -> Option<Vec<u8>> {
    let mut response: Value = serde_json::from_slice(response).ok()?;
    for content in response.pointer_mut("/result/contents")?.as_array_mut()? {
        for key in ["name", "description"] {
            if let Some(value) = content["_meta"].get(key).cloned() {
                content[key] = value;
            }
        }
    }
    Some(response.to_string().into_bytes())
}

pub fn mcp_prompt(spec: &PromptSpec) -> rmcp::model::Prompt {
    let arguments = spec.arguments.iter().map(|argument| {
        PromptArgument::new(argument.name)
            .with_title(argument.title)
            .with_description(argument.description)
            .with_required(argument.is_required)
    });
    rmcp::model::Prompt::new(spec.name, Some(spec.description), Some(arguments.collect()))
        .with_title(spec.title)
}

/// All messages have the role `user`.
pub fn prompt_result(prompt: PromptContent) -> GetPromptResult {
    let mut messages = Vec::with_capacity(prompt.messages.len());
    for part in prompt.messages {
        let block = match part {
            PromptPart::Text(text) => ContentBlock::text(text),
            PromptPart::Resource(stored) => ContentBlock::resource(resource_contents(stored)),
        };
        messages.push(PromptMessage::new(Role::User, block));
    }
    GetPromptResult::new(messages).with_description(prompt.description)
}

pub fn completion_result(completion: CompletionValues) -> CompleteResult {
    let mut info = CompletionInfo::default();
    info.values = completion.values;
    // The protocol limits the number of values; `total` has the real one.
    info.values.truncate(CompletionInfo::MAX_VALUES);
    info.total = Some(u32::try_from(completion.total).unwrap_or(u32::MAX));
    // After the truncation, which is one reason for more values.
    info.has_more = Some(completion.total > info.values.len());
    CompleteResult::new(info)
}

/// Protocol generation of a request. Each has its own form of errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProtocolEra {
    /// With `initialize`, or without any handshake.
    Legacy,
    /// Since 2026-07-28.
    Modern,
}

/// Converts the error of a tool call. An error that a model can correct becomes a result with
/// `isError`, unless the client speaks plain JSON-RPC. Any other becomes a JSON-RPC error.
pub(crate) fn tool_error(
    error: Error,
    context: &RequestContext,
    era: ProtocolEra,
    tool: &str,
) -> Result<CallToolResult, ErrorData> {
    let code = error_code(error.kind);
    // Logged here, because a result with `isError` is a success for all other layers.
    context.log_failure(("tools/call", Some(tool)), code, &error.message);
    let over_http = context.status.is_over_http();
    match error.kind {
        ErrorKind::UnknownTool => {
            // rmcp turns -32601 into a 404 here, which clients take for a missing server.
            let code = if over_http && era == ProtocolEra::Modern { -32602 } else { code };
            let tool = error.reference.map(|name| json!({ "tool": redact_secrets(&name) }));
            Err(ErrorData::new(ErrorCode(code), clean_if(true, &error.message), tool))
        }
        ErrorKind::Internal => Err(internal_error(&error, &context.request_id)),
        // A status of 403 or 503 needs a JSON-RPC error.
        ErrorKind::Forbidden | ErrorKind::Busy | ErrorKind::Unavailable if over_http => {
            Err(to_error_data(error, context, None))
        }
        _ if context.dialect == ClientDialect::JsonRpc && era == ProtocolEra::Legacy => {
            Err(to_error_data(error, context, None))
        }
        _ => {
            let (message, detail) = describe_error(error, &context.request_id);
            // One block, because some clients join blocks without a space.
            let text = match detail.get("hint") {
                Some(Value::String(hint)) if !message.contains(hint) => {
                    format!("{message}\n{hint}")
                }
                _ => message,
            };
            let mut result = CallToolResult::error(vec![ContentBlock::text(text)]);
            result.meta =
                Some(MetaObject(Map::from_iter([(ERROR_META.to_owned(), Value::Object(detail))])));
            Ok(result)
        }
    }
}

/// Converts the error of any other request; `uri` is the requested URI, if there is one. Since
/// 2026-07-28 rmcp sends -32602 for "not found"; `data.code` still distinguishes it.
pub(crate) fn request_error(
    error: Error,
    context: &RequestContext,
    method: &str,
    uri: Option<&str>,
) -> ErrorData {
    context.log_failure((method, None), error_code(error.kind), &error.message);
    to_error_data(error, context, uri)
}

fn to_error_data(error: Error, context: &RequestContext, uri: Option<&str>) -> ErrorData {
    match error.kind {
        ErrorKind::Internal => return internal_error(&error, &context.request_id),
        ErrorKind::Forbidden => context.status.request_status(403),
        // Proxies and clients retry after it.
        ErrorKind::Busy | ErrorKind::Cancelled | ErrorKind::Unavailable => {
            context.status.request_status(503);
        }
        _ => {}
    }
    let code = ErrorCode(error_code(error.kind));
    let (message, mut data) = describe_error(error, &context.request_id);
    // JSON-RPC errors have the message outside of `data`.
    data.shift_remove("message");
    if let Some(uri) = uri {
        data.insert("uri".to_owned(), json!(redact_echo(uri)));
    }
    if context.dialect == ClientDialect::JsonRpc {
        data.insert("correlation_id".to_owned(), json!(*context.request_id));
    }
    ErrorData::new(code, message, Some(Value::Object(data)))
}

/// Logs the error. The client gets only the correlation id, because details may be secret.
pub(crate) fn internal_error(error: &Error, correlation_id: &str) -> ErrorData {
    let source = std::error::Error::source(error).map(ToString::to_string);
    let backtrace = error.backtrace().map(tracing::field::display);
    let reason = &*error.message;
    tracing::error!(id = correlation_id, error = reason, source, backtrace, "internal error");
    let message = format!(
        "internal error: see correlation id {correlation_id} in the server's log; please report it"
    );
    let data = json!({ "correlation_id": correlation_id });
    ErrorData::new(ErrorCode(error_code(ErrorKind::Internal)), message, Some(data))
}

/// Returns the message and the structured data of an error, and logs its cause. Secrets are
/// redacted, because responses end up in logs and models.
fn describe_error(error: Error, correlation_id: &str) -> (String, Map<String, Value>) {
    // A conflict must show the document unchanged, or the client could not merge.
    let is_redacted = error.kind != ErrorKind::Conflict;
    let (name, code) = (error.kind.name(), error_code(error.kind));
    // Taken first, because the parts of the error move below.
    let source = std::error::Error::source(&error).map(ToString::to_string);
    let message = clean_if(is_redacted, &error.message);
    if let Some(source) = source {
        tracing::debug!(id = correlation_id, kind = name, source, "cause of the failure");
    }
    let mut detail = Map::from_iter([
        ("kind".to_owned(), json!(name)),
        ("code".to_owned(), json!(code)),
        ("message".to_owned(), json!(message)),
    ]);
    // Structured values stay true; a reader sees only the message and the hint.
    for (key, value) in [("field", error.field), ("reference_id", error.reference)] {
        if let Some(value) = value {
            detail.insert(key.to_owned(), json!(redact_if(is_redacted, &value)));
        }
    }
    if let Some(hint) = error.hint {
        detail.insert("hint".to_owned(), json!(clean_if(is_redacted, &hint)));
    }
    (message, detail)
}

fn redact_if(is_redacted: bool, text: &str) -> Cow<'_, str> {
    if is_redacted { redact_secrets(text) } else { Cow::Borrowed(text) }
}

/// Without secrets and hidden characters, which names and echoed input may contain.
fn clean_if(is_cleaned: bool, text: &str) -> String {
    let text = redact_if(is_cleaned, text);
    if is_cleaned { encode_lines(&text).into_owned() } else { text.into_owned() }
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
