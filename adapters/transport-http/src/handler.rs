//! The MCP endpoint: validates requests for the protocol handler and turns results into HTTP.
//!
//! A started request always runs to its end, also if its client disconnects or the time limit
//! passes. No write may stop half-way.

use std::borrow::Cow;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, EXPECT, RETRY_AFTER};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use axum::{BoxError, Extension};
use bytes::Bytes;
use futures_util::{FutureExt, Stream, StreamExt};
use http_body::Frame;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, BodyStream, Full, StreamBody};
use reqlore_domain::identity::{Access, Caller, redact_secrets};
use reqlore_domain::ports::service::UNKNOWN_METHOD;
use reqlore_domain::ports::transport::TrafficCounters;
use reqlore_mcp::failure_log::log_failure;
use reqlore_mcp::jsonrpc::{self, MalformedMessage, ToolCallMessage};
use reqlore_mcp::request_context::{ClientDialect, RequestContext, ResponseStatus, correlation_id};
use reqlore_mcp::{convert, message_id};
use rmcp::model::ProtocolVersion;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use crate::authentication::{AuthenticatedCaller, StreamCredentials};
use crate::batch;
use crate::error_response::{ErrorResponse, FORBIDDEN, JSON_CONTENT_TYPE, json_response};
use crate::guards::{DetachOnDrop, GaugeGuard};
use crate::open_connections::StreamGuard;
use crate::origin_check::{check_method, check_target};
use crate::permits::PermitPair;
use crate::protocol_handler::ProtocolResponse;
use crate::rate_limit::{RunPermit, SubscriptionPermit, TokenLimit};
use crate::request_body::{check_content, discard_body};
use crate::state::ServerState;

const REQUEST_ID_HEADER: HeaderName = HeaderName::from_static("x-request-id");
const MAX_REQUEST_ID_BYTES: usize = 64;
const JSON_AND_EVENTS: HeaderValue =
    HeaderValue::from_static("application/json, text/event-stream");
pub(crate) const EVENT_STREAM: &[u8] = b"text/event-stream";
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
/// Contains the method of a request since 2026-07-28; rmcp compares it with the body.
const METHOD_HEADER: &str = "mcp-method";
pub(crate) const VERSION_HEADER: &str = "mcp-protocol-version";
const SESSION_HEADER: &str = "mcp-session-id";
const LISTEN_METHOD: &str = "subscriptions/listen";
/// Versions whose tool calls need no further headers.
const LEGACY_VERSIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];

/// Returns a tool call that needs no feature of rmcp's service.
fn take_direct_call(headers: &HeaderMap, message: &mut Value) -> Option<ToolCallMessage> {
    for (name, value) in headers {
        let needs_rmcp = match name.as_str() {
            VERSION_HEADER => !LEGACY_VERSIONS.iter().any(|version| value == version),
            // A session is ignored, as rmcp does without session mode.
            SESSION_HEADER => false,
            // rmcp compares these headers with the body, so they need its service.
            name => name.starts_with("mcp-"),
        };
        if needs_rmcp {
            return None;
        }
    }
    jsonrpc::take_tool_call(message).filter(ToolCallMessage::has_plain_meta)
}

pub(crate) async fn serve_mcp(
    State(shared): State<Arc<ServerState>>,
    Extension(peer): Extension<SocketAddr>,
    request: Request,
) -> Response<Body> {
    let started = Instant::now();
    let (parts, body) = request.into_parts();
    let request_id = request_id(&parts.headers);
    // Outside the future, because both are needed after an error or a panic too.
    let (mut body, mut caller) = (Some(body), None);
    let responding = respond_to_mcp(&shared, peer, &request_id, parts, &mut body, &mut caller);
    let outcome = catch_panic(&request_id, responding).await;
    let outcome = discard_unread(outcome, body).await;
    complete_response(&shared, &request_id, caller.as_deref(), outcome, started)
}

/// Discards the body of a request that was rejected before its body was read.
pub(crate) async fn discard_unread<T>(
    outcome: Result<T, ErrorResponse>,
    unread: Option<Body>,
) -> Result<T, ErrorResponse> {
    let discarded = match unread {
        Some(unread) => discard_body(unread).await,
        None => Some(Bytes::new()),
    };
    outcome.map_err(|error| match discarded {
        Some(body) => name_message(error, &body),
        None => error.closing_connection(),
    })
}

