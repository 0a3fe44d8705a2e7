//! Accepts connections within the limits and drains them on shutdown.
//!
//! axum's own loop limits no connections and has no timer, which hyper's time limits require.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
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
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower_service::Service;

use crate::error_response::ErrorResponse;
use crate::handler::{count_response, request_id};
use crate::open_connections::OpenConnection;
use crate::rate_limit::address_network;
use crate::state::ServerState;
use crate::timeout_stream::TimeoutStream;

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
        let config = &self.shared.config;
        let is_proxy = config.behind_proxy.as_ref().is_some_and(|proxy| proxy.is_trusted(address));
        let network = (!is_proxy).then(|| address_network(address));
        let Some(guard) = self.shared.connections.add(network, config) else {
            config.counters.refused_connections.fetch_add(1, Ordering::Relaxed);
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
            let serving = serve_connection(stream, peer, router, &shared, &guard.connection);
            closed.run_until_cancelled(serving).await;
        };
        // Not tracked during a shutdown: probes must not delay its end.
        if self.shared.is_shutting_down() {
            tokio::spawn(serving);
        } else {
            self.connections.spawn(serving);
        }
    }
}

/// Serves the requests of one connection, one after the other.
async fn serve_connection(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    shared: &ServerState,
    open: &Arc<OpenConnection>,
) {
    let limits = &shared.config.limits;
    let service = service_fn(|request: Request<Incoming>| {
        // hyper calls the service after the headers, so only the body is still to be read.
        open.in_request.store(true, Ordering::Relaxed);
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(peer);
        request.extensions_mut().insert(open.clone());
        let mut router = router.clone();
        async move {
            let response = if has_clear_length(request.headers()) {
                router.call(request).await
            } else {
                Ok(refuse_transfer_coding(shared, request, peer))
            };
            open.end_use(&open.in_request);
            response
        }
    });
    let stream = TimeoutStream::new(stream, open.clone(), limits);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        // `TimeoutStream` limits slow headers; hyper's limit also runs between requests.
        .header_read_timeout(limits.idle_timeout)
        .max_buf_size(limits.header_bytes)
        .max_headers(limits.header_fields)
        // A connection opened after the shutdown began gets one response.
        .keep_alive(!shared.is_shutting_down());
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
    let must_end = async {
        tokio::select! {
            // The condition keeps a connection of the drain from closing before its response.
            () = shared.shutdown.finish.cancelled(), if !shared.is_shutting_down() => {}
            () = open.replaced.cancelled() => {}
        }
    };
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = must_end => {
            // hyper would wait for the rest of a first request.
            if open.replaced.is_cancelled() && open.idle_since().is_some() {
                return;
            }
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
