//! Who asks, in which style, and what the transport should make of the answer.
//!
//! A transport that serves many callers puts an [`Asker`] into the extensions of each HTTP request,
//! which rmcp hands on; without one nobody is answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use reqlore_domain::identity::Caller;
use rmcp::RoleServer;
use rmcp::service::RequestContext;

/// Whoever makes one request.
#[derive(Debug, Clone)]
pub struct Asker {
    pub caller: Arc<Caller>,
    /// Names this request in logs and, where something broke, in the answer.
    pub request_id: Arc<str>,
    pub style: Style,
    pub status: Status,
}

/// What a client can read (rulings 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// JSON-RPC and nothing more: whatever fails is an error of it.
    Plain,
    /// The protocol, of whatever revision: what a model can mend is a result.
    Mcp,
}

/// Over HTTP, the status that an answer asks for; elsewhere nobody looks. Clones are one slot.
#[derive(Debug, Clone, Default)]
pub struct Status(Option<Arc<AtomicU32>>);

impl Status {
    /// A slot that somebody will look at.
    pub fn watched() -> Self {
        Self(Some(Arc::default()))
    }

    /// Does the answer go over HTTP?
    pub(crate) fn is_watched(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn set(&self, status: u16) {
        if let Some(slot) = &self.0 {
            slot.store(status.into(), Ordering::Relaxed);
        }
    }

    /// The status to answer with instead of 200.
    pub fn get(&self) -> Option<u16> {
        let status = self.0.as_ref()?.load(Ordering::Relaxed);
        u16::try_from(status).ok().filter(|status| *status != 0)
    }

    /// For how many seconds the client should wait before it tries again, if it may at all.
    pub fn retry_after(&self) -> Option<u32> {
        self.get().filter(|status| *status == 503).map(|_| 1)
    }
}

impl Asker {
    /// The one caller of a connection that has no others.
    pub(crate) fn local(caller: Arc<Caller>) -> Self {
        let (request_id, status) = (correlation_id().into(), Status::default());
        Self { caller, request_id, style: Style::Mcp, status }
    }
}

/// What the transport said of this request.
pub(crate) fn of(context: &RequestContext<RoleServer>) -> Option<Asker> {
    let parts = context.extensions.get::<http::request::Parts>()?;
    parts.extensions.get::<Asker>().cloned()
}

/// A name for one call in logs and answers. It need not be secret, only hardly ever the same.
pub fn correlation_id() -> String {
    use std::hash::{BuildHasher, Hasher, RandomState};
    format!("{:016x}", RandomState::new().build_hasher().finish())
}
