//! A strict line transport over standard input and output: one JSON-RPC message a line.
//!
//! rmcp keeps the protocol; this crate owns the lines (`lines.rs`), the order in which requests may
//! run (`order.rs`) and the end (`connection.rs`): end of input and SIGTERM both mean "answer what
//! was accepted, then go", for at most ten seconds.

mod connection;
mod lines;
mod order;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use reqlore_domain::identity::Caller;
use reqlore_domain::ports::service::ApplicationService;
use reqlore_domain::ports::transport::Transport;
use reqlore_mcp::server::Server;
use rmcp::model::{ClientCapabilities, Implementation, InitializeRequestParams, ProtocolVersion};
use rmcp::service::serve_directly_with_ct;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::signal::unix::{SignalKind, signal};
#[cfg(target_os = "linux")]
use tokio::{io::Interest, net::unix::pipe};
use tokio_util::sync::CancellationToken;

use connection::Connection;

/// What one connection may ask of this process.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The longest line, in bytes.
    pub line: usize,
    /// How many messages wait at most; then standard input is not read any more.
    pub queue: usize,
    /// How many bytes of messages wait at most.
    pub queue_bytes: usize,
    /// How many requests run at once.
    pub in_flight: usize,
    /// After so many malformed lines in a row the peer is given up.
    pub malformed: usize,
    /// How long a read waits for earlier ones before it runs beside them.
    pub grace: Duration,
    /// How long accepted requests may take after the end of input. What runs then has two seconds
    /// more, and a second goes to closing: ten in all.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            line: 4 * 1024 * 1024,
            queue: 256,
            queue_bytes: 1024 * 1024,
            in_flight: 32,
            malformed: 100,
            grace: Duration::from_millis(25),
            drain: Duration::from_secs(7),
        }
    }
}

/// Serves the one peer at the other end of standard input and output.
#[derive(Debug)]
pub struct Stdio {
    /// On whose behalf everything happens: the local person.
    pub caller: Caller,
    pub limits: Limits,
}

impl Stdio {
    /// Serves the peer at the other end of any two streams.
    pub async fn serve_on<R, W>(
        self,
        read: R,
        write: W,
        endpoint: Arc<dyn ApplicationService>,
        ending: Ending,
    ) -> io::Result<()>
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let server = Server::new(endpoint, self.caller);
        let front = server.front();
        let connection = Connection::new(read, write, self.limits, ending.clone(), server);
        let running = serve_directly_with_ct(front, connection, Some(peer()), ending.abort);
        running.waiting().await.map(|_| ()).map_err(io::Error::other)
    }
}

#[async_trait]
impl Transport for Stdio {
    async fn serve(self: Box<Self>, endpoint: Arc<dyn ApplicationService>) -> io::Result<()> {
        widen_output();
        let (read, write) = rmcp::transport::stdio_pipes();
        let ending = Ending::default();
        let signals = tokio::spawn(listen(ending.clone())?);
        let finish = ending.finish.clone();
        let reader = tokio::spawn(async move {
            reader_gone().await;
            finish.cancel();
        });
        let ended = self.serve_on(read, write, endpoint, ending).await;
        signals.abort();
        reader.abort();
        ended
    }
}

/// Lets a large answer cross the pipe at once, instead of in steps of 64 KiB that each wait for the
/// peer. What is no pipe stays as it is.
fn widen_output() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::pipe::fcntl_setpipe_size(io::stdout(), 1024 * 1024) {
        tracing::debug!(%error, "standard output was not widened");
    }
}

/// Resolves when nobody can read our answers any more, though nothing is being written. Where that
/// can't be seen it never resolves; the next answer finds out.
async fn reader_gone() {
    #[cfg(target_os = "linux")]
    if let Ok(output) = pipe::OpenOptions::new().open_sender("/proc/self/fd/1")
        && output.ready(Interest::ERROR).await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}

/// How an operator ends a connection.
#[derive(Debug, Clone, Default)]
pub struct Ending {
    /// Take no more input, answer what was accepted, go.
    pub finish: CancellationToken,
    /// Go.
    pub abort: CancellationToken,
}

/// Until a peer says more of itself, it is taken for a client of the first revision with results
/// like ours; so plain `tools/call` lines work without a handshake.
fn peer() -> InitializeRequestParams {
    let client = Implementation::new("unknown", "0");
    InitializeRequestParams::new(ClientCapabilities::default(), client)
        .with_protocol_version(ProtocolVersion::V_2025_03_26)
}

/// The first signal asks to finish, the second one ends at once.
fn listen(ending: Ending) -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    Ok(async move {
        for token in [ending.finish, ending.abort] {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
                _ = hang_up.recv() => {}
            }
            token.cancel();
        }
    })
}
