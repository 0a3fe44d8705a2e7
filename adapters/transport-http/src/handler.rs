//! The MCP endpoint: checks before the protocol handler, and the HTTP form of its response.
//!
//! A client that disconnects or waits too long gets no response, but a started request runs to its
//! end in a task of its own, so that no write stops half-way.

use std::borrow::Cow;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use async_trait::async_trait;
use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{
    ACCEPT, ALLOW, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER,
};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use bytes::Bytes;
use futures_util::FutureExt;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use reqlore_domain::identity::{Caller, redact};
use reqlore_domain::ports::service::ApplicationService;
use reqlore_mcp::request_context::{ClientDialect, RequestContext, ResponseStatus, correlation_id};
use reqlore_mcp::server::Server;
use reqlore_mcp::wire::{self, ToolCall};
use rmcp::ServerHandler;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::authentication::{Admitted, SubscriptionOwner};
use crate::error_response::{ErrorResponse, JSON, json};
use crate::limits::Limits;
use crate::rate_limit::TokenPermit;
use crate::request_body::{BodyPermit, PermitBody, discard, text};
use crate::{GaugeGuard, Peer, Shared};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const MAX_REQUEST_ID: usize = 64;
const JSON_AND_EVENTS: HeaderValue =
    HeaderValue::from_static("application/json, text/event-stream");
const EVENTS: &[u8] = b"text/event-stream";
/// The method of a request since 2026-07-28; rmcp compares it with the body.
const METHOD: &str = "mcp-method";
const VERSION: &str = "mcp-protocol-version";
const SESSION: &str = "mcp-session-id";
const LISTEN: &str = "subscriptions/listen";
/// Versions whose tool calls need no further headers.
const LEGACY_VERSIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];

/// The protocol behind the endpoint.
pub(crate) struct Protocol {
    service: Box<dyn Service>,
    /// Answers tool calls without rmcp; `None` for a handler of the conformance tests.
    server: Option<Server>,
    cancelled: CancellationToken,
}

/// rmcp's service with any handler.
#[async_trait]
trait Service: Send + Sync {
    async fn handle(&self, request: Request<Full<Bytes>>) -> ProtocolResponse;
}

type ProtocolResponse = Response<BoxBody<Bytes, Infallible>>;

#[async_trait]
impl<H: ServerHandler> Service for StreamableHttpService<H, NeverSessionManager> {
    async fn handle(&self, request: Request<Full<Bytes>>) -> ProtocolResponse {
        StreamableHttpService::handle(self, request).await
    }
}

impl Protocol {
    pub(crate) fn new(service: Arc<dyn ApplicationService>, limits: &Limits) -> Self {
        let server = Server::for_requests(service);
        Self { server: Some(server.clone()), ..Self::of(server, limits) }
    }

    pub(crate) fn of(handler: impl ServerHandler + Clone, limits: &Limits) -> Self {
        let cancelled = CancellationToken::new();
        // `OriginCheck` is stricter than rmcp's lists.
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .with_max_request_body_bytes(limits.body)
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_cancellation_token(cancelled.clone());
        let sessions = Arc::new(NeverSessionManager::default());
        let service = StreamableHttpService::new(move || Ok(handler.clone()), sessions, config);
        Self { service: Box::new(service), server: None, cancelled }
    }

    /// Gives subscriptions their last responses.
    pub(crate) fn finish(&self) {
        if let Some(server) = &self.server {
            server.finish();
        }
    }

    /// Ends all streams and calls.
    pub(crate) fn cancel(&self) {
        self.cancelled.cancel();
    }

    async fn handle(&self, parts: Parts, body: Bytes, context: RequestContext) -> ProtocolResponse {
        if let Some(server) = &self.server
            && let Some(call) = direct_call(&parts.headers, &body)
        {
            let called = self.cancelled.run_until_cancelled(server.call_directly(call, context));
            let (status, body) = match called.await {
                Some(body) => (StatusCode::OK, Bytes::from(body)),
                None => (StatusCode::INTERNAL_SERVER_ERROR, Bytes::new()),
            };
            let mut response = Response::new(Full::new(body).boxed());
            *response.status_mut() = status;
            if status == StatusCode::OK {
                response.headers_mut().insert(CONTENT_TYPE, JSON);
            }
            return response;
        }
        let mut parts = parts;
        parts.extensions.insert(context);
        self.service.handle(Request::from_parts(parts, Full::new(body))).await
    }
}

