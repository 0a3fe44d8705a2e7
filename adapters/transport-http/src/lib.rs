//! MCP and plain JSON-RPC over HTTP/1.1 at `POST /api/v1/mcp`, for callers with a token.
//!
//! rmcp implements the protocol. This crate limits, validates and authenticates requests before it.
//! A reverse proxy terminates TLS.

mod authentication;
mod batch;
mod connections;
mod error_response;
mod forwarded;
mod handler;
mod health;
mod open_connections;
mod origin_check;
mod pages;
mod rate_limit;
mod request_body;
mod timeout_stream;

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{any, get};
use futures_util::future::BoxFuture;
use reqlore_domain::ports::authenticator::Authenticator;
use reqlore_domain::ports::service::{AnswerFormat, ApplicationService};
#[cfg(doc)]
use reqlore_domain::ports::transport::PageOrigin;
use reqlore_domain::ports::transport::{TrafficCounters, Transport};
use reqlore_mcp::shutdown::Shutdown;
use rmcp::ServerHandler;
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

pub use forwarded::{ForwardedBy, ProxyNetwork, ProxyTrust};
pub use health::Readiness;

use error_response::LineLimit;
use handler::ProtocolHandler;
use open_connections::OpenConnections;
use origin_check::OriginCheck;
use rate_limit::{LoginLimits, TokenLimits};
use request_body::BodyReader;

/// Path of the MCP endpoint.
pub const PATH: &str = "/api/v1/mcp";

#[derive(Clone)]
pub struct HttpConfig {
    /// Port 0 selects a free port.
    pub listen: SocketAddr,
    /// Set if a reverse proxy terminates TLS and forwards the client's address.
    pub behind_proxy: Option<ProxyTrust>,
    /// Allowed Host headers besides loopback names: `name`, or `name:port` for one port.
    pub hosts: Vec<String>,
    /// Allowed origins besides loopback ones: `https://name` with the default port,
    /// `https://name:port`, `https://name:*`.
    pub origins: Vec<String>,
    pub limits: HttpLimits,
    /// The format of answers to MCP clients, unless a request asks for another.
    pub answers: AnswerFormat,
    pub authenticator: Arc<dyn Authenticator>,
    /// The state of the storage, for `/readyz`.
    pub readiness: Arc<dyn Fn() -> Readiness + Send + Sync>,
    /// Renders `/metrics`, for administrators only.
    pub render_metrics: Arc<dyn Fn() -> String + Send + Sync>,
    pub counters: Arc<TrafficCounters>,
    /// Pages for people, at every path that this transport does not serve itself. Their requests
    /// pass the checks of Host and Origin and the limits, and have a [`PageOrigin`] as extension.
    pub pages: Option<Router>,
}

impl fmt::Debug for HttpConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config").field("listen", &self.listen).finish_non_exhaustive()
    }
}

/// Limits of the server. The defaults suit a team.
#[derive(Debug, Clone)]
pub struct HttpLimits {
    /// Maximum open connections. A further one replaces an idle one, or is closed at once. At most
    /// three quarters carry streams.
    pub connections: usize,
    /// Maximum open connections of one address; trusted proxies are exempt.
    pub connections_per_address: usize,
    /// Time from the first byte of a request, or from connecting, to the end of its headers.
    pub header_timeout: Duration,
    /// Maximum bytes of a request line with its headers.
    pub header_bytes: usize,
    pub header_fields: usize,
    /// Maximum time between two requests of a connection.
    pub idle_timeout: Duration,
    /// Maximum bytes of a request body.
    pub body_bytes: usize,
    /// Time from the end of the headers to the end of the body.
    pub body_timeout: Duration,
    /// Maximum bytes of all bodies in memory; at least one body is always allowed.
    pub total_body_bytes: usize,
    /// Time after which a peer that reads nothing of a response is disconnected.
    pub unread_timeout: Duration,
    /// Time to look up a token, and from the end of the body to the start of the response.
    pub request_timeout: Duration,
    /// Maximum requests that run in parallel.
    pub in_flight: usize,
    /// Maximum requests of one token that run in parallel.
    pub in_flight_per_token: usize,
    /// Maximum requests that wait to run. Further ones are rejected.
    pub queue: usize,
    /// Maximum open subscriptions of one token.
    pub subscriptions_per_token: usize,
    /// Rate of requests of one token.
    pub request_rate: Option<RateLimit>,
    /// Rate of failed logins from one address.
    pub failed_login_rate: Option<RateLimit>,
    /// Rate of look-ups of unknown tokens, from all addresses together.
    pub look_up_rate: Option<RateLimit>,
    /// Time for accepted requests after the shutdown began. Closing takes one more second.
    pub drain_timeout: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            connections: 256,
            connections_per_address: 64,
            header_timeout: Duration::from_secs(10),
            header_bytes: 16 * 1024,
            header_fields: 64,
            idle_timeout: Duration::from_secs(60),
            body_bytes: 4 * 1024 * 1024,
            body_timeout: Duration::from_secs(15),
            total_body_bytes: 64 * 1024 * 1024,
            unread_timeout: Duration::from_secs(20),
            request_timeout: Duration::from_secs(30),
            in_flight: 64,
            in_flight_per_token: 8,
            queue: 64,
            subscriptions_per_token: 8,
            request_rate: Some(RateLimit { every: Duration::from_millis(10), burst: 200 }),
            failed_login_rate: Some(RateLimit { every: Duration::from_secs(12), burst: 5 }),
            look_up_rate: Some(RateLimit { every: Duration::from_millis(10), burst: 200 }),
            drain_timeout: Duration::from_secs(9),
        }
    }
}

