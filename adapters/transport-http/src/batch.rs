//! JSON-RPC batches: each member is a request of its own.

use std::sync::Arc;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Response, StatusCode};
use http_body_util::BodyExt;
use reqlore_mcp::jsonrpc;
use serde_json::Value;

use crate::error_response::{ErrorResponse, JSON_CONTENT_TYPE, json_response};
use crate::handler::{MessageSender, VERSION_HEADER, malformed_response, respond_to_message};
use crate::state::ServerState;

/// The only version of the protocol with batches. Its clients send no version, as plain ones.
const BATCH_VERSION: &str = "2025-03-26";

/// No further member runs after this many bytes of responses. They are held until the last one, and
/// each may contain a document of 8 MiB.
const MAX_RESPONSE_BYTES: usize = 32 * 1024 * 1024;

/// True if the client may send batches.
pub(crate) fn is_accepted(headers: &HeaderMap) -> bool {
    headers.get_all(VERSION_HEADER).iter().all(|version| version == BATCH_VERSION)
}

/// Runs the members in order. The status is 200, and a member's failure is its own error.
pub(crate) async fn respond(
    shared: &Arc<ServerState>,
    sender: MessageSender,
    members: Vec<Value>,
    is_accepted: bool,
) -> Result<Response<Body>, ErrorResponse> {
    // An invalid batch as a whole gets one error object, not an array (JSON-RPC 2.0, section 6).
    if let Err(malformed) = jsonrpc::check_batch(&members, is_accepted) {
        return Ok(malformed_response(&sender.request_id, malformed));
    }
    let mut responses = Vec::new();
    // In order, so that a member sees the changes of earlier ones.
    for (position, member) in members.into_iter().enumerate() {
        let request_id: Arc<str> = format!("{}.{}", sender.request_id, position + 1).into();
        let sender = MessageSender { request_id, ..sender.clone() };
        // The request itself was counted, and stands for the first member.
        let is_counted = position == 0;
        let (request_id, caller) = (sender.request_id.clone(), sender.caller.clone());
        let outcome = if responses.len() > MAX_RESPONSE_BYTES {
            Err(too_large_error().for_message(&member))
        } else {
            respond_to_member(shared, sender, member, is_counted).await
        };
        let response = outcome.unwrap_or_else(|error| {
            shared.log_error(&error, &request_id, Some(&caller));
            error.into_response()
        });
        // The body of a notification is empty. A stream has no end, and no member can open one.
        if response.headers().get(CONTENT_TYPE) == Some(&JSON_CONTENT_TYPE)
            && let Ok(body) = response.into_body().collect().await
        {
            responses.push(if responses.is_empty() { b'[' } else { b',' });
            responses.extend_from_slice(body.to_bytes().trim_ascii_end());
        }
    }
    if responses.is_empty() {
        let mut response = Response::new(Body::empty());
        // JSON-RPC 2.0, section 6: a batch of notifications must not get an empty array.
        *response.status_mut() = StatusCode::ACCEPTED;
        return Ok(response);
    }
    responses.push(b']');
    Ok(json_response(StatusCode::OK, responses))
}

fn too_large_error() -> ErrorResponse {
    let message = "batch: the responses before this message are too large; it was not run, send it \
                   in another request";
    ErrorResponse::invalid_request(StatusCode::PAYLOAD_TOO_LARGE, message)
}

async fn respond_to_member(
    shared: &Arc<ServerState>,
    sender: MessageSender,
    member: Value,
    is_counted: bool,
) -> Result<Response<Body>, ErrorResponse> {
    if !is_counted {
        let counted = shared.tokens.count_request(&sender.limit);
        counted.map_err(|error| error.for_message(&member))?;
    }
    if let Err(malformed) = jsonrpc::check_member(&member) {
        return Ok(malformed_response(&sender.request_id, malformed));
    }
    // rmcp parses each message from its body, and the members share the original one.
    let body = member.to_string().into();
    respond_to_message(shared, sender, member, body, None, None).await
}
