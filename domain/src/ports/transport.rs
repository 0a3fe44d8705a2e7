//! How the outside reaches the endpoint: one implementation per transport.

use std::io;
use std::sync::Arc;

use async_trait::async_trait;

use super::service::ApplicationService;

/// Carries calls to the endpoint until the peer or the operator ends it.
///
/// It answers what it accepted before it ends, for at most ten seconds (reliability, P10).
#[async_trait]
pub trait Transport: Send {
    async fn serve(self: Box<Self>, endpoint: Arc<dyn ApplicationService>) -> io::Result<()>;
}