/// Allows `burst` requests at once and one more in each period. Both must not be zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    pub every: Duration,
    pub burst: u32,
}

/// Increments a gauge and decrements it on drop.
struct GaugeGuard(Arc<TrafficCounters>, fn(&TrafficCounters) -> &AtomicU64);

impl GaugeGuard {
    fn new(counters: &Arc<TrafficCounters>, gauge: fn(&TrafficCounters) -> &AtomicU64) -> Self {
        // Relaxed: metrics need no order between counters.
        gauge(counters).fetch_add(1, Ordering::Relaxed);
        Self(counters.clone(), gauge)
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        (self.1)(&self.0).fetch_sub(1, Ordering::Relaxed);
    }
}

/// A running request. On drop it continues in a separate task.
struct DetachOnDrop<T: Send + 'static> {
    handling: Option<BoxFuture<'static, T>>,
    work: TaskTracker,
}

impl<T: Send + 'static> Future for DetachOnDrop<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let this = self.get_mut();
        // Taken out during the poll, so that a future that panics is not polled again.
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
            // Outside a runtime the future cannot be spawned, only dropped.
            && let Ok(runtime) = Handle::try_current()
        {
            // The tracker lets a shutdown wait for this task.
            self.work.spawn_on(handling, &runtime);
        }
    }
}

/// HTTP server that is bound to its port and not serving yet.
#[derive(Debug)]
pub struct HttpTransport {
    listener: TcpListener,
    config: HttpConfig,
    origin_check: OriginCheck,
    /// Set by [`Transport::start`].
    pub shutdown: Shutdown,
}

impl HttpTransport {
    /// Validates the configuration and binds the port.
    pub fn bind(config: HttpConfig) -> io::Result<Self> {
        // Canonical, because `::ffff:127.0.0.1` is loopback too.
        if !config.listen.ip().to_canonical().is_loopback() && config.behind_proxy.is_none() {
            let message = format!(
                "{}: tokens would cross the network unencrypted; listen on 127.0.0.1, or use a TLS \
                 proxy and --behind-proxy",
                config.listen
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        // Before binding: an invalid configuration must not take the port.
        let origin_check = OriginCheck::new(&config.hosts, &config.origins)
            .map_err(|message| io::Error::new(io::ErrorKind::InvalidInput, message))?;
        let listener = TcpListener::bind(config.listen)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", config.listen)))?;
        // Required by tokio's `TcpListener::from_std`.
        listener.set_nonblocking(true)?;
        Ok(Self { listener, config, origin_check, shutdown: Shutdown::default() })
    }

    /// Returns the bound address, with the real port.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves another handler; the conformance tests have their own fixtures.
    pub async fn serve_handler(self, handler: impl ServerHandler + Clone) -> io::Result<()> {
        let protocol = ProtocolHandler::with_handler(handler, &self.config.limits);
        self.serve_protocol(protocol).await
    }

    async fn serve_protocol(mut self, protocol: ProtocolHandler) -> io::Result<()> {
        let listener = tokio::net::TcpListener::from_std(self.listener)?;
        // `BodyReader` has its own limit of the size.
        let pages = self.config.pages.take().map(|pages| pages.layer(DefaultBodyLimit::disable()));
        let limits = &self.config.limits;
        let tokens = TokenLimits::new(limits);
        let shared = Arc::new(ServerState {
            protocol,
            logins: LoginLimits::new(limits),
            page_clients: tokens.for_pages(),
            tokens,
            bodies: BodyReader::new(limits),
            pages,
            config: self.config,
            origin_check: self.origin_check,
            shutdown: self.shutdown,
            running_requests: TaskTracker::new(),
            connections: Arc::default(),
            anonymous_lines: LineLimit::default(),
            rate_lines: LineLimit::default(),
        });
        let router = Router::new()
            .route(PATH, any(handler::serve_mcp))
            .route("/livez", get(health::serve_liveness))
            .route("/readyz", get(health::serve_readiness))
            .route("/metrics", get(health::serve_metrics))
            .fallback(pages::serve_page)
            .with_state(shared.clone());
        connections::serve_connections(listener, router, &shared).await;
        Ok(())
    }
}

#[async_trait]
impl Transport for HttpTransport {
    fn start(&mut self) -> io::Result<Option<SocketAddr>> {
        self.shutdown = Shutdown::on_signals(false)?;
        self.local_address().map(Some)
    }

    async fn serve(self: Box<Self>, service: Arc<dyn ApplicationService>) -> io::Result<()> {
        let protocol = ProtocolHandler::new(service, &self.config);
        self.serve_protocol(protocol).await
    }
}

struct ServerState {
    /// The configuration without its pages.
    config: HttpConfig,
    pages: Option<Router>,
    origin_check: OriginCheck,
    logins: LoginLimits,
    tokens: TokenLimits,
    /// Limits of the addresses that request pages.
    page_clients: TokenLimits,
    bodies: BodyReader,
    protocol: ProtocolHandler,
    shutdown: Shutdown,
    /// Running requests, also those whose client has disconnected.
    running_requests: TaskTracker,
    connections: Arc<OpenConnections>,
    /// Requests that were refused before authentication.
    anonymous_lines: LineLimit,
    /// Requests over the rate of their token.
    rate_lines: LineLimit,
}

impl ServerState {
    fn is_shutting_down(&self) -> bool {
        self.shutdown.finish.is_cancelled()
    }
}
