//! Limits of open connections and of the streams that occupy some of them.
//!
//! Clients that are idle must not keep others out: a new connection replaces the longest idle one,
//! and streams leave a part of the connections to other requests.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::{Extensions, StatusCode};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::error_response::{BUSY, ErrorResponse, LineLimit};
use crate::{GaugeGuard, HttpConfig};

/// Time for an idle connection to close. It sends nothing, so this is long.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(100);
/// Seconds after which a client may open a stream again.
const STREAM_RETRY_SECONDS: u64 = 10;

/// All open connections.
#[derive(Default)]
pub(crate) struct OpenConnections {
    open: Mutex<Vec<Arc<OpenConnection>>>,
    /// Notified when a connection has ended.
    ended: Notify,
    full_lines: LineLimit<1>,
    stream_lines: LineLimit<1>,
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
    /// Cancelled to close the connection in favour of another one.
    pub(crate) closing: CancellationToken,
}

impl OpenConnection {
    /// Ends a use, so that the connection is idle unless there is another one.
    pub(crate) fn end_use(&self, flag: &AtomicBool) {
        *self.idle_since.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        flag.store(false, Ordering::Relaxed);
    }

    /// Returns the start of the idle time, if nobody would miss the connection.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        let uses = [&self.in_request, &self.is_stream, &self.has_unread];
        if uses.into_iter().any(|flag| flag.load(Ordering::Relaxed)) {
            return None;
        }
        Some(*self.idle_since.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The most streams of this many connections: the rest is for other requests.
fn stream_share(connections: usize) -> usize {
    (connections - connections / 4).max(1)
}

impl OpenConnections {
    /// Adds a connection. At the limit it first closes the longest idle one; `None` without one.
    pub(crate) async fn add(
        self: &Arc<Self>,
        network: Option<IpAddr>,
        config: &HttpConfig,
    ) -> Option<ConnectionGuard> {
        let adding = async {
            loop {
                match self.try_add(network, config) {
                    Ok(added) => return Some(added),
                    Err(Some(idle)) => idle.closing.cancel(),
                    Err(None) => return None,
                }
                self.ended.notified().await;
            }
        };
        // A client that reads its last response slowly closes late.
        let added = timeout(CLOSE_TIMEOUT, adding).await.unwrap_or(None);
        if added.is_none() && self.full_lines.allows_line() {
            let limits = &config.limits;
            tracing::warn!(
                open = self.lock().len(),
                connections = limits.connections,
                connections_per_address = limits.connections_per_address,
                "connection closed: too many are in use; raise the http.limits of these names"
            );
        }
        added
    }

    /// Returns the longest idle connection that keeps this one out.
    fn try_add(
        self: &Arc<Self>,
        network: Option<IpAddr>,
        config: &HttpConfig,
    ) -> Result<ConnectionGuard, Option<Arc<OpenConnection>>> {
        let limits = &config.limits;
        let mut open = self.lock();
        let of_network = |other: &&Arc<OpenConnection>| other.network == network;
        let is_network_full = network.is_some()
            && open.iter().filter(of_network).count() >= limits.connections_per_address;
        if is_network_full || open.len() >= limits.connections {
            let mut idle = Vec::new();
            for other in open.iter().filter(|other| !is_network_full || of_network(other)) {
                if let Some(since) = other.idle_since()
                    && !other.closing.is_cancelled()
                {
                    idle.push((since, other));
                }
            }
            let longest = idle.into_iter().min_by_key(|(since, _)| *since);
            return Err(longest.map(|(_, other)| other.clone()));
        }
        let connection = Arc::new(OpenConnection {
            network,
            in_request: AtomicBool::new(false),
            is_stream: AtomicBool::new(false),
            has_unread: AtomicBool::new(false),
            idle_since: Mutex::new(Instant::now()),
            closing: CancellationToken::new(),
        });
        open.push(connection.clone());
        let gauge = GaugeGuard::new(&config.counters, |counters| &counters.open_connections);
        Ok(ConnectionGuard { connection, connections: self.clone(), _gauge: gauge })
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
        let (mut of_all, mut of_network) = (0, 0);
        for other in streams {
            of_all += 1;
            of_network += usize::from(other.network == connection.network);
        }
        let limits = &config.limits;
        let is_network_full = connection.network.is_some()
            && of_network >= stream_share(limits.connections_per_address);
        if of_all >= stream_share(limits.connections) || is_network_full {
            if self.stream_lines.allows_line() {
                tracing::warn!(
                    streams = of_all,
                    "stream refused: three quarters of the connections are streams; raise \
                     http.limits.connections"
                );
            }
            let message = "Too many open streams of events on this server; try again later.";
            let error = ErrorResponse::new(StatusCode::SERVICE_UNAVAILABLE, BUSY, message);
            return Err(error.with_retry_after(STREAM_RETRY_SECONDS));
        }
        connection.is_stream.store(true, Ordering::Relaxed);
        Ok(Some(StreamGuard(connection.clone())))
    }

    /// Logs how many refusals got no line. Call it once a minute.
    pub(crate) fn log_further_lines(&self) {
        if let Some(further) = self.full_lines.take_further() {
            tracing::warn!(further, "more connections closed: too many are in use");
        }
        if let Some(further) = self.stream_lines.take_further() {
            tracing::warn!(further, "more streams refused");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<OpenConnection>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place among the open connections, until it is dropped.
pub(crate) struct ConnectionGuard {
    pub(crate) connection: Arc<OpenConnection>,
    connections: Arc<OpenConnections>,
    _gauge: GaugeGuard,
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.connections.lock().retain(|other| !Arc::ptr_eq(other, &self.connection));
        self.connections.ended.notify_one();
    }
}

/// The mark of a connection that carries a stream, until it is dropped.
pub(crate) struct StreamGuard(Arc<OpenConnection>);

impl Drop for StreamGuard {
    fn drop(&mut self) {
        self.0.end_use(&self.0.is_stream);
    }
}
