//! Port of the transports: each carries requests from clients to the application.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

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
