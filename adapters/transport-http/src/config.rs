//! The settings of the server.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use reqlore_domain::ports::authenticator::Authenticator;
use reqlore_domain::ports::service::AnswerFormat;
use reqlore_domain::ports::transport::TrafficCounters;

use crate::forwarded::ProxyTrust;
use crate::readiness::Readiness;

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
    /// pass the checks of Host and Origin and the limits, and have a `PageOrigin` as extension.
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