/// A tool call that needs nothing of rmcp's service.
fn direct_call(headers: &HeaderMap, body: &Bytes) -> Option<ToolCall> {
    let needs_rmcp = headers.iter().any(|(name, value)| match name.as_str() {
        VERSION => !LEGACY_VERSIONS.iter().any(|version| value == version),
        SESSION => false,
        name => name.starts_with("mcp-"),
    });
    if needs_rmcp { None } else { wire::tool_call(body).filter(ToolCall::is_plain) }
}

/// Answers a request to the endpoint.
pub(crate) async fn answer(
    State(shared): State<Arc<Shared>>,
    Extension(Peer(peer)): Extension<Peer>,
    request: Request,
) -> Response<Body> {
    let started = Instant::now();
    let (parts, body) = request.into_parts();
    let request_id = request_id(&parts.headers);
    let (mut body, mut caller) = (Some(body), None);
    let answering = respond(&shared, peer, &request_id, parts, &mut body, &mut caller);
    let mut answered = catch_panic(&request_id, answering).await;
    if let Some(unread) = body {
        let discarded = discard(unread).await;
        answered = answered.map_err(|error| if discarded { error } else { error.closing() });
    }
    complete(&shared, &request_id, caller.as_deref(), answered, started)
}

/// A panic becomes an internal error. Its message is in the log, not in the response.
pub(crate) async fn catch_panic<T>(
    request_id: &Arc<str>,
    answering: impl Future<Output = Result<T, ErrorResponse>>,
) -> Result<T, ErrorResponse> {
    // Shared state is behind locks that recover from poisoning.
    let answered = AssertUnwindSafe(answering).catch_unwind().await;
    answered.unwrap_or_else(|_| Err(ErrorResponse::internal(request_id)))
}

/// Adds the request id to a response, counts it and logs it.
pub(crate) fn complete(
    shared: &Shared,
    request_id: &str,
    caller: Option<&Caller>,
    answered: Result<Response<Body>, ErrorResponse>,
    started: Instant,
) -> Response<Body> {
    let mut response = answered.unwrap_or_else(ErrorResponse::into_response);
    if let Ok(value) = HeaderValue::from_str(request_id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    shared.counters.count_response(response.status().as_u16());
    log(request_id, caller, response.status(), started);
    response
}

/// Refused and failed requests are logged by default, others at debug level. The authenticator logs
/// failed logins, because it limits how many.
fn log(request_id: &str, caller: Option<&Caller>, status: StatusCode, started: Instant) {
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
    match status.as_u16() {
        500.. => event!(warn),
        401 | 429 if caller.is_none() => event!(debug),
        401 | 403 | 429 => event!(info),
        _ => event!(debug),
    }
}

async fn respond(
    shared: &Arc<Shared>,
    peer: SocketAddr,
    request_id: &Arc<str>,
    mut parts: Parts,
    body: &mut Option<Body>,
    logged_caller: &mut Option<Arc<Caller>>,
) -> Result<Response<Body>, ErrorResponse> {
    shared.origin_check.check(&parts)?;
    if parts.method != Method::POST {
        let message = "Only POST is served here.";
        let error = ErrorResponse::invalid(StatusCode::METHOD_NOT_ALLOWED, message);
        return Err(error.header(ALLOW, HeaderValue::from_static("POST")));
    }
    if shared.is_ending() {
        let message = "The server is ending. Nothing was done; try again.";
        return Err(ErrorResponse::busy(message).closing());
    }
    let Admitted { caller, limit } = login(shared, &parts.headers, peer, request_id).await?;
    *logged_caller = Some(caller.clone());
    check_target(&parts)?;
    check_content(&parts.headers)?;
    let is_listen = parts.headers.get(METHOD).is_some_and(|method| method == LISTEN);
    let subscription = if is_listen {
        let client = client(shared, &parts.headers, peer);
        let owner = SubscriptionOwner::new(&parts.headers, client, &caller, request_id);
        Some((limit.subscribe()?, owner))
    } else {
        None
    };
    let (body, body_permit) =
        shared.bodies.read(body.take().unwrap_or_default(), &limit.body_budget).await?;
    if let Err(malformed) = wire::check(&body) {
        return Ok(malformed_response(malformed.answer));
    }
    let due = Instant::now() + shared.limits.request_time;
    let permit = shared.tokens.run(&limit, due).await.map_err(|error| error.answering(&body))?;
    let status = ResponseStatus::over_http();
    let dialect = prepare_headers(&mut parts.headers);
    let context =
        RequestContext { caller, request_id: request_id.clone(), dialect, status: status.clone() };
    let running = Running {
        permit,
        subscription,
        body: body_permit,
        in_flight: GaugeGuard::new(&shared.counters, |counters| &counters.in_flight),
    };
    let (protocol, request_body) = (shared.clone(), body.clone());
    let handling =
        async move { (protocol.protocol.handle(parts, request_body, context).await, running) };
    let handling = DetachOnDrop { handling: Some(Box::pin(handling)), work: shared.work.clone() };
    let Ok((response, running)) = timeout_at(due, handling).await else {
        let message = "This took too long. If it writes, what was begun is finished; look before \
                       you send it again.";
        return Err(ErrorResponse::busy(message).correlated(request_id).answering(&body));
    };
    finish_response(shared, request_id, response, running, &status, &body).await
}

/// A running request. When its client stops waiting, it continues in a task of its own.
struct DetachOnDrop<T: Send + 'static> {
    handling: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    work: TaskTracker,
}

