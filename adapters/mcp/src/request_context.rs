//! One request: its caller, how the response is delivered, and the guarded way to the application.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use futures_util::FutureExt;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::Caller;
use reqlore_domain::ports::service::{
    ApplicationService, CompletionRequest, CompletionValues, ListRequest, ProgressSink,
    PromptContent, ResourceContent, ResourcePage, ResourceRequest, ToolCall, ToolReply,
};
use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::RequestContext as RmcpContext;
use serde_json::{Map, Value};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

/// The origin of one request. A transport for many callers puts it into the extensions of each HTTP
/// request; rmcp passes it on, and a request without it is not answered.
#[derive(Debug, Clone)]
pub struct RequestContext {
    pub caller: Arc<Caller>,
    /// Names this request in logs and in internal errors.
    pub request_id: Arc<str>,
    pub dialect: ClientDialect,
    pub status: ResponseStatus,
}

/// The errors that a client understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientDialect {
    /// JSON-RPC only: every failure is a JSON-RPC error.
    JsonRpc,
    /// MCP of any revision: an error that a model can correct is a tool result.
    Mcp,
}

/// Over HTTP, the status that a response asks for; unused elsewhere. Clones share one slot.
#[derive(Debug, Clone, Default)]
pub struct ResponseStatus(Option<Arc<AtomicU16>>);

impl ResponseStatus {
    pub fn for_http() -> Self {
        Self(Some(Arc::default()))
    }

    pub(crate) fn is_over_http(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn request_status(&self, status: u16) {
        if let Some(slot) = &self.0 {
            slot.store(status, Ordering::Relaxed);
        }
    }

    /// The status to answer with instead of 200.
    pub fn requested(&self) -> Option<u16> {
        let status = self.0.as_ref()?.load(Ordering::Relaxed);
        (status != 0).then_some(status)
    }

    /// Seconds until a retry may succeed; `None` where a retry is pointless.
    pub fn retry_after_seconds(&self) -> Option<u32> {
        (self.requested() == Some(503)).then_some(1)
    }
}

impl RequestContext {
    /// The context of every request on a connection with one caller.
    pub(crate) fn for_connection(caller: Arc<Caller>) -> Self {
        let (request_id, status) = (correlation_id().into(), ResponseStatus::default());
        Self { caller, request_id, dialect: ClientDialect::Mcp, status }
    }

    /// The context that the transport attached.
    pub(crate) fn from_extensions(context: &RmcpContext<RoleServer>) -> Option<Self> {
        let parts = context.extensions.get::<http::request::Parts>()?;
        parts.extensions.get::<Self>().cloned()
    }
}

/// A random name for one call in logs and answers. It is not secret.
pub fn correlation_id() -> String {
    use std::hash::{BuildHasher, Hasher, RandomState};
    format!("{:016x}", RandomState::new().build_hasher().finish())
}

/// The application as one request uses it, behind the only guard against panics: the client gets an
/// internal error, the log the details. This crate calls the application nowhere else.
#[derive(Clone)]
pub(crate) struct GuardedService {
    pub(crate) service: Arc<dyn ApplicationService>,
    pub(crate) context: RequestContext,
}

impl GuardedService {
    pub(crate) async fn call_tool(
        &self,
        name: String,
        arguments: Map<String, Value>,
        idempotency_key: Option<String>,
        observer: Arc<dyn ProgressSink>,
    ) -> Result<ToolReply> {
        let (caller, correlation_id) = self.caller_and_id();
        let call = ToolCall { caller, correlation_id, name, arguments, observer, idempotency_key };
        catch_panic(self.service.call(call)).await
    }

    pub(crate) async fn authorize_method(&self, method: &'static str) -> Result<()> {
        let RequestContext { caller, request_id, .. } = &self.context;
        catch_panic(self.service.authorize(caller, request_id, method)).await
    }

