//! MCP and plain JSON-RPC over HTTP/1.1, at exactly `POST /api/v1/mcp`, for callers with a token.
//!
//! rmcp keeps the protocol. This crate owns who gets as far as that: connections (`accept.rs`,
//! `watched.rs`), Host and Origin (`door.rs`), tokens (`login.rs`, `guesses.rs`), how much of
//! everything (`limits.rs`, `gates.rs`, `bodies.rs`), the request and its answer (`checks.rs`,
//! `edge.rs`, `standing.rs`), what breaks (`caught.rs`), and what operators ask (`probes.rs`). It
//! knows no TLS: that is a proxy's work, and whose word counts then is in `proxy.rs`.

mod accept;
mod bodies;
mod caught;
mod checks;
mod correlation;
mod counters;
mod door;
mod edge;
mod gates;
mod guesses;
mod limits;
mod login;
mod probes;
mod proxy;
mod refusal;
mod standing;
mod watched;

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::routing::{any, get};
use reqlore_domain::ports::authenticator::Authenticator;
use reqlore_domain::ports::service::ApplicationService;
use reqlore_domain::ports::transport::Transport;
use rmcp::ServerHandler;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use counters::Counters;
pub use limits::{Limits, Rate};
pub use proxy::{ForwardedBy, Network, ProxyTrust};

use bodies::Bodies;
use door::Door;
use gates::Gates;
use login::Login;

/// The one path that calls are sent to.
pub const PATH: &str = "/api/v1/mcp";

/// How a server is to be run.
#[derive(Clone)]
pub struct Config {
    /// Where to listen. Port 0 takes a free one, see [`Http::address`].
    pub listen: SocketAddr,
    /// Set where a proxy stands in front, which keeps TLS and says where requests come from.
    pub behind_proxy: Option<ProxyTrust>,
    /// Names by which clients may call this server, besides those of the loopback: `name`,
    /// `name:port`. Without a port any port counts.
    pub hosts: Vec<String>,
    /// Web pages that may call it, besides those of this machine: `https://name`,
    /// `https://name:port`, `https://name:*`. Without a port the scheme's own counts.
    pub origins: Vec<String>,
    pub limits: Limits,
    pub authenticator: Arc<dyn Authenticator>,
    /// Can the store be used? For `/readyz`.
    pub ready: Arc<dyn Fn() -> bool + Send + Sync>,
    /// What `/metrics` says, for administrators alone.
    pub metrics: Arc<dyn Fn() -> String + Send + Sync>,
    /// What this transport counts, for whoever writes `metrics`.
    pub counters: Arc<Counters>,
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("listen", &self.listen)
            .field("behind_proxy", &self.behind_proxy)
            .field("hosts", &self.hosts)
            .field("origins", &self.origins)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// How an operator ends a server.
#[derive(Debug, Clone, Default)]
pub struct Ending {
    /// Take no more requests, answer what was accepted, go.
    pub finish: CancellationToken,
    /// Go.
    pub abort: CancellationToken,
}

impl Ending {
    /// From here on signals end the server, and not the process. Within a runtime.
    pub fn by_signals() -> io::Result<Self> {
        let ending = Self::default();
        tokio::spawn(listen(ending.clone())?);
        Ok(ending)
    }
}

/// A server that has its port and answers nobody yet.
#[derive(Debug)]
pub struct Http {
    listener: TcpListener,
    config: Config,
    door: Door,
}

impl Http {
    /// Takes the port. What is wrong with the configuration is told here.
    pub fn bind(config: Config) -> io::Result<Self> {
        if !config.listen.ip().to_canonical().is_loopback() && config.behind_proxy.is_none() {
            let message = format!(
                "{} can be reached from other machines, and tokens would cross the network \
                 unencrypted: listen on 127.0.0.1, or put a proxy with TLS in front and say so \
                 (--behind-proxy)",
                config.listen
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let door = Door::new(&config.hosts, &config.origins)
            .map_err(|message| io::Error::new(io::ErrorKind::InvalidInput, message))?;
        let listener = TcpListener::bind(config.listen)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", config.listen)))?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, config, door })
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until it is told to end.
    pub async fn serve_until(
        self,
        endpoint: Arc<dyn ApplicationService>,
        ending: Ending,
    ) -> io::Result<()> {
        let mcp = edge::Mcp::new(endpoint, &self.door, &self.config.limits);
        self.serve_mcp(mcp, ending).await
    }

    /// Serves another handler in place of ours: for judges of this transport, whose fixtures are no
    /// endpoint's.
    pub async fn serve_handler(
        self,
        handler: impl ServerHandler + Clone,
        ending: Ending,
    ) -> io::Result<()> {
        let mcp = edge::Mcp::of(handler, || {}, &self.door, &self.config.limits);
        self.serve_mcp(mcp, ending).await
    }

    async fn serve_mcp(self, mcp: edge::Mcp, ending: Ending) -> io::Result<()> {
        let listener = tokio::net::TcpListener::from_std(self.listener)?;
        let shared = Arc::new(Shared::new(self.config, self.door, mcp, ending));
        let router = Router::new()
            .route(PATH, any(edge::answer))
            .route("/livez", get(probes::alive))
            .route("/readyz", get(probes::ready))
            .route("/metrics", get(probes::metrics))
            .fallback(probes::nothing_here)
            .with_state(shared.clone());
        accept::run(listener, router, &shared).await;
        Ok(())
    }
}

#[async_trait]
impl Transport for Http {
    async fn serve(self: Box<Self>, endpoint: Arc<dyn ApplicationService>) -> io::Result<()> {
        let ending = Ending::by_signals()?;
        self.serve_until(endpoint, ending).await
    }
}

/// Who is at the other end of a request's connection.
#[derive(Debug, Clone, Copy)]
struct Peer(SocketAddr);

/// What all requests share.
struct Shared {
    limits: Limits,
    behind_proxy: Option<ProxyTrust>,
    ready: Arc<dyn Fn() -> bool + Send + Sync>,
    metrics: Arc<dyn Fn() -> String + Send + Sync>,
    counters: Arc<Counters>,
    door: Door,
    login: Login,
    gates: Gates,
    bodies: Bodies,
    mcp: edge::Mcp,
    ending: Ending,
    /// Requests that run, whoever still waits for their answers.
    work: TaskTracker,
}

impl Shared {
    fn new(config: Config, door: Door, mcp: edge::Mcp, ending: Ending) -> Self {
        Self {
            mcp,
            login: Login::new(config.authenticator, &config.limits),
            gates: Gates::new(&config.limits),
            bodies: Bodies::new(&config.limits),
            limits: config.limits,
            behind_proxy: config.behind_proxy,
            ready: config.ready,
            metrics: config.metrics,
            counters: config.counters,
            door,
            ending,
            work: TaskTracker::new(),
        }
    }

    fn is_ending(&self) -> bool {
        self.ending.finish.is_cancelled()
    }
}

/// The first signal asks to finish, the second one ends at once. A terminal that is closed is no
/// reason to end a server, and a peer that is gone neither: the runtime ignores SIGPIPE.
fn listen(ending: Ending) -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    Ok(async move {
        for token in [ending.finish, ending.abort] {
            loop {
                tokio::select! {
                    _ = terminate.recv() => break,
                    _ = interrupt.recv() => break,
                    _ = hang_up.recv() => {}
                }
            }
            token.cancel();
        }
    })
}