/// Turns a panic into an internal error. The log has its message, the response has not.
pub(crate) async fn catch_panic<T>(
    request_id: &Arc<str>,
    responding: impl Future<Output = Result<T, ErrorResponse>>,
) -> Result<T, ErrorResponse> {
    // Unwind safe: the locks of shared state recover from poisoning.
    match AssertUnwindSafe(responding).catch_unwind().await {
        Ok(outcome) => outcome,
        Err(_) => Err(ErrorResponse::internal_error(request_id)),
    }
}

/// Adds the request id to a response, counts it and logs it.
pub(crate) fn complete_response(
    shared: &ServerState,
    request_id: &str,
    caller: Option<&Caller>,
    outcome: Result<Response<Body>, ErrorResponse>,
    started: Instant,
) -> Response<Body> {
    // Clients without a token must not fill the log.
    if let (Err(error), Some(caller)) = (&outcome, caller) {
        shared.log_error(error, request_id, Some(caller));
    }
    let mut response = outcome.unwrap_or_else(ErrorResponse::into_response);
    if let Ok(value) = HeaderValue::from_str(request_id) {
        response.headers_mut().insert(REQUEST_ID_HEADER, value);
    }
    count_response(&shared.config.counters, response.status().as_u16());
    // Nor must all requests while the storage cannot be reached.
    let is_visible = response.status().is_server_error()
        && (caller.is_some() || shared.anonymous_lines.allows_line());
    log_request(request_id, caller, response.status(), started, is_visible);
    response
}

pub(crate) fn count_response(counters: &TrafficCounters, status: u16) {
    // The first counter is for 2xx.
    if let Some(count) = counters.responses.get(usize::from(status / 100).wrapping_sub(2)) {
        count.fetch_add(1, Ordering::Relaxed);
    }
    if status == 429 {
        counters.rate_limited.fetch_add(1, Ordering::Relaxed);
    }
}

/// Logs all responses at debug level and those of a failed server visibly. [`log_failure`] has
/// logged the other errors, and the authenticator failed logins, whose number it limits.
fn log_request(
    request_id: &str,
    caller: Option<&Caller>,
    status: StatusCode,
    started: Instant,
    is_visible: bool,
) {
    // A macro, because tracing requires a constant level.
    macro_rules! event {
        ($level:ident) => {
            tracing::$level!(
                id = request_id,
                user = caller.map(|caller| &*caller.name),
                token = caller.and_then(|caller| caller.token.as_ref()).map(|id| id.as_str()),
                status = status.as_u16(),
                micros = u64::try_from(started.elapsed().as_micros()).unwrap_or_default(),
                "request"
            )
        };
    }
    if is_visible {
        event!(warn);
    } else {
        event!(debug);
    }
}

