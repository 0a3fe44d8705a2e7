//! The one endpoint: what is checked before rmcp sees a request, and what is made of its answer.
//!
//! Who goes away, or waits for too long, is not answered; what was begun is finished all the same,
//! in a task of its own, so that no write ends half-way.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use async_trait::async_trait;
use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};
use bytes::Bytes;
use http_body_util::Full;
use http_body_util::combinators::BoxBody;
use reqlore_domain::identity::Caller;
use reqlore_domain::ports::service::ApplicationService;
use reqlore_mcp::asker::{Asker, Status, Style};
use reqlore_mcp::server::Server;
use reqlore_mcp::wire;
use rmcp::ServerHandler;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::bodies::{self, Held, Room, text};
use crate::caught::{broken, caught};
use crate::checks::{check_content, check_method, check_target};
use crate::counters::Counted;
use crate::door::Door;
use crate::gates::{Listening, Place};
use crate::limits::Limits;
use crate::login::{Admitted, Login};
use crate::refusal::{JSON, Refusal, json};
use crate::standing::{Opened, Standing};
use crate::{Peer, Shared, correlation};

const BOTH: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const EVENTS: &[u8] = b"text/event-stream";
/// Names the method of a request since 2026-07-28; rmcp holds it against the body.
const METHOD: &str = "mcp-method";
const VERSION: &str = "mcp-protocol-version";
const LISTEN: &str = "subscriptions/listen";

/// rmcp's side of the endpoint.
pub(crate) struct Mcp {
    service: Box<dyn Service>,
    /// Told when no more requests come.
    finish: Box<dyn Fn() + Send + Sync>,
    cancelled: CancellationToken,
}

/// rmcp's service, whatever handler it has.
#[async_trait]
trait Service: Send + Sync {
    async fn handle(&self, request: Request<Full<Bytes>>) -> Answer;
}

type Answer = Response<BoxBody<Bytes, Infallible>>;

#[async_trait]
impl<H: ServerHandler> Service for StreamableHttpService<H, NeverSessionManager> {
    async fn handle(&self, request: Request<Full<Bytes>>) -> Answer {
        StreamableHttpService::handle(self, request).await
    }
}

impl Mcp {
    pub(crate) fn new(endpoint: Arc<dyn ApplicationService>, door: &Door, limits: &Limits) -> Self {
        let server = Server::for_requests(endpoint);
        Self::of(server.clone(), move || server.finish(), door, limits)
    }

    pub(crate) fn of(
        handler: impl ServerHandler + Clone,
        finish: impl Fn() + Send + Sync + 'static,
        door: &Door,
        limits: &Limits,
    ) -> Self {
        let cancelled = CancellationToken::new();
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .with_max_request_body_bytes(limits.body)
            .with_allowed_hosts(door.hosts())
            .with_allowed_origins(door.origins())
            .with_cancellation_token(cancelled.clone());
        let sessions = Arc::new(NeverSessionManager::default());
        let service = StreamableHttpService::new(move || Ok(handler.clone()), sessions, config);
        Self { service: Box::new(service), finish: Box::new(finish), cancelled }
    }

    /// Subscriptions get their last answers.
    pub(crate) fn finish(&self) {
        (self.finish)();
    }

    /// Streams end.
    pub(crate) fn cancel(&self) {
        self.cancelled.cancel();
    }
}

/// Answers a request to the endpoint, and tells the log of it.
pub(crate) async fn answer(
    State(shared): State<Arc<Shared>>,
    Extension(Peer(peer)): Extension<Peer>,
    request: Request,
) -> Response<Body> {
    let started = Instant::now();
    let (parts, body) = request.into_parts();
    let request_id = correlation::request_id(&parts.headers);
    let (mut body, mut caller) = (Some(body), None);
    let answering = respond(&shared, peer, &request_id, parts, &mut body, &mut caller);
    let mut answered = caught(&request_id, answering).await;
    if let Some(unread) = body {
        let passed = bodies::pass(unread).await;
        answered = answered.map_err(|refusal| if passed { refusal } else { refusal.closing() });
    }
    tell(&shared, &request_id, caller.as_deref(), answered, started)
}

/// The answer under its name, counted, and told to the log.
pub(crate) fn tell(
    shared: &Shared,
    request_id: &str,
    caller: Option<&Caller>,
    answered: Result<Response<Body>, Refusal>,
    started: Instant,
) -> Response<Body> {
    let mut response = answered.unwrap_or_else(Refusal::into_response);
    correlation::name(&mut response, request_id);
    shared.counters.answered(response.status().as_u16());
    log(request_id, caller, response.status(), started);
    response
}

/// Refused and failed requests stand in the log by default, all others when asked for. Failed
/// logins are told by the authenticator, which knows an end: anybody can send thousands.
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
    told: &mut Option<Arc<Caller>>,
) -> Result<Response<Body>, Refusal> {
    shared.door.check(&parts)?;
    check_method(&parts.method)?;
    if shared.is_ending() {
        return Err(Refusal::busy("The server is ending. Nothing was done; try again.").closing());
    }
    let Admitted { caller, gate } = login(shared, &parts.headers, peer, request_id).await?;
    *told = Some(caller.clone());
    check_target(&parts)?;
    check_content(&parts.headers)?;
    let is_listen = parts.headers.get(METHOD).is_some_and(|method| method == LISTEN);
    let listening = if is_listen {
        let client = client(shared, &parts.headers, peer);
        let opened = Login::opened(&parts.headers, client, &caller, request_id);
        Some((gate.listen()?, opened))
    } else {
        None
    };
    let (body, room) = shared.bodies.read(body.take().unwrap_or_default(), &gate.room).await?;
    if let Err(refused) = wire::check(&body).map_err(|malformed| malformed.answer) {
        return Ok(malformed(refused));
    }
    let due = Instant::now() + shared.limits.request_time;
    let entered = shared.gates.enter(&gate, due).await;
    let place = entered.map_err(|refusal| refusal.answering(&body))?;
    let status = Status::watched();
    prepare(&mut parts, caller, request_id.clone(), status.clone());
    let running = Running {
        place,
        listening,
        _room: room,
        _counted: Counted::new(&shared.counters, |counters| &counters.in_flight),
    };
    let request = Request::from_parts(parts, Full::new(body.clone()));
    let mcp = shared.clone();
    let handling = async move { (mcp.mcp.service.handle(request).await, running) };
    let begun = Begun { handling: Some(Box::pin(handling)), work: shared.work.clone() };
    let Ok((response, running)) = timeout_at(due, begun).await else {
        let message = "This took too long. If it writes, what was begun is finished; look before \
                       you send it again.";
        return Err(Refusal::busy(message).correlated(request_id).answering(&body));
    };
    finish(shared, request_id, response, running, &status, &body).await
}

