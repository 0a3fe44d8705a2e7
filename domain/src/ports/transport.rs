//! Port of the transports: each carries requests from clients to the application.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use async_trait::async_trait;

use super::service::ApplicationService;

#[async_trait]
pub trait Transport: Send {
    /// Begins to listen for the operator's signals. Returns the address that clients connect to;
    /// `None` for a transport over standard input and output. Needs a runtime.
    fn start(&mut self) -> io::Result<Option<SocketAddr>>;

    /// Serves a started transport until the client or the operator ends it. Accepted requests are
    /// answered before it returns, for at most ten seconds.
    async fn serve(self: Box<Self>, service: Arc<dyn ApplicationService>) -> io::Result<()>;
}

/// Counts of a transport over HTTP since its start, except for the two gauges at the end.
#[derive(Debug, Default)]
pub struct TrafficCounters {
    /// Responses by the first digit of their status, from 2xx to 5xx.
    pub responses: [AtomicU64; 4],
    /// Requests answered with 429.
    pub rate_limited: AtomicU64,
    pub failed_logins: AtomicU64,
    /// Connections closed because there were too many.
    pub refused_connections: AtomicU64,
    /// Connections that are open now.
    pub connections: AtomicU64,
    /// Requests that run now.
    pub in_flight: AtomicU64,
}
