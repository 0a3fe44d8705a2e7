//! How our words look on the wire: tools, replies, and the one table of errors (rulings 6).

use std::sync::Arc;

use reqlore_domain::error::{Error, ErrorKind};
use reqlore_domain::ports::endpoint::{Reply, ToolSpec};
use rmcp::model::{
    CallToolResult, ContentBlock, ErrorCode, ErrorData, MetaObject, Tool, ToolAnnotations,
};
use serde_json::{Map, Value, json};

/// The key under which a failed tool call carries its error for programs.
pub const ERROR_META: &str = "reqlore/error";

pub fn tool(spec: &ToolSpec) -> Tool {
    let annotations = ToolAnnotations::with_title(spec.title)
        .read_only(!spec.may_change)
        .destructive(spec.destructive)
        .idempotent(spec.idempotent)
        .open_world(false);
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

/// What a model can mend is a tool result with `isError`; the rest is a JSON-RPC error.
pub fn error(error: Error, correlation_id: &str) -> Result<CallToolResult, ErrorData> {
    let (name, code) = kind(error.kind);
    match error.kind {
        ErrorKind::UnknownTool => Err(ErrorData::new(
            ErrorCode(code),
            error.message,
            error.reference.map(|name| json!({ "tool": name })),
        )),
        ErrorKind::Internal => {
            let source = std::error::Error::source(&error).map(ToString::to_string);
            tracing::error!(id = correlation_id, message = error.message, source, "internal error");
            let message = format!(
                "Internal error. The server's log tells more under the correlation id \
                 {correlation_id}; please report it."
            );
            Err(ErrorData::new(
                ErrorCode(code),
                message,
                Some(json!({ "correlation_id": correlation_id })),
            ))
        }
        _ => {
            let source = std::error::Error::source(&error).map(ToString::to_string);
            tracing::debug!(
                id = correlation_id,
                kind = name,
                message = error.message,
                source,
                "refused"
            );
            let mut detail = Map::from_iter([
                ("kind".to_owned(), json!(name)),
                ("code".to_owned(), json!(code)),
                ("message".to_owned(), json!(error.message)),
            ]);
            let optional =
                [("field", error.field), ("reference_id", error.reference), ("hint", error.hint)];
            for (key, value) in optional {
                detail.extend(value.map(|value| (key.to_owned(), json!(value))));
            }
            let mut result = CallToolResult::error(vec![ContentBlock::text(error.message)]);
            result.meta =
                Some(MetaObject(Map::from_iter([(ERROR_META.to_owned(), Value::Object(detail))])));
            Ok(result)
        }
    }
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