impl<T: Send + 'static> Future for DetachOnDrop<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let this = self.get_mut();
        // Taken out, so that a future that panics is not polled again.
        let Some(mut handling) = this.handling.take() else { return Poll::Pending };
        let polled = handling.as_mut().poll(context);
        if polled.is_pending() {
            this.handling = Some(handling);
        }
        polled
    }
}

impl<T: Send + 'static> Drop for DetachOnDrop<T> {
    fn drop(&mut self) {
        if let Some(handling) = self.handling.take()
            && let Ok(runtime) = Handle::try_current()
        {
            self.work.spawn_on(handling, &runtime);
        }
    }
}

/// Held until a request is answered, or until its stream ends.
struct Running {
    permit: TokenPermit,
    subscription: Option<(TokenPermit, Option<SubscriptionOwner>)>,
    body: Option<BodyPermit>,
    in_flight: GaugeGuard,
}

/// Authenticates a request to any path.
pub(crate) async fn login(
    shared: &Shared,
    headers: &HeaderMap,
    peer: SocketAddr,
    request_id: &str,
) -> Result<Admitted, ErrorResponse> {
    let client = client(shared, headers, peer);
    let admitted = shared.authentication.admit(&shared.tokens, headers, client, request_id).await;
    if admitted.as_ref().is_err_and(|error| error.status == StatusCode::UNAUTHORIZED) {
        shared.counters.failed_logins.fetch_add(1, Ordering::Relaxed);
    }
    admitted
}

fn client(shared: &Shared, headers: &HeaderMap, peer: SocketAddr) -> IpAddr {
    let proxy = shared.behind_proxy.as_ref();
    proxy.map_or(peer.ip(), |proxy| proxy.client(peer.ip(), headers))
}

/// The client's own request id, if it is a plain word and no secret; else a random one.
pub(crate) fn request_id(headers: &HeaderMap) -> Arc<str> {
    let is_word = |text: &&str| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        (1..=MAX_REQUEST_ID).contains(&text.len()) && text.bytes().all(fits)
    };
    let given = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok()).filter(is_word);
    match given.filter(|text| matches!(redact(text), Cow::Borrowed(_))) {
        Some(text) => text.into(),
        None => correlation_id().into(),
    }
}

/// Refuses a query and a user: a secret in a URL ends up in logs.
pub(crate) fn check_target(parts: &Parts) -> Result<(), ErrorResponse> {
    let has_user = parts.uri.authority().is_some_and(|authority| authority.as_str().contains('@'));
    if parts.uri.query().is_none() && !has_user {
        return Ok(());
    }
    let message = "The URL must end with its path: no query and no user. A token belongs into the \
                   Authorization header; one that was sent in a URL should be revoked.";
    Err(ErrorResponse::invalid(StatusCode::BAD_REQUEST, message))
}