async fn respond_to_mcp(
    shared: &Arc<ServerState>,
    peer: SocketAddr,
    request_id: &Arc<str>,
    mut parts: Parts,
    body: &mut Option<Body>,
    logged_caller: &mut Option<Arc<Caller>>,
) -> Result<Response<Body>, ErrorResponse> {
    // Before authentication, so that a foreign web page cannot try tokens.
    let is_permitted =
        shared.origin_check.check_request(&parts).and_then(|()| check_method(&parts));
    is_permitted.inspect_err(|error| shared.log_anonymous(error, &parts, peer, request_id))?;
    if shared.is_shutting_down() {
        let message = "The server is shutting down. Nothing was changed; try again.";
        return Err(ErrorResponse::busy(message).closing_connection());
    }
    let AuthenticatedCaller { caller, limit } =
        shared.authenticate_request(&parts.headers, peer, request_id).await?;
    // Set before further checks, so that the log names the caller of rejected requests.
    *logged_caller = Some(caller.clone());
    // After authentication, so that clients without a token get only a 401.
    check_target(&parts)?;
    if caller.access == Access::Metrics {
        let message = "The token has scope metrics: it reads /metrics and nothing else.";
        return Err(ErrorResponse::new(StatusCode::FORBIDDEN, FORBIDDEN, message));
    }
    check_content(&parts.headers)?;
    // Checked before the body is read, so that a rejected subscription takes no memory.
    let is_listen = parts.headers.get(METHOD_HEADER).is_some_and(|method| method == LISTEN_METHOD);
    let subscription = if is_listen {
        // Built here, because `prepare_headers` removes the token.
        let permit = limit.acquire_subscription()?;
        let stream = shared.connections.open_stream(&parts.extensions, &shared.config)?;
        let (shared, headers) = (shared.clone(), parts.headers.clone());
        let (caller, request_id) = (caller.clone(), request_id.clone());
        let credentials = StreamCredentials { shared, headers, peer, caller, request_id };
        Some(((permit, stream), Arc::new(credentials)))
    } else {
        None
    };
    let expects = parts.headers.contains_key(EXPECT);
    let (body, body_permit) = shared
        .bodies
        .read_body(body.take().unwrap_or_default(), expects, &limit.body_budget)
        .await?;
    // Some editors write one into the files that a client sends.
    let bom = if body.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
    let body = body.slice(bom..);
    let (message, body) = match jsonrpc::parse_json(&body) {
        // rmcp parses the body again.
        Ok(parsed) => (parsed.value, parsed.repaired_text.map_or(body, Bytes::from)),
        Err(malformed) => return Ok(malformed_response(request_id, malformed)),
    };
    // Starts after the body: a slow upload has its own limit.
    let due = Instant::now() + shared.config.limits.request_timeout;
    let accepts_batches = batch::is_accepted(&parts.headers);
    let dialect = prepare_headers(&mut parts.headers);
    let sender =
        MessageSender { parts, caller, limit, dialect, due, request_id: request_id.clone() };
    if let Value::Array(members) = message {
        // The members hold the memory of the body until the last one is complete.
        let _held = body_permit;
        return batch::respond(shared, sender, members, accepts_batches).await;
    }
    respond_to_message(shared, sender, message, body, subscription, body_permit).await
}

/// The origin and the limits of a message, or of all members of a batch.
#[derive(Clone)]
pub(crate) struct MessageSender {
    pub(crate) parts: Parts,
    pub(crate) caller: Arc<Caller>,
    pub(crate) limit: Arc<TokenLimit>,
    pub(crate) dialect: ClientDialect,
    pub(crate) due: Instant,
    pub(crate) request_id: Arc<str>,
}

/// The permits of a subscription, and its credentials.
type Subscription = ((SubscriptionPermit, Option<StreamGuard>), Arc<StreamCredentials>);

/// Responds to one message; `body` is its JSON.
pub(crate) async fn respond_to_message(
    shared: &Arc<ServerState>,
    sender: MessageSender,
    mut message: Value,
    body: Bytes,
    subscription: Option<Subscription>,
    body_permit: Option<PermitPair>,
) -> Result<Response<Body>, ErrorResponse> {
    let MessageSender { parts, caller, limit, dialect, due, request_id } = sender;
    let call = take_direct_call(&parts.headers, &mut message);
    let is_plain_read = dialect == ClientDialect::JsonRpc && message["method"] == "resources/read";
    // Frees its memory before the request waits for a permit.
    drop(message);
    let permit = match shared.tokens.acquire_run_permit(&limit, due).await {
        Ok(permit) => permit,
        Err(error) => return Err(name_message(error, &body)),
    };
    let status = ResponseStatus::for_http();
    let context =
        RequestContext { caller, request_id: request_id.clone(), dialect, status: status.clone() };
    let in_flight = GaugeGuard::new(&shared.config.counters, |counters| &counters.in_flight);
    let is_listen = subscription.is_some();
    let running = RunningRequest { permit, subscription, body_permit, in_flight };
    // `finish_response` needs the body to explain a rejection by rmcp.
    let (state, sent) = (shared.clone(), body.clone());
    let handling = async move {
        (state.protocol.handle_request(parts, sent, call, is_listen, context).await, running)
    };
    let handling =
        DetachOnDrop { handling: Some(handling.boxed()), work: shared.running_requests.clone() };
    let Ok((mut response, running)) = timeout_at(due, handling).await else {
        let message = "The request took too long. A started write still finishes; read its target \
                       before you retry.";
        let error = ErrorResponse::busy(message).with_correlation_id(&request_id);
        return Err(name_message(error, &body));
    };
    if is_plain_read {
        response = name_contents(response).await;
    }
    let finished = finish_response(shared, &request_id, response, running, &status, &body).await;
    finished.map_err(|error| name_message(error, &body))
}

