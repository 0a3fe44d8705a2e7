//! Strict transport over standard input and output: one JSON-RPC message per line.
//!
//! rmcp implements the protocol. The end of input and SIGTERM both drain: accepted requests get
//! their responses within ten seconds, then the transport ends.

mod batch;
mod connection;
mod limits;
mod line_reader;
mod scheduler;
mod system;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use reqlore_domain::identity::Caller;
use reqlore_domain::ports::service::{AnswerFormat, ApplicationService};
use reqlore_domain::ports::transport::Transport;
use reqlore_mcp::server::{ConnectionService, McpServer};
use reqlore_mcp::shutdown::Shutdown;
use rmcp::model::{ClientCapabilities, Implementation, InitializeRequestParams, ProtocolVersion};
use rmcp::service::serve_directly_with_ct;
use tokio::io::{AsyncRead, AsyncWrite};

pub use limits::StdioLimits;

use connection::StdioConnection;
use system::{client_closed, enlarge_output_pipe};

/// Transport for one client over standard input and output.
#[derive(Debug)]
pub struct StdioTransport {
    pub caller: Caller,
    pub limits: StdioLimits,
    /// The format of answers, unless the client asks for another.
    pub answers: AnswerFormat,
    /// True if the client may choose the project by its roots.
    pub follows_client_roots: bool,
    /// Set by [`Transport::start`].
    pub shutdown: Shutdown,
}

impl StdioTransport {
    pub fn new(caller: Caller, limits: StdioLimits) -> Self {
        let (answers, shutdown) = (AnswerFormat::Text, Shutdown::default());
        Self { caller, limits, answers, follows_client_roots: false, shutdown }
    }

    /// Serves one client over any two streams, until `shutdown`. Fails if a response that was due
    /// could not be written.
    pub async fn serve_on<R, W>(
        self,
        read: R,
        write: W,
        service: Arc<dyn ApplicationService>,
    ) -> io::Result<()>
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let server = McpServer::new(service, self.caller)
            .with_answers(self.answers)
            .with_client_roots(self.follows_client_roots);
        let handler = ConnectionService(server.clone());
        let abort = self.shutdown.abort.clone();
        let connection = StdioConnection::new(read, write, self.limits, self.shutdown, server);
        let output = connection.output();
        // Directly: rmcp's own handshake would reject plain lines before `initialize`.
        let running = serve_directly_with_ct(handler, connection, Some(default_peer()), abort);
        running.waiting().await.map_err(io::Error::other)?;
        output.check_delivered()
    }
}

#[async_trait]
impl Transport for StdioTransport {
    fn start(&mut self) -> io::Result<Option<SocketAddr>> {
        enlarge_output_pipe();
        self.shutdown = Shutdown::on_signals(true)?;
        Ok(None)
    }

    async fn serve(self: Box<Self>, service: Arc<dyn ApplicationService>) -> io::Result<()> {
        let (read, write) = rmcp::transport::stdio_pipes();
        let finish = self.shutdown.finish.clone();
        // A client that closes only its reading end sends no end of input.
        let reader = tokio::spawn(async move {
            client_closed().await;
            // Drains instead of aborting: a started write still finishes.
            finish.cancel();
        });
        let ended = self.serve_on(read, write, service).await;
        // Its client may stay connected although the input ended.
        reader.abort();
        ended
    }
}

/// Returns the client assumed before a handshake, which has no name. Its revision is the first one
/// with structured results, so that plain `tools/call` lines work.
fn default_peer() -> InitializeRequestParams {
    let client = Implementation::new("", "0");
    InitializeRequestParams::new(ClientCapabilities::default(), client)
        .with_protocol_version(ProtocolVersion::V_2025_03_26)
}
