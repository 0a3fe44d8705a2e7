//! The state that all connections share.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::http::header::{HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use reqlore_domain::bounded_types::truncate_echo;
use reqlore_domain::identity::{Caller, redact_secrets};
use reqlore_mcp::shutdown::Shutdown;
use tokio_util::task::TaskTracker;

use crate::config::HttpConfig;
use crate::error_response::{ErrorResponse, LineLimit};
use crate::open_connections::OpenConnections;
use crate::origin_check::OriginCheck;
use crate::protocol_handler::ProtocolHandler;
use crate::rate_limit::{LoginLimits, TokenLimits};
use crate::request_body::BodyReader;

pub(crate) struct ServerState {
    /// The configuration without its pages.
    pub(crate) config: HttpConfig,
    pub(crate) pages: Option<Router>,
    pub(crate) origin_check: OriginCheck,
    pub(crate) logins: LoginLimits,
    pub(crate) tokens: TokenLimits,
    /// Limits of the addresses that request pages.
    pub(crate) page_clients: TokenLimits,
    pub(crate) bodies: BodyReader,
    pub(crate) protocol: ProtocolHandler,
    pub(crate) shutdown: Shutdown,
    /// Running requests, also those whose client has disconnected.
    pub(crate) running_requests: TaskTracker,
    pub(crate) connections: Arc<OpenConnections>,
    /// Requests that were refused before authentication.
    pub(crate) anonymous_lines: LineLimit,
    /// Requests over the rate of their token.
    pub(crate) rate_lines: LineLimit,
}

impl ServerState {
    pub(crate) fn is_shutting_down(&self) -> bool {
        self.shutdown.finish.is_cancelled()
    }
}

impl ServerState {
    /// Logs a request that was refused before authentication, with the values that an operator can
    /// add to the settings.
    pub(crate) fn log_anonymous(
        &self,
        error: &ErrorResponse,
        parts: &Parts,
        peer: SocketAddr,
        request_id: &str,
    ) {
        // Clients without a token must not fill the log.
        if !self.anonymous_lines.allows_line() {
            return;
        }
        let header = |name| {
            let value: &HeaderValue = parts.headers.get(name)?;
            // It may contain a secret, such as a user and a password.
            let text = redact_secrets(value.to_str().unwrap_or("unreadable"));
            Some(truncate_echo(&text).to_owned())
        };
        tracing::info!(
            id = request_id,
            address = %self.client_address(&parts.headers, peer),
            status = error.status.as_u16(),
            method = truncate_echo(parts.method.as_str()),
            path = truncate_echo(&redact_secrets(parts.uri.path())),
            host = header(HOST),
            origin = header(ORIGIN),
            error = &*error.message,
            "request refused"
        );
    }

    /// Logs the error of a call. Calls over the rate of their token have a limit of lines, because
    /// they cost their client nothing.
    pub(crate) fn log_error(
        &self,
        error: &ErrorResponse,
        request_id: &str,
        caller: Option<&Caller>,
    ) {
        if error.status != StatusCode::TOO_MANY_REQUESTS || self.rate_lines.allows_line() {
            error.log(request_id, caller);
        }
    }

    /// Logs how many requests got no line. Call it once a minute.
    pub(crate) fn log_further_lines(&self) {
        if let Some(further) = self.anonymous_lines.take_further() {
            tracing::info!(further, "more requests refused before authentication");
        }
        if let Some(further) = self.rate_lines.take_further() {
            tracing::info!(further, "more requests over the rate of their token");
        }
        // The counter of refused connections has their number.
        let _ = self.connections.limit_lines.take_further();
    }
}
