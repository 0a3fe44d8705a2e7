//! Limits of open connections and of the streams that occupy some of them.
//!
//! Idle clients must not keep out other clients: a new connection replaces the longest idle one,
//! and streams leave a part of the connections to other requests.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::Extensions;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::config::HttpConfig;
use crate::error_response::{ErrorResponse, LineLimit};
use crate::guards::GaugeGuard;

/// Seconds after which a client may open a stream again.
const STREAM_RETRY_SECONDS: u64 = 10;

/// All open connections.
#[derive(Default)]
pub(crate) struct OpenConnections {
    open: Mutex<Vec<Arc<OpenConnection>>>,
    pub(crate) limit_lines: LineLimit<1>,
}

/// One open connection. Its flags have relaxed ordering, because they order no other memory.
pub(crate) struct OpenConnection {
    /// `None` for a trusted proxy, which opens the connections of all its clients.
    network: Option<IpAddr>,
    /// True between the headers of a request and its response.
    pub(crate) in_request: AtomicBool,
    is_stream: AtomicBool,
    /// True while the client has not read a part of the response.
    pub(crate) has_unread: AtomicBool,
    /// The time of the last response, or of the start of the connection.
    idle_since: Mutex<Instant>,
    /// Cancelled when another connection replaces this one.
    pub(crate) replaced: CancellationToken,
}

impl OpenConnection {
    /// Ends a use, so that the connection is idle unless there is another one.
    pub(crate) fn end_use(&self, flag: &AtomicBool) {
        *self.idle_since.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        flag.store(false, Ordering::Relaxed);
    }

    pub(crate) fn idle_since(&self) -> Option<Instant> {
        let uses = [&self.in_request, &self.is_stream, &self.has_unread];
        if uses.into_iter().any(|flag| flag.load(Ordering::Relaxed)) {
            return None;
        }
        Some(*self.idle_since.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Returns the connections that fill a limit: of one network, or else of all.
fn filling(
    open: Vec<&Arc<OpenConnection>>,
    network: Option<IpAddr>,
    [of_all, of_network]: [usize; 2],
) -> Option<Vec<&Arc<OpenConnection>>> {
    let mut rivals = open.clone();
    rivals.retain(|other| network.is_some() && other.network == network);
    if !rivals.is_empty() && rivals.len() >= of_network {
        return Some(rivals);
    }
    (open.len() >= of_all).then_some(open)
}

impl OpenConnections {
    /// Adds a connection. At the limit it replaces the longest idle one; `None` if none is idle.
    pub(crate) fn add(
        self: &Arc<Self>,
        network: Option<IpAddr>,
        config: &HttpConfig,
    ) -> Option<ConnectionGuard> {
        let mut open = self.lock();
        let limits = [config.limits.connections, config.limits.connections_per_address];
        if let Some(rivals) = filling(open.iter().collect(), network, limits) {
            let rivals = rivals.into_iter();
            let idle = rivals.filter_map(|other| Some((other.idle_since()?, other.clone())));
            let Some((_, longest)) = idle.min_by_key(|(since, _)| *since) else {
                self.log_limit("connection closed");
                return None;
            };
            longest.replaced.cancel();
            open.retain(|other| !Arc::ptr_eq(other, &longest));
        }
        let connection = Arc::new(OpenConnection {
            network,
            in_request: AtomicBool::new(false),
            is_stream: AtomicBool::new(false),
            has_unread: AtomicBool::new(false),
            idle_since: Mutex::new(Instant::now()),
            replaced: CancellationToken::new(),
        });
        open.push(connection.clone());
        let gauge = GaugeGuard::new(&config.counters, |counters| &counters.open_connections);
        Some(ConnectionGuard { connection, connections: self.clone(), _gauge: gauge })
    }

    /// Marks the connection of a request as the carrier of a stream, which may last for hours.
    pub(crate) fn open_stream(
        &self,
        extensions: &Extensions,
        config: &HttpConfig,
    ) -> Result<Option<StreamGuard>, ErrorResponse> {
        let Some(connection) = extensions.get::<Arc<OpenConnection>>() else { return Ok(None) };
        // Held until the mark is set, so that the limit is exact.
        let open = self.lock();
        let streams = open.iter().filter(|other| other.is_stream.load(Ordering::Relaxed));
        let limits = [config.limits.connections, config.limits.connections_per_address];
        // A quarter is left for other requests.
        let shares = limits.map(|limit| (limit - limit / 4).max(1));
        if filling(streams.collect(), connection.network, shares).is_some() {
            self.log_limit("stream refused");
            let message = "Too many open event streams on this server; try again later.";
            return Err(ErrorResponse::busy(message).with_retry_after(STREAM_RETRY_SECONDS));
        }
        connection.is_stream.store(true, Ordering::Relaxed);
        Ok(Some(StreamGuard(connection.clone())))
    }

    fn log_limit(&self, effect: &str) {
        if self.limit_lines.allows_line() {
            tracing::warn!(effect, "too many connections; raise http.limits.connections");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<OpenConnection>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The entry of an open connection in the list, until it is dropped.
pub(crate) struct ConnectionGuard {
    pub(crate) connection: Arc<OpenConnection>,
    connections: Arc<OpenConnections>,
    _gauge: GaugeGuard,
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.connections.lock().retain(|other| !Arc::ptr_eq(other, &self.connection));
    }
}

/// The mark of a connection that carries a stream, until it is dropped.
pub(crate) struct StreamGuard(Arc<OpenConnection>);

impl Drop for StreamGuard {
    fn drop(&mut self) {
        self.0.end_use(&self.0.is_stream);
    }
}
