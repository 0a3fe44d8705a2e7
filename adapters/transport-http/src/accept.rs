//! Takes connections and, at the end, sees them off.
//!
//! axum's own loop has no timer, so that hyper's limits on time are without effect, and no bound on
//! connections.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::Peer;
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower_service::Service;

use crate::Shared;
use crate::counters::Counted;
use crate::guesses::network;
use crate::watched::{Serving, Watched};

/// How often what grows with its use is made smaller again.
const SWEEP: Duration = Duration::from_secs(60);
/// How long to wait after the system had no connection to give.
const PAUSE: Duration = Duration::from_millis(100);
/// How long streams may take for their last words after the end of the drain.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Serves until the end was asked for and what was accepted is answered.
pub(crate) async fn run(listener: TcpListener, router: Router, shared: &Arc<Shared>) {
    let house = House {
        router,
        shared: shared.clone(),
        places: Arc::new(Semaphore::new(shared.limits.connections)),
        by_address: Arc::new(ByAddress::new(shared.limits.connections_per_address)),
        guests: TaskTracker::new(),
        closed: CancellationToken::new(),
    };
    // Whoever waits for a house that is gone would wait for ever.
    let _closing = house.closed.clone().drop_guard();
    tokio::select! {
        () = shared.ending.abort.cancelled() => {}
        () = house.serve(&listener) => {}
    }
}

struct House {
    router: Router,
    shared: Arc<Shared>,
    places: Arc<Semaphore>,
    by_address: Arc<ByAddress>,
    /// The connections that were there before the end was asked for.
    guests: TaskTracker,
    closed: CancellationToken,
}

impl House {
    async fn serve(&self, listener: &TcpListener) {
        let finish = &self.shared.ending.finish;
        let mut sweep = interval(SWEEP);
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = finish.cancelled() => break,
                accepted = listener.accept() => self.accept(accepted).await,
                _ = sweep.tick() => {
                    self.shared.gates.sweep();
                    self.shared.login.sweep();
                }
            }
        }
        self.shared.mcp.finish();
        self.guests.close();
        self.shared.work.close();
        let until = Instant::now() + self.shared.limits.drain;
        let drained = async {
            self.guests.wait().await;
            self.shared.work.wait().await;
        };
        let mut drained = pin!(drained);
        // Probes are answered until the last moment, so that who balances load can see it.
        loop {
            tokio::select! {
                () = &mut drained => return,
                () = sleep_until(until) => break,
                accepted = listener.accept() => self.accept(accepted).await,
            }
        }
        tracing::warn!("some requests took too long to be waited for");
        self.shared.mcp.cancel();
        let _ = timeout(LAST_WORDS, drained).await;
    }

    async fn accept(&self, accepted: io::Result<(TcpStream, SocketAddr)>) {
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Of one connection that broke, or that there can be no more.
                tracing::warn!(%error, "a connection could not be accepted");
                return sleep(PAUSE).await;
            }
        };
        let address = peer.ip().to_canonical();
        let Some(place) = self.place(address) else {
            self.shared.counters.refused_connections.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(%address, "too many connections; closed");
            return;
        };
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "small answers may be slow");
        }
        let peer = SocketAddr::new(address, peer.port());
        let (router, shared) = (self.router.clone(), self.shared.clone());
        let closed = self.closed.clone();
        let serving = async move {
            let _place = place;
            closed.run_until_cancelled(converse(stream, peer, router, &shared)).await;
        };
        if self.shared.is_ending() {
            tokio::spawn(serving);
        } else {
            self.guests.spawn(serving);
        }
    }

    fn place(&self, address: IpAddr) -> Option<Place> {
        let of_all = self.places.clone().try_acquire_owned().ok()?;
        let by_proxy = self.shared.behind_proxy.as_ref().is_some_and(|proxy| proxy.trusts(address));
        let of_address = if by_proxy { None } else { Some(self.by_address.enter(address)?) };
        let counted = Counted::new(&self.shared.counters, |counters| &counters.connections);
        Some(Place { _of_all: of_all, _of_address: of_address, _counted: counted })
    }
}

/// A connection's place, until it is dropped.
struct Place {
    _of_all: OwnedSemaphorePermit,
    _of_address: Option<PlaceOfAddress>,
    _counted: Counted,
}

/// How many connections are open from where.
struct ByAddress {
    counts: Mutex<HashMap<IpAddr, usize>>,
    most: usize,
}

impl ByAddress {
    fn new(most: usize) -> Self {
        Self { counts: Mutex::default(), most }
    }

    fn enter(self: &Arc<Self>, address: IpAddr) -> Option<PlaceOfAddress> {
        let address = network(address);
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(address).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        drop(counts);
        Some(PlaceOfAddress { all: self.clone(), address })
    }
}

struct PlaceOfAddress {
    all: Arc<ByAddress>,
    address: IpAddr,
}

impl Drop for PlaceOfAddress {
    fn drop(&mut self) {
        let mut counts = self.all.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

/// Answers one connection's requests, one after the other.
async fn converse(stream: TcpStream, peer: SocketAddr, router: Router, shared: &Shared) {
    let limits = &shared.limits;
    let serving = Serving::default();
    let answer = service_fn(|request: Request<Incoming>| {
        serving.set(true);
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(Peer(peer));
        let answered = router.clone().call(request);
        let serving = serving.clone();
        async move {
            let response = answered.await;
            serving.set(false);
            response
        }
    });
    let stream = Watched::new(stream, serving.clone(), limits.header_time, limits.unread);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(limits.idle)
        .max_buf_size(limits.header_bytes)
        .max_headers(limits.header_fields)
        // Who comes after the end was asked for gets one answer.
        .keep_alive(!shared.is_ending());
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), answer));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = shared.ending.finish.cancelled(), if !shared.is_ending() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(address = %peer.ip(), %error, "a connection ended before its time");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_many_addresses_of_one_host_count_as_one() {
        let open = Arc::new(ByAddress::new(1));
        let enter = |address: &str| open.enter(address.parse().ok()?);
        let first = enter("2001:db8::1");
        assert!(first.is_some() && enter("2001:db8::2").is_none());
        assert!(enter("2001:db8:0:1::1").is_some(), "another network");
        let other = enter("192.0.2.1");
        assert!(other.is_some() && enter("192.0.2.2").is_some());
        drop(first);
        assert!(enter("2001:db8::2").is_some());
    }
}
