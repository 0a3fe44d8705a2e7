//! Context of one request, its response status, and the panic guard around the application.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};

use futures_util::FutureExt;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::Caller;
use reqlore_domain::ports::service::{
    AnswerFormat, ApplicationService, CompletionRequest, CompletionValues, ListRequest,
    ProgressSink, PromptContent, RenderedAnswer, ResourceContent, ResourcePage, ResourceRequest,
    ToolCall, ToolSchemas,
};
use rmcp::RoleServer;
use rmcp::model::{ErrorData, ProgressNotificationParam, ProgressToken};
use rmcp::service::RequestContext as RmcpContext;
use serde_json::{Map, Value};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

use crate::failure_log::log_failure;

/// Context of one request. The HTTP transport puts it into the extensions of each request, and rmcp
/// passes it on. An HTTP request without a context gets an internal error.
#[derive(Debug, Clone)]
pub struct RequestContext {
    pub caller: Arc<Caller>,
    /// Identifies this request in logs and in internal errors.
    pub request_id: Arc<str>,
    pub dialect: ClientDialect,
    pub status: ResponseStatus,
}

/// Form of the errors that a client understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientDialect {
    /// JSON-RPC only: every failure is a JSON-RPC error.
    JsonRpc,
    /// MCP of any revision: an error that a model can correct is a tool result.
    Mcp,
}

/// HTTP status requested by a response; always empty on other transports. Clones share one slot.
#[derive(Debug, Clone, Default)]
pub struct ResponseStatus(Option<Arc<StatusSlot>>);

#[derive(Debug, Default)]
struct StatusSlot {
    status: AtomicU16,
    /// True if the failure of the request is in the log.
    is_logged: AtomicBool,
}

impl ResponseStatus {
    pub fn for_http() -> Self {
        Self(Some(Arc::default()))
    }

    pub(crate) fn is_over_http(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn request_status(&self, status: u16) {
        if let Some(slot) = &self.0 {
            // Relaxed: the response itself orders the store before the load.
            slot.status.store(status, Ordering::Relaxed);
        }
    }

    /// True if the failure of the request is in the log, which has one line for each.
    pub fn is_logged(&self) -> bool {
        self.0.as_ref().is_some_and(|slot| slot.is_logged.load(Ordering::Relaxed))
    }

    /// The status to send instead of 200.
    pub fn requested(&self) -> Option<u16> {
        match self.0.as_ref()?.status.load(Ordering::Relaxed) {
            0 => None,
            status => Some(status),
        }
    }

    /// Seconds until a retry may succeed; `None` if a retry is pointless.
    pub fn retry_after_seconds(&self) -> Option<u32> {
        if self.requested() == Some(503) { Some(1) } else { None }
    }
}

impl RequestContext {
    /// The context of every request on a connection with one caller.
    pub(crate) fn for_connection(caller: Arc<Caller>) -> Self {
        let (request_id, status) = (correlation_id().into(), ResponseStatus::default());
        Self { caller, request_id, dialect: ClientDialect::Mcp, status }
    }

    /// Logs an error that the application did not decide.
    pub(crate) fn protocol_error(&self, method: &str, error: ErrorData) -> ErrorData {
        self.log_failure((method, None), error.code.0, &error.message);
        error
    }

    pub(crate) fn log_failure(&self, call: (&str, Option<&str>), code: i32, message: &str) {
        log_failure(&self.request_id, Some(&self.caller), call, code, message);
        if let Some(slot) = &self.status.0 {
            slot.is_logged.store(true, Ordering::Relaxed);
        }
    }