    pub(crate) async fn list_resources(
        &self,
        cursor: Option<String>,
        is_poll: bool,
    ) -> Result<ResourcePage> {
        let (caller, correlation_id) = self.caller_and_id();
        let request = ListRequest { caller, correlation_id, cursor, is_poll };
        catch_panic(self.service.resources(request)).await
    }

    pub(crate) async fn read_resource(
        &self,
        uri: String,
        is_poll: bool,
    ) -> Result<ResourceContent> {
        catch_panic(self.service.read(self.resource_request(uri, Map::new(), is_poll))).await
    }

    pub(crate) async fn get_prompt(
        &self,
        name: String,
        arguments: Map<String, Value>,
    ) -> Result<PromptContent> {
        catch_panic(self.service.prompt(self.resource_request(name, arguments, false))).await
    }

    pub(crate) async fn complete_argument(
        &self,
        request: CompletionRequest,
    ) -> Result<CompletionValues> {
        let RequestContext { caller, request_id, .. } = &self.context;
        catch_panic(self.service.complete(caller, request_id, request)).await
    }

    pub(crate) async fn resources_revision(&self) -> Result<u64> {
        catch_panic(self.service.resources_changed(&self.context.caller)).await
    }

    fn resource_request(
        &self,
        name: String,
        arguments: Map<String, Value>,
        is_poll: bool,
    ) -> ResourceRequest {
        let (caller, correlation_id) = self.caller_and_id();
        ResourceRequest { caller, correlation_id, name, arguments, is_poll }
    }

    fn caller_and_id(&self) -> (Arc<Caller>, String) {
        (Arc::clone(&self.context.caller), self.context.request_id.as_ref().to_owned())
    }
}

async fn catch_panic<T>(request: impl Future<Output = Result<T>>) -> Result<T> {
    AssertUnwindSafe(request).catch_unwind().await.unwrap_or_else(|panic| {
        let reason = panic.downcast_ref::<&str>().map(|reason| (*reason).to_owned());
        let reason = reason.or_else(|| panic.downcast_ref::<String>().cloned());
        Err(Error::new(ErrorKind::Internal, reason.unwrap_or_else(|| "panic".to_owned())))
    })
}

/// Runs a call and forwards its progress. Everything reported before the end is sent before the
/// response.
pub(crate) async fn run_with_progress<T, Call: Future<Output = T>>(
    context: &RmcpContext<RoleServer>,
    call: impl FnOnce(Arc<dyn ProgressSink>) -> Call,
) -> T {
    let (sender, mut progress) = unbounded_channel();
    let token = context.meta.get_progress_token();
    let reporter = ProgressReporter {
        cancelled: context.ct.clone(),
        progress: token.map(|token| (token, sender)),
    };
    let send = async |notification| {
        if !context.ct.is_cancelled() {
            // A peer that is gone gets no response either.
            let _ = context.peer.notify_progress(notification).await;
        }
    };
    let mut call = std::pin::pin!(call(Arc::new(reporter)));
    loop {
        tokio::select! {
            biased;
            Some(notification) = progress.recv() => send(notification).await,
            outcome = &mut call => {
                while let Ok(notification) = progress.try_recv() {
                    send(notification).await;
                }
                return outcome;
            }
        }
    }
}

/// The application's end of a call's progress and cancellation.
#[derive(Debug)]
struct ProgressReporter {
    cancelled: CancellationToken,
    /// `None` when the client wants no progress.
    progress: Option<(ProgressToken, UnboundedSender<ProgressNotificationParam>)>,
}

impl ProgressSink for ProgressReporter {
    fn is_cancelled(&self) -> bool {
        self.cancelled.is_cancelled()
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of documents")]
    fn progress(&self, done: usize, total: usize, message: &str) {
        if let Some((token, sender)) = &self.progress {
            let notification = ProgressNotificationParam::new(token.clone(), done as f64)
                .with_total(total as f64)
                .with_message(message);
            // A closed receiver means that the response is not awaited any more.
            let _ = sender.send(notification);
        }
    }
}
