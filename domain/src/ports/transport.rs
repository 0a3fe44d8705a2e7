//! Port of a transport, which carries requests from clients to the application.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use async_trait::async_trait;

use super::service::ApplicationService;

/// Accepts requests of clients.
#[async_trait]
pub trait Transport: Send {
    /// Binds the transport and subscribes to shutdown signals. Returns the address for clients, or
    /// `None` for standard input and output. Must be called within a runtime.
    fn start(&mut self) -> io::Result<Option<SocketAddr>>;

    /// Serves a started transport until the client closes it or a signal stops it. Accepted
    /// requests are completed before it returns, within at most ten seconds.
    async fn serve(self: Box<Self>, service: Arc<dyn ApplicationService>) -> io::Result<()>;
}

/// Counters of an HTTP transport since its start, and two gauges.
#[derive(Debug, Default)]
pub struct TrafficCounters {
    /// Responses by the first digit of the status, from 2xx to 5xx.
    pub responses: [AtomicU64; 4],
    /// Responses with status 429.
    pub rate_limited: AtomicU64,
    pub failed_logins: AtomicU64,
    /// Connections closed because of the connection limit.
    pub refused_connections: AtomicU64,
    /// Gauge: open connections.
    pub open_connections: AtomicU64,
    /// Gauge: running requests.
    pub in_flight: AtomicU64,
}

/// The sender of a page request. The transport adds it to the extensions of the request.
#[derive(Debug, Clone)]
pub struct PageOrigin {
    /// The client's address, also if a proxy forwards the request.
    pub address: IpAddr,
    pub request_id: Arc<str>,
}

/// Path of the page that signs in by POST. The transport limits its look-ups of tokens.
pub const SIGN_IN_PATH: &str = "/signin";

/// Extension of the response to a failed sign-in, which the transport counts for the address.
#[derive(Debug, Clone, Copy)]
pub struct FailedSignIn;

/// Extension of the response with a stream of events: the token or user that has opened it. The
/// transport limits the open streams of each.
#[derive(Debug, Clone)]
pub struct StreamOwner(pub Arc<str>);