/// A request that runs. If nobody waits for it any more, it goes on by itself.
struct Begun<T: Send + 'static> {
    handling: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    work: TaskTracker,
}

impl<T: Send + 'static> Future for Begun<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let this = self.get_mut();
        // Taken out, so that what panics does not run on.
        let Some(mut handling) = this.handling.take() else { return Poll::Pending };
        let polled = handling.as_mut().poll(context);
        if polled.is_pending() {
            this.handling = Some(handling);
        }
        polled
    }
}

impl<T: Send + 'static> Drop for Begun<T> {
    fn drop(&mut self) {
        if let Some(handling) = self.handling.take()
            && let Ok(runtime) = Handle::try_current()
        {
            self.work.spawn_on(handling, &runtime);
        }
    }
}

/// What a request holds until it is answered; for a stream: until its end.
pub(crate) struct Running {
    place: Place,
    listening: Option<(Listening, Option<Opened>)>,
    _room: Option<Room>,
    _counted: Counted,
}

/// Recognises who asks, wherever the request comes from.
pub(crate) async fn login(
    shared: &Shared,
    headers: &HeaderMap,
    peer: SocketAddr,
    request_id: &str,
) -> Result<Admitted, Refusal> {
    let client = client(shared, headers, peer);
    let admitted = shared.login.admit(&shared.gates, headers, client, request_id).await;
    if admitted.as_ref().is_err_and(|refusal| refusal.status == StatusCode::UNAUTHORIZED) {
        shared.counters.failed_logins.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
    admitted
}

fn client(shared: &Shared, headers: &HeaderMap, peer: SocketAddr) -> IpAddr {
    let proxy = shared.behind_proxy.as_ref();
    proxy.map_or(peer.ip(), |proxy| proxy.client(peer.ip(), headers))
}

/// Makes of a request what rmcp wants, and lets the protocol know who asks.
fn prepare(parts: &mut Parts, caller: Arc<Caller>, request_id: Arc<str>, status: Status) {
    let headers = &mut parts.headers;
    let takes_events = headers.get_all(ACCEPT).iter().any(|accepted| {
        accepted.as_bytes().windows(EVENTS.len()).any(|part| part.eq_ignore_ascii_case(EVENTS))
    });
    let is_mcp = takes_events || headers.contains_key(VERSION);
    headers.insert(ACCEPT, BOTH);
    headers.entry(CONTENT_TYPE).or_insert(JSON);
    // Nobody needs it from here on, so nobody can print it.
    headers.remove(AUTHORIZATION);
    let style = if is_mcp { Style::Mcp } else { Style::Plain };
    parts.extensions.insert(Asker { caller, request_id, style, status });
}

fn malformed(answer: Option<Vec<u8>>) -> Response<Body> {
    let Some(answer) = answer else {
        let message = "This is neither a request nor a notification.";
        return Refusal::invalid(StatusCode::BAD_REQUEST, message).into_response();
    };
    json(StatusCode::BAD_REQUEST, answer)
}

/// What rmcp answered, with the status that it deserves, as JSON-RPC in any case.
async fn finish<B>(
    shared: &Arc<Shared>,
    request_id: &Arc<str>,
    response: Response<B>,
    running: Running,
    status: &Status,
    body: &Bytes,
) -> Result<Response<Body>, Refusal>
where
    B: http_body::Body<Data = Bytes, Error = Infallible> + Send + Unpin + 'static,
{
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
        // Good JSON that is no message.
        StatusCode::UNSUPPORTED_MEDIA_TYPE => {
            let answer = wire::read(body).err().and_then(|malformed| malformed.answer);
            Ok(malformed(answer))
        }
        // It answers so when its streams were ended from here, and when its handler broke.
        StatusCode::INTERNAL_SERVER_ERROR if shared.is_ending() => {
            Err(Refusal::busy("The server is ending. Look before you send it again."))
        }
        status if status.is_server_error() => Err(broken(request_id)),
        status => Err(Refusal::invalid(status, text(response.into_body()).await)),
    }
}

/// A stream holds its place as long as it lasts; a standing one only that among its like.
fn stream<B>(shared: &Arc<Shared>, body: B, running: Running) -> Body
where
    B: http_body::Body<Data = Bytes, Error = Infallible> + Send + Unpin + 'static,
{
    match running.listening {
        Some((listening, opened)) => {
            drop(running.place);
            match opened {
                Some(opened) => {
                    let body = Standing::new(body, opened, shared.clone());
                    Body::new(Held { body, _held: listening })
                }
                None => Body::new(Held { body, _held: listening }),
            }
        }
        None => Body::new(Held { body, _held: running }),
    }
}
