//! Accepts connections within the limits and drains them on shutdown.
//!
//! axum's own loop limits no connections and has no timer, which hyper's time limits require.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::header::TRANSFER_ENCODING;
use axum::http::{HeaderMap, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower_service::Service;

use crate::error_response::ErrorResponse;
use crate::handler::{count_response, request_id};
use crate::rate_limit::address_network;
use crate::timeout_stream::TimeoutStream;
use crate::{GaugeGuard, ServerState};

/// Interval between removals of unused limits.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);
/// Pause after a failed accept.
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(100);
/// Time for streams to end after the drain.
const STREAM_END_TIMEOUT: Duration = Duration::from_secs(1);

/// Serves until a shutdown, and then until accepted requests are complete.
pub(crate) async fn serve_connections(
    listener: TcpListener,
    router: Router,
    shared: &Arc<ServerState>,
) {
    let http_listener = HttpListener {
        router,
        shared: shared.clone(),
        permits: Arc::new(Semaphore::new(shared.config.limits.connections)),
        addresses: Mutex::default(),
        connections: TaskTracker::new(),
        closed: CancellationToken::new(),
    };
    // Ends connections that outlive this function.
    let _closing = http_listener.closed.clone().drop_guard();
    tokio::select! {
        () = shared.shutdown.abort.cancelled() => {}
        () = http_listener.accept_until_shutdown(&listener) => {}
    }
}

struct HttpListener {
    router: Router,
    shared: Arc<ServerState>,
    permits: Arc<Semaphore>,
    /// The reference count minus one is the number of open connections of an address.
    addresses: Mutex<HashMap<IpAddr, Arc<()>>>,
    /// Connections opened before the shutdown began.
    connections: TaskTracker,
    closed: CancellationToken,
}

impl HttpListener {
    async fn accept_until_shutdown(&self, listener: &TcpListener) {
        let finish = &self.shared.shutdown.finish;
        let mut sweep = interval_at(Instant::now() + SWEEP_INTERVAL, SWEEP_INTERVAL);
        // A sweep is maintenance; missed ones need not be repeated in a burst.
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = finish.cancelled() => break,
                accepted = listener.accept() => self.spawn_connection(accepted).await,
                _ = sweep.tick() => {
                    self.shared.tokens.remove_unused();
                    self.shared.page_clients.remove_unused();
                    self.shared.logins.remove_unused();
                    self.shared.log_further_lines();
                }
            }
        }
        // Open streams would otherwise last until the end of the drain.
        self.shared.protocol.end_subscriptions();
        // `wait` returns only after `close`, and a closed tracker still accepts tasks.
        self.connections.close();
        self.shared.running_requests.close();
        let until = Instant::now() + self.shared.config.limits.drain_timeout;
        let drained = async {
            self.connections.wait().await;
            self.shared.running_requests.wait().await;
        };
        let mut drained = pin!(drained);
        // Load balancers need responses to probes until the end.
        loop {
            tokio::select! {
                () = &mut drained => return,
                () = sleep_until(until) => break,
                accepted = listener.accept() => self.spawn_connection(accepted).await,
            }
        }
        tracing::warn!("shutdown: some requests did not finish within the drain time");
        self.shared.protocol.cancelled.cancel();
        // Connections that are still open are closed when the caller drops its guard.
        let _ = timeout(STREAM_END_TIMEOUT, drained).await;
    }

    async fn spawn_connection(&self, accepted: io::Result<(TcpStream, SocketAddr)>) {
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // The client disconnected, or the process has no file descriptors left.
                tracing::warn!(%error, "accepting a connection failed");
                // Without a pause, the loop would spin while no descriptors are free.
                return sleep(ACCEPT_RETRY_PAUSE).await;
            }
        };
        // An IPv4-mapped IPv6 address must share the limits of its IPv4 address.
        let address = peer.ip().to_canonical();
        let Some(permit) = self.connection_permit(address) else {
            self.shared.config.counters.refused_connections.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(%address, "connection closed: too many connections");
            return;
        };
        // Small responses must not wait for acknowledgements of the client.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY failed; small responses may be slow");
        }
        let peer = SocketAddr::new(address, peer.port());
        let (router, shared) = (self.router.clone(), self.shared.clone());
        let closed = self.closed.clone();
        let serving = async move {
            let _permit = permit;
            closed.run_until_cancelled(serve_connection(stream, peer, router, &shared)).await;
        };
        // Not tracked during a shutdown: probes must not delay its end.
        if self.shared.is_shutting_down() {
            tokio::spawn(serving);
        } else {
            self.connections.spawn(serving);
        }
    }

    fn connection_permit(&self, address: IpAddr) -> Option<ConnectionPermit> {
        let config = &self.shared.config;
        // Never waits: a waiting connection would hold a descriptor.
        let of_all = self.permits.clone().try_acquire_owned().ok()?;
        let is_proxy = config.behind_proxy.as_ref().is_some_and(|proxy| proxy.is_trusted(address));
        // A proxy opens the connections of all its clients.
        let of_address = if is_proxy { None } else { Some(self.address_permit(address)?) };
        let gauge = GaugeGuard::new(&config.counters, |counters| &counters.open_connections);
        Some(ConnectionPermit { _of_all: of_all, _of_address: of_address, _gauge: gauge })
    }

    fn address_permit(&self, address: IpAddr) -> Option<Arc<()>> {
        let limits = &self.shared.config.limits;
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        if addresses.len() > limits.connections {
            // Only when the map has grown: the usual case must be cheap.
            addresses.retain(|_, open| Arc::strong_count(open) > 1);
        }
        let open = addresses.entry(address_network(address)).or_default();
        // The map holds one reference itself, hence `>` and not `>=`.
        if Arc::strong_count(open) > limits.connections_per_address {
            return None;
        }
        Some(open.clone())
    }
}

