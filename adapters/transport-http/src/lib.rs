//! MCP and plain JSON-RPC over HTTP/1.1 at `POST /api/v1/mcp`, for callers with a token.
//!
//! rmcp implements the protocol. This crate limits, validates and authenticates requests before it.
//! A reverse proxy terminates TLS.

mod authentication;
mod batch;
mod config;
mod connections;
mod error_response;
mod forwarded;
mod guards;
mod handler;
mod health;
mod open_connections;
mod origin_check;
mod pages;
mod permits;
mod protocol_handler;
mod rate_limit;
mod readiness;
mod request_body;
mod state;
mod timeout_stream;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{any, get};
use reqlore_domain::ports::service::ApplicationService;

#[cfg(doc)]
use reqlore_domain::ports::transport::PageOrigin;
use reqlore_domain::ports::transport::Transport;
use reqlore_mcp::shutdown::Shutdown;
use rmcp::ServerHandler;
use state::ServerState;
use tokio_util::task::TaskTracker;

pub use config::{HttpConfig, HttpLimits, PATH, RateLimit};
pub use forwarded::{ForwardedBy, ProxyNetwork, ProxyTrust};
pub use readiness::Readiness;

use crate::protocol_handler::ProtocolHandler;
use error_response::LineLimit;
use origin_check::OriginCheck;
use rate_limit::{LoginLimits, TokenLimits};
use request_body::BodyReader;

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