    /// Returns the context that the HTTP transport attached.
    pub(crate) fn from_extensions(context: &RmcpContext<RoleServer>) -> Option<Self> {
        // rmcp wraps the HTTP request's extensions into its parts.
        let parts = context.extensions.get::<http::request::Parts>()?;
        parts.extensions.get::<Self>().cloned()
    }
}

/// Returns a random id for one call in logs and responses. It is not secret.
pub fn correlation_id() -> String {
    use std::hash::{BuildHasher, Hasher, RandomState};
    // Each state has new random keys, so the hash of nothing is random enough for an id.
    format!("{:016x}", RandomState::new().build_hasher().finish())
}

/// Calls the application for one request and turns panics into internal errors, which are logged.
/// Every other call of the application in this crate would bypass that guard.
#[derive(Clone)]
pub(crate) struct GuardedService {
    pub(crate) service: Arc<dyn ApplicationService>,
    pub(crate) context: RequestContext,
}

impl GuardedService {
    pub(crate) async fn call_tool(
        &self,
        client_name: Option<String>,
        name: String,
        arguments: Map<String, Value>,
        idempotency_key: Option<String>,
        answer_format: AnswerFormat,
        progress_sink: Arc<dyn ProgressSink>,
    ) -> Result<RenderedAnswer> {
        let (caller, correlation_id) = self.caller_and_id();
        let call = ToolCall {
            caller,
            client_name,
            correlation_id,
            name,
            arguments,
            progress_sink,
            idempotency_key,
            answer_format,
            is_audited: false,
        };
        catch_panic(self.service.call(call)).await
    }

    pub(crate) async fn authorize_method(&self, method: &'static str) -> Result<()> {
        let RequestContext { caller, request_id, .. } = &self.context;
        catch_panic(self.service.authorize(caller, request_id, method)).await
    }

    pub(crate) async fn tool_schemas(&self) -> Result<ToolSchemas> {
        catch_panic(self.service.tool_schemas(&self.context.caller)).await
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
        let fills_placeholders = self.context.dialect == ClientDialect::Mcp;
        ResourceRequest { caller, correlation_id, name, arguments, is_poll, fills_placeholders }
    }

    fn caller_and_id(&self) -> (Arc<Caller>, String) {
        (Arc::clone(&self.context.caller), self.context.request_id.as_ref().to_owned())
    }
}

async fn catch_panic<T>(request: impl Future<Output = Result<T>>) -> Result<T> {
    // Unwind safe: the application's locks recover from poisoning.
    match AssertUnwindSafe(request).catch_unwind().await {
        Ok(outcome) => outcome,
        Err(payload) => {
            let reason = match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
                (Some(text), _) => (*text).to_owned(),
                (None, Some(text)) => text.clone(),
                (None, None) => "panic".to_owned(),
            };
            Err(Error::new(ErrorKind::Internal, reason))
        }
    }
}

/// Runs a call and forwards its progress. All progress is sent before the response.
pub(crate) async fn run_with_progress<T, Call: Future<Output = T>>(
    context: &RmcpContext<RoleServer>,
    call: impl FnOnce(Arc<dyn ProgressSink>) -> Call,
) -> T {
    // Unbounded, because the application reports progress without waiting for the client.
    let (sender, mut progress) = unbounded_channel();
    let token = context.meta.get_progress_token();
    let reporter = ProgressReporter {
        cancelled: context.ct.clone(),
        // Without a token the sender is dropped here, so the channel ends at once.
        progress: token.map(|token| (token, sender)),
    };
    let mut call = std::pin::pin!(call(Arc::new(reporter)));
    loop {
        tokio::select! {
            // Polled in this order: progress has priority over the response.
            biased;
            Some(notification) = progress.recv() => send_progress(context, notification).await,
            outcome = &mut call => {
                // The call may have reported progress in its last poll.
                while let Ok(notification) = progress.try_recv() {
                    send_progress(context, notification).await;
                }
                return outcome;
            }
        }
    }
}

async fn send_progress(context: &RmcpContext<RoleServer>, notification: ProgressNotificationParam) {
    if !context.ct.is_cancelled() {
        // A client that closed the connection gets no response either.
        let _ = context.peer.notify_progress(notification).await;
    }
}

/// Reports the progress of a call from the application, and the client's cancellation to it.
#[derive(Debug)]
struct ProgressReporter {
    cancelled: CancellationToken,
    /// `None` if the client requested no progress.
    progress: Option<(ProgressToken, UnboundedSender<ProgressNotificationParam>)>,
}

impl ProgressSink for ProgressReporter {
    fn is_cancelled(&self) -> bool {
        self.cancelled.is_cancelled()
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of documents")]
    fn progress(&self, done: usize, total: usize, message: &str) {
        if let Some((token, sender)) = &self.progress {
            let mut notification =
                ProgressNotificationParam::new(token.clone(), done as f64).with_message(message);
            notification.total = (total > 0).then_some(total as f64);
            // A closed receiver means that the call was dropped.
            let _ = sender.send(notification);
        }
    }
}