fn check_content(headers: &HeaderMap) -> Result<(), ErrorResponse> {
    let unsupported =
        |message| Err(ErrorResponse::invalid(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
    let mut codings = headers.get_all(CONTENT_ENCODING).iter();
    if codings.any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return unsupported("Content-Encoding: send the body as it is");
    }
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    if types.all(|kind| kind == JSON || kind.to_str().is_ok_and(is_json)) {
        return Ok(());
    }
    unsupported("Content-Type: send application/json in UTF-8")
}

fn is_json(kind: &str) -> bool {
    let mut parts = kind.split(';').map(str::trim);
    let is_json = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("application/json"));
    let mut charsets = parts.filter_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches('"'))
    });
    is_json && charsets.all(|charset| charset.eq_ignore_ascii_case("utf-8"))
}

/// Sets the headers that rmcp requires, and removes the token, so that nothing can print it.
fn prepare_headers(headers: &mut HeaderMap) -> ClientDialect {
    let takes_events = headers.get_all(ACCEPT).iter().any(|accepted| {
        accepted.as_bytes().windows(EVENTS.len()).any(|part| part.eq_ignore_ascii_case(EVENTS))
    });
    let is_mcp = takes_events || headers.contains_key(VERSION);
    headers.insert(ACCEPT, JSON_AND_EVENTS);
    headers.entry(CONTENT_TYPE).or_insert(JSON);
    headers.remove(AUTHORIZATION);
    if is_mcp { ClientDialect::Mcp } else { ClientDialect::JsonRpc }
}

fn malformed_response(answer: Option<Vec<u8>>) -> Response<Body> {
    let Some(answer) = answer else {
        let message = "This is neither a request nor a notification.";
        return ErrorResponse::invalid(StatusCode::BAD_REQUEST, message).into_response();
    };
    json(StatusCode::BAD_REQUEST, answer)
}

/// The protocol's response with the status that the application asked for, always as JSON-RPC.
async fn finish_response(
    shared: &Arc<Shared>,
    request_id: &Arc<str>,
    response: ProtocolResponse,
    running: Running,
    status: &ResponseStatus,
    body: &Bytes,
) -> Result<Response<Body>, ErrorResponse> {
    let kind = response.headers().get(CONTENT_TYPE);
    if kind.is_some_and(|kind| kind.as_bytes().starts_with(EVENTS)) {
        return Ok(response.map(|body| stream(shared, body, running)));
    }
    drop(running);
    if response.status() == StatusCode::ACCEPTED || kind.is_some_and(|kind| kind == JSON) {
        let mut response = response.map(Body::new);
        if let Some(status) = status.get().and_then(|status| StatusCode::from_u16(status).ok()) {
            *response.status_mut() = status;
        }
        if let Some(seconds) = status.retry_after() {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        return Ok(response);
    }
    match response.status() {
        // Valid JSON that is not a message.
        StatusCode::UNSUPPORTED_MEDIA_TYPE => {
            let answer = wire::read(body).err().and_then(|malformed| malformed.answer);
            Ok(malformed_response(answer))
        }
        // The answer to a cancelled stream or call, and to a handler that broke.
        StatusCode::INTERNAL_SERVER_ERROR if shared.is_ending() => {
            Err(ErrorResponse::busy("The server is ending. Look before you send it again."))
        }
        status if status.is_server_error() => Err(ErrorResponse::internal(request_id)),
        status => Err(ErrorResponse::invalid(status, text(response.into_body()).await)),
    }
}

/// A stream keeps all permits of its request; a subscription only its own.
fn stream(shared: &Arc<Shared>, stream: BoxBody<Bytes, Infallible>, running: Running) -> Body {
    let Running { permit, subscription, body, in_flight } = running;
    let Some((subscription, owner)) = subscription else {
        let permits = (permit, body, in_flight);
        return Body::new(PermitBody::new(stream, permits, None::<std::future::Ready<()>>));
    };
    let authenticator = shared.authentication.authenticator.clone();
    let ended = owner.map(|owner| owner.until_changed(authenticator));
    Body::new(PermitBody::new(stream, subscription, ended))
}