/// Adds the id and the method of the request, which is parsed again: the parsed message was freed.
fn name_message(error: ErrorResponse, body: &[u8]) -> ErrorResponse {
    match parse_request(body) {
        Some(request) => error.for_message(&request),
        None => error,
    }
}

/// Returns the request in a body; `None` for a response, whose id is not ours.
fn parse_request(body: &[u8]) -> Option<Value> {
    let message = jsonrpc::parse_json(body).ok()?.value;
    message["method"].is_string().then_some(message)
}

/// Permits of a request, held until its response is complete or its stream ends.
struct RunningRequest {
    permit: RunPermit,
    subscription: Option<Subscription>,
    body_permit: Option<PermitPair>,
    in_flight: GaugeGuard,
}

/// Returns the client's request id, if it is a plain word and not a secret; else a random one.
pub(crate) fn request_id(headers: &HeaderMap) -> Arc<str> {
    // The id is copied into logs and a header, so it must not carry line breaks or markup.
    if let Some(Ok(text)) = headers.get(REQUEST_ID_HEADER).map(HeaderValue::to_str)
        && is_plain_word(text)
        && matches!(redact_secrets(text), Cow::Borrowed(_))
    {
        return text.into();
    }
    correlation_id().into()
}

fn is_plain_word(text: &str) -> bool {
    (1..=MAX_REQUEST_ID_BYTES).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// Sets the headers that rmcp requires, and removes the token, so that no log can contain it.
fn prepare_headers(headers: &mut HeaderMap) -> ClientDialect {
    let is_mcp = names_type(headers, ACCEPT, EVENT_STREAM) || headers.contains_key(VERSION_HEADER);
    // rmcp rejects requests without these headers; plain JSON-RPC clients omit them.
    headers.insert(ACCEPT, JSON_AND_EVENTS);
    headers.entry(CONTENT_TYPE).or_insert(JSON_CONTENT_TYPE);
    headers.remove(AUTHORIZATION);
    if is_mcp { ClientDialect::Mcp } else { ClientDialect::JsonRpc }
}

/// A substring search suffices: parameters such as `q` do not matter here.
pub(crate) fn names_type(headers: &HeaderMap, header: HeaderName, media_type: &[u8]) -> bool {
    headers.get_all(header).iter().any(|value| {
        let mut parts = value.as_bytes().windows(media_type.len());
        parts.any(|part| part.eq_ignore_ascii_case(media_type))
    })
}

pub(crate) fn malformed_response(request_id: &str, malformed: MalformedMessage) -> Response<Body> {
    let call = (UNKNOWN_METHOD, None);
    log_failure(request_id, None, call, malformed.code, &malformed.message);
    let Some(error_line) = malformed.response else {
        let message = "body: neither a request nor a notification";
        return ErrorResponse::invalid_request(StatusCode::BAD_REQUEST, message).into_response();
    };
    json_response(StatusCode::BAD_REQUEST, error_line)
}

/// Converts the protocol's response into one with the requested status, always as JSON-RPC.
async fn finish_response(
    shared: &Arc<ServerState>,
    request_id: &Arc<str>,
    response: ProtocolResponse,
    running: RunningRequest,
    status: &ResponseStatus,
    body: &Bytes,
) -> Result<Response<Body>, ErrorResponse> {
    // rmcp's responses differ only in their status and content type.
    let content_type = response.headers().get(CONTENT_TYPE).map_or(&[][..], HeaderValue::as_bytes);
    if content_type.starts_with(EVENT_STREAM) {
        return Ok(response.map(|body| stream_body(body, running)));
    }
    let is_json = content_type == JSON_CONTENT_TYPE.as_bytes();
    // The response is complete, so its permits are free before the client reads it.
    drop(running);
    if is_json && response.status().is_client_error() {
        return Ok(rejected_by_rmcp(request_id, response, status.is_logged(), body).await);
    }
    if response.status() == StatusCode::ACCEPTED || is_json {
        let mut response = response.map(Body::new);
        if let Some(Ok(status)) = status.requested().map(StatusCode::from_u16) {
            *response.status_mut() = status;
        }
        if let Some(seconds) = status.retry_after_seconds() {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        return Ok(response);
    }
    match response.status() {
        // Valid JSON that is not a message.
        StatusCode::UNSUPPORTED_MEDIA_TYPE => {
            let malformed = match jsonrpc::parse_message(body) {
                // A message that parses has no further reason to report.
                Ok(_) => MalformedMessage::without_response(),
                Err(malformed) => malformed,
            };
            Ok(malformed_response(request_id, malformed))
        }
        // The response to a cancelled stream or call, and to a handler that panicked.
        StatusCode::INTERNAL_SERVER_ERROR if shared.is_shutting_down() => {
            let message = "The server is shutting down. Read the target before you retry a write.";
            Err(ErrorResponse::busy(message))
        }
        status if status.is_server_error() => Err(ErrorResponse::internal_error(request_id)),
        status => {
            // rmcp's plain text becomes a JSON-RPC error, because clients parse every body.
            let text = response.into_body().collect().await.unwrap_or_else(|never| match never {});
            let text = name_versions(&String::from_utf8_lossy(&text.to_bytes()));
            Err(ErrorResponse::invalid_request(status, text))
        }
    }
}

/// Adds the names of the contents, for which rmcp's types have no members.
async fn name_contents(response: ProtocolResponse) -> ProtocolResponse {
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.unwrap_or_else(|never| match never {}).to_bytes();
    let named = convert::name_contents(&bytes).map_or(bytes, Bytes::from);
    Response::from_parts(parts, Full::new(named).boxed())
}

/// Adds the supported versions to rmcp's message about an unsupported one.
fn name_versions(text: &str) -> String {
    let text = text.trim_start_matches("Bad Request: ");
    if !text.starts_with("Unsupported") {
        return text.to_owned();
    }
    let versions = ProtocolVersion::KNOWN_VERSIONS.iter().map(ProtocolVersion::as_str);
    let versions: Vec<_> = versions.collect();
    format!("{text}; use one of {}", versions.join(", "))
}

/// Logs a message that rmcp rejected, unless its handler has, and adds an id that rmcp omits.
async fn rejected_by_rmcp(
    request_id: &str,
    response: ProtocolResponse,
    is_logged: bool,
    body: &[u8],
) -> Response<Body> {
    let status = response.status();
    let bytes = response.into_body().collect().await.unwrap_or_else(|never| match never {});
    let bytes = bytes.to_bytes();
    // Passed on unchanged, because there is nothing to add an id to.
    let Ok(Value::Object(mut message)) = serde_json::from_slice(&bytes) else {
        return json_response(status, bytes.to_vec());
    };
    let error = &mut message["error"];
    let code = error["code"].as_i64().and_then(|code| i32::try_from(code).ok()).unwrap_or_default();
    let reason = name_versions(error["message"].as_str().unwrap_or_default());
    if !is_logged {
        log_failure(request_id, None, (UNKNOWN_METHOD, None), code, &reason);
    }
    error["message"] = reason.into();
    let request = parse_request(body).unwrap_or_default();
    message.entry("id").or_insert_with(|| message_id::request_id(request.get("id")));
    json_response(status, Value::Object(message).to_string().into_bytes())
}

/// A stream holds all permits of its request. A subscription holds only its own permit, and ends
/// when its credentials are no longer valid.
fn stream_body(body: BoxBody<Bytes, Infallible>, running: RunningRequest) -> Body {
    let RunningRequest { permit, subscription, body_permit, in_flight } = running;
    let frames = BodyStream::new(body);
    match subscription {
        // The call of this stream is still running, so it keeps every permit.
        None => body_with_permits((permit, body_permit, in_flight), frames),
        Some((permits, credentials)) => {
            let revoked = credentials.clone().until_revoked();
            // A change after the revocation may be found before the next check.
            let frames = frames.take_while(move |_| credentials.clone().are_valid());
            body_with_permits(permits, frames.take_until(revoked))
        }
    }
}

/// Returns a body that holds these permits until it is dropped.
pub(crate) fn body_with_permits<P: Send + 'static, E: Into<BoxError> + 'static>(
    permits: P,
    frames: impl Stream<Item = Result<Frame<Bytes>, E>> + Send + 'static,
) -> Body {
    Body::new(StreamBody::new(frames.inspect(move |_| {
        let _held = &permits;
    })))
}