struct ConnectionPermit {
    _of_all: OwnedSemaphorePermit,
    _of_address: Option<Arc<()>>,
    _gauge: GaugeGuard,
}

/// Serves the requests of one connection, one after the other.
async fn serve_connection(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    shared: &ServerState,
) {
    let limits = &shared.config.limits;
    let in_request = Arc::new(AtomicBool::new(false));
    let service = service_fn(|request: Request<Incoming>| {
        // hyper calls the service after the headers, so only the body is still to be read.
        in_request.store(true, Ordering::Relaxed);
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(peer);
        let mut router = router.clone();
        let in_request = in_request.clone();
        async move {
            let response = if has_clear_length(request.headers()) {
                router.call(request).await
            } else {
                Ok(refuse_transfer_coding(shared, request, peer))
            };
            in_request.store(false, Ordering::Relaxed);
            response
        }
    });
    let stream = TimeoutStream::new(stream, in_request.clone(), limits);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        // `TimeoutStream` limits slow headers; hyper's limit also runs between requests.
        .header_read_timeout(limits.idle_timeout)
        .max_buf_size(limits.header_bytes)
        .max_headers(limits.header_fields)
        // A connection opened after the shutdown began gets one response.
        .keep_alive(!shared.is_shutting_down());
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        // The condition keeps a connection of the drain from closing before its response.
        () = shared.shutdown.finish.cancelled(), if !shared.is_shutting_down() => {
            // Completes the request in progress and then closes.
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(address = %peer.ip(), %error, "connection ended with an error");
    }
}

/// False if a proxy may find another end of the body than hyper, which compares only the last
/// transfer coding. Another request could then hide in the body (RFC 9112, section 11.2).
fn has_clear_length(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let Some(coding) = codings.next() else { return true };
    coding.as_bytes().eq_ignore_ascii_case(b"chunked") && codings.next().is_none()
}

fn refuse_transfer_coding(
    shared: &ServerState,
    request: Request<Body>,
    peer: SocketAddr,
) -> Response<Body> {
    let message = "Transfer-Encoding: only `chunked`, once, is supported; send Content-Length, or \
                   chunks without another coding";
    let error = ErrorResponse::invalid_request(StatusCode::BAD_REQUEST, message);
    let (parts, _) = request.into_parts();
    shared.log_anonymous(&error, &parts, peer, &request_id(&parts.headers));
    let response = error.closing_connection().into_response();
    count_response(&shared.config.counters, response.status().as_u16());
    response
}
