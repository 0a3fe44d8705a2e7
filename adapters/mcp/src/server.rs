//! The protocol handler of the application.
//!
//! rmcp's macros are not used: they would change schemas and errors, and bypass the panic guard.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use reqlore_domain::error::{Error, ErrorKind};
use reqlore_domain::identity::{Access, Caller};
use reqlore_domain::ports::project_resolver::ProjectResolver;
use reqlore_domain::ports::service::{
    AnswerFormat, ApplicationService, NoProgress, RenderedAnswer, ToolSchemas,
};
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ContentBlock, ErrorCode, ErrorData,
    JsonRpcResponse, JsonRpcVersion2_0, MetaObject, ProtocolVersion, RequestId, ServerConfig,
    ServerJsonRpcMessage, ServerResult, SubscriptionsListenRequest,
};
use rmcp::service::{NotificationContext, Peer, RequestContext as RmcpContext, Service};
use rmcp::{RoleServer, ServerHandler};
use serde::Serialize;
use serde_json::{Value, json};

use crate::connection_project::ConnectionProject;
use crate::convert::{self, ProtocolEra};
use crate::jsonrpc::{ToolCallMessage, parse_message};
use crate::methods::{is_modern, unknown_method};
use crate::request_context::{ClientDialect, GuardedService, RequestContext, correlation_id};
use crate::request_meta::{ANSWERS_META, IDEMPOTENCY_KEY};
use crate::static_lists::StaticLists;
use crate::subscriptions::{SubscriptionStream, Subscriptions};
use crate::tool_list_poller::ToolListPoller;

type Context = RmcpContext<RoleServer>;

/// Serves MCP for one connection, or for all HTTP callers of the process. Clones share the state.
#[derive(Clone)]
pub struct McpServer(pub(crate) Arc<ServerState>);

pub(crate) struct ServerState {
    pub(crate) service: Arc<dyn ApplicationService>,
    read_lists: StaticLists,
    write_lists: StaticLists,
    /// The caller of every request on a connection; `None` over HTTP.
    local_caller: Option<Arc<Caller>>,
    pub(crate) project: ConnectionProject,
    pub(crate) subscriptions: Subscriptions,
    tools: Arc<ToolListPoller>,
    /// True after a handshake for a protocol version without batches.
    refuses_batches: AtomicBool,
    /// True if answers have data by default: by a setting, or by the handshake of a connection.
    answers_both: AtomicBool,
}

impl std::fmt::Debug for McpServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("McpServer");
        debug.field("local_caller", &self.0.local_caller).finish_non_exhaustive()
    }
}

impl McpServer {
    /// Serves one caller on one connection.
    pub fn new(service: Arc<dyn ApplicationService>, caller: Caller) -> Self {
        Self::with_local_caller(service, Some(Arc::new(caller)))
    }

    /// Serves independent HTTP requests, each with a [`RequestContext`] in its extensions.
    pub fn for_requests(service: Arc<dyn ApplicationService>) -> Self {
        Self::with_local_caller(service, None)
    }

    fn with_local_caller(
        service: Arc<dyn ApplicationService>,
        local_caller: Option<Arc<Caller>>,
    ) -> Self {
        Self(Arc::new(ServerState {
            read_lists: StaticLists::new(&*service, Access::Read),
            write_lists: StaticLists::new(&*service, Access::Write),
            subscriptions: Subscriptions::new(local_caller.is_some()),
            tools: Arc::default(),
            service,
            local_caller,
            project: ConnectionProject::default(),
            // Plain JSON-RPC clients send no handshake and may use batches.
            refuses_batches: AtomicBool::new(false),
            answers_both: AtomicBool::new(false),
        }))
    }

    /// Sets the default format of answers.
    #[must_use]
    pub fn with_answers(self, format: AnswerFormat) -> Self {
        self.0.answers_both.store(format == AnswerFormat::Both, Ordering::Relaxed);
        self
    }

    /// Lets the client of the connection choose the project by its roots.
    #[must_use]
    pub fn with_client_roots(self, is_on: bool) -> Self {
        self.0.project.follows_roots.store(is_on, Ordering::Relaxed);
        self
    }

    /// The format that a connection chose in its handshake. Over HTTP there is no connection.
    pub(crate) fn set_answers(&self, meta: &MetaObject) -> Result<(), ErrorData> {
        if let (Some(format), true) = (requested_format(meta)?, self.is_connected()) {
            self.0.answers_both.store(format == AnswerFormat::Both, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The format of the answer to a request.
    pub(crate) fn answer_format(
        &self,
        meta: &MetaObject,
        dialect: ClientDialect,
    ) -> Result<AnswerFormat, ErrorData> {
        match requested_format(meta)? {
            // Programs: the specification of their API has data in each answer.
            _ if dialect == ClientDialect::JsonRpc => Ok(AnswerFormat::Both),
            Some(format) => Ok(format),
            None if self.0.answers_both.load(Ordering::Relaxed) => Ok(AnswerFormat::Both),
            None => Ok(AnswerFormat::Text),
        }
    }

    /// True if the client of this connection may send batches: a plain JSON-RPC client before any
    /// handshake, and one of 2025-03-26.
    pub fn accepts_batches(&self) -> bool {
        !self.0.refuses_batches.load(Ordering::Relaxed)
    }

    pub(crate) fn set_version(&self, version: &ProtocolVersion) {
        let has_batches = *version == ProtocolVersion::V_2025_03_26;
        self.0.refuses_batches.store(!has_batches, Ordering::Relaxed);
    }

    /// Stops all polling; each open stream gets its last response.
    pub fn end_subscriptions(&self) {
        self.0.subscriptions.end_all();
    }

    /// True if a request must run alone and in order: the handshake, every tool that writes, and
    /// the subscriptions of a connection.
    pub fn is_exclusive(&self, request: &ClientRequest) -> bool {
        match request {
            ClientRequest::InitializeRequest(_)
            | ClientRequest::SubscribeRequest(_)
            | ClientRequest::UnsubscribeRequest(_) => true,
            // A later read must see the effect of a write.
            ClientRequest::CallToolRequest(call) => {
                self.widest_lists().write_tools.contains(&*call.params.name)
            }
            _ => false,
        }
    }

    /// The resolver of projects, if this is a connection.
    pub(crate) fn projects(&self) -> Option<&dyn ProjectResolver> {
        self.0.service.projects().filter(|_| self.is_connected())
    }

    /// Returns the JSON-RPC response to a tool call of a client before 2026-07-28. The tasks and
    /// channels of rmcp's service would cost more than a small call.
    pub async fn call_directly(&self, call: ToolCallMessage, context: RequestContext) -> Vec<u8> {
        let ToolCallMessage { id, name, arguments, meta } = call;
        let guarded = GuardedService { service: Arc::clone(&self.0.service), context };
        let (context, tool) = (&guarded.context, name.clone());
        let meta = MetaObject(meta);
        // Over HTTP a response can be lost after its write, so retries need a key.
        let options = idempotency_key(&meta)
            .and_then(|key| Ok((key, self.answer_format(&meta, context.dialect)?)));
        let result = match options {
            Ok((key, format)) => {
                let progress_sink = Arc::new(NoProgress);
                match guarded.call_tool(None, name, arguments, key, format, progress_sink).await {
                    Ok(answer) => return direct_response(id, answer),
                    Err(error) => convert::tool_error(error, context, ProtocolEra::Legacy, &tool),
                }
            }
            Err(error) => Err(context.protocol_error("tools/call", error)),
        };
        let message = match result {
            Ok(mut result) => {
                // A member of the protocol since 2026-07-28 only.
                result.result_type = None;
                ServerJsonRpcMessage::response(ServerResult::CallToolResult(result), id)
            }
            Err(error) => ServerJsonRpcMessage::error(error, Some(id)),
        };
        // These types have string keys only, so serialization cannot fail.
        serde_json::to_vec(&message).unwrap_or_default()
    }

    /// Opens the stream of a `subscriptions/listen` over HTTP for [`ServerHandler::listen`], which
    /// rmcp calls after the acknowledgement. Returns the response to a request that fails.
    pub async fn prepare_listen(
        &self,
        body: &[u8],
        context: RequestContext,
        extensions: &mut http::Extensions,
    ) -> Result<(), Vec<u8>> {
        // rmcp rejects any other message itself.
        if let Ok(ClientJsonRpcMessage::Request(message)) = parse_message(body)
            && let ClientRequest::SubscriptionsListenRequest(listen) = message.request
        {
            let guarded = GuardedService { service: Arc::clone(&self.0.service), context };
            let opened = self.open_stream(guarded, &listen).await;
            let failed = |error| {
                let response = ServerJsonRpcMessage::error(error, Some(message.id));
                serde_json::to_vec(&response).unwrap_or_default()
            };
            if let Some(stream) = opened.map_err(failed)? {
                extensions.insert(stream);
            }
        }
        Ok(())
    }

    /// Authorizes a subscription and reads its resources. `None` without any resources.
    async fn open_stream(
        &self,
        guarded: GuardedService,
        listen: &SubscriptionsListenRequest,
    ) -> Result<Option<Arc<SubscriptionStream>>, ErrorData> {
        const METHOD: &str = "subscriptions/listen";
        if let Err(error) = guarded.authorize_method(METHOD).await {
            return Err(convert::request_error(error, &guarded.context, METHOD, None));
        }
        let mut requested = listen.params.notifications.clone();
        if !self.lists_of_caller(&guarded).has_resources() {
            (requested.resource_subscriptions, requested.resources_list_changed) = (None, None);
        }
        let opened = self.0.subscriptions.open_stream(guarded, &requested).await;
        opened.map(|stream| Some(Arc::new(stream))).map_err(use_modern_code)
    }

    /// Notifies the client of this connection when its list of tools differs from `listed`.
    pub(crate) fn poll_tools(&self, listed: ToolSchemas, peer: &Peer<RoleServer>) {
        if !self.0.tools.record_listed(listed) {
            return;
        }
        // The poller ends with the last clone of the server, so it must not own one.
        let (state, tools) = (Arc::downgrade(&self.0), Arc::clone(&self.0.tools));
        let find = move || {
            let state = state.upgrade()?;
            // The client may have chosen another project.
            let caller = state.project.caller(state.local_caller.as_ref()?);
            let (service, context) = (Arc::clone(&state.service), caller);
            Some(GuardedService { service, context: RequestContext::for_connection(context) })
        };
        let peer = peer.clone();
        let notify = move || {
            let peer = peer.clone();
            async move { peer.notify_tool_list_changed().await.is_ok() }
        };
        self.0.subscriptions.spawn(async move { tools.run(find, notify).await });
    }

    /// Returns the application for the caller of this request.
    pub(crate) fn guarded_service(&self, context: &Context) -> Result<GuardedService, ErrorData> {
        let context = if let Some(caller) = &self.0.local_caller {
            RequestContext::for_connection(self.0.project.caller(caller))
        } else if let Some(context) = RequestContext::from_extensions(context) {
            context
        } else {
            // Only a bug in the transport causes this, so the client gets no details.
            let error = Error::new(ErrorKind::Internal, "request without its context");
            return Err(convert::internal_error(&error, &correlation_id()));
        };
        Ok(GuardedService { service: Arc::clone(&self.0.service), context })
    }

    /// Returns the lists that the caller of this request may see.
    pub(crate) fn lists_of_caller(&self, guarded: &GuardedService) -> &StaticLists {
        self.lists_for_access(guarded.context.caller.access)
    }

    /// Returns the lists of the connection's caller, or of a caller with full access.
    pub(crate) fn widest_lists(&self) -> &StaticLists {
        match &self.0.local_caller {
            Some(caller) => self.lists_for_access(caller.access),
            // Over HTTP each request has its own caller; the application authorizes it.
            None => &self.0.write_lists,
        }
    }

    fn lists_for_access(&self, access: Access) -> &StaticLists {
        match access {
            // The HTTP transport rejects callers of this level.
            Access::Metrics | Access::Read => &self.0.read_lists,
            Access::Write => &self.0.write_lists,
        }
    }

    /// True if the client can be notified outside of its requests.
    pub(crate) fn is_connected(&self) -> bool {
        self.0.local_caller.is_some()
    }

    /// Logs an error that the application did not decide.
    pub(crate) fn protocol_error(
        &self,
        context: &Context,
        method: &str,
        error: ErrorData,
    ) -> ErrorData {
        match self.guarded_service(context) {
            Ok(guarded) => guarded.context.protocol_error(method, error),
            Err(internal) => internal,
        }
    }

    /// Authorizes and audits a request that needs no other call of the application. Returns the
    /// caller's lists.
    pub(crate) async fn authorize_method(
        &self,
        context: &Context,
        method: &'static str,
    ) -> Result<&StaticLists, ErrorData> {
        let guarded = self.guarded_service(context)?;
        match guarded.authorize_method(method).await {
            Ok(()) => Ok(self.lists_of_caller(&guarded)),
            Err(error) => Err(convert::request_error(error, &guarded.context, method, None)),
        }
    }
}

/// Serializes a successful response in the form before 2026-07-28. It shares the data of the
/// answer, which rmcp's type would copy.
fn direct_response(id: RequestId, answer: RenderedAnswer) -> Vec<u8> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct DirectResult {
        content: [ContentBlock; 1],
        #[serde(skip_serializing_if = "is_absent")]
        structured_content: Arc<Value>,
        is_error: bool,
    }
    fn is_absent(data: &Value) -> bool {
        data.is_null()
    }
    let content = [ContentBlock::text(answer.text)];
    let result = DirectResult { content, structured_content: answer.data, is_error: false };
    let response = JsonRpcResponse { jsonrpc: JsonRpcVersion2_0, id, result };
    serde_json::to_vec(&response).unwrap_or_default()
}

/// Adds the server's name and version to a result, which is required since 2026-07-28.
pub(crate) fn add_server_info(meta: &mut Option<MetaObject>, context: &Context) {
    const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
    if is_modern(context) {
        let reqlore = json!({ "name": "reqlore", "version": env!("CARGO_PKG_VERSION") });
        meta.get_or_insert_default().insert(SERVER_INFO.to_owned(), reqlore);
    }
}

pub(crate) fn idempotency_key(meta: &MetaObject) -> Result<Option<String>, ErrorData> {
    // Every write stores its key, so keys must be short.
    const MAX_BYTES: usize = 200;
    let Some(key) = meta.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    match key.as_str() {
        Some(key) if (1..=MAX_BYTES).contains(&key.len()) => Ok(Some(key.to_owned())),
        _ => {
            let message = format!(
                "_meta[{IDEMPOTENCY_KEY:?}]: must have 1 to {MAX_BYTES} bytes; send a new UUID for \
                 each write"
            );
            Err(ErrorData::invalid_params(message, None))
        }
    }
}

/// Returns the format of answers that a request asks for.
fn requested_format(meta: &MetaObject) -> Result<Option<AnswerFormat>, ErrorData> {
    let Some(given) = meta.get(ANSWERS_META) else { return Ok(None) };
    let name = given.as_str().unwrap_or_default();
    let format = AnswerFormat::ALL.into_iter().find(|format| format.name() == name);
    format.map(Some).ok_or_else(|| {
        let message = format!("_meta[{ANSWERS_META:?}]: must be \"text\" or \"both\"");
        ErrorData::invalid_params(message, None)
    })
}

/// The service that rmcp runs on a connection. It rejects methods of the other era, and reads
/// subscribed resources before rmcp acknowledges the subscription, so that no change is missed.
#[derive(Debug, Clone)]
pub struct ConnectionService(pub McpServer);

impl Service<RoleServer> for ConnectionService {
    async fn handle_request(
        &self,
        request: ClientRequest,
        mut context: RmcpContext<RoleServer>,
    ) -> Result<ServerResult, ErrorData> {
        let (server, modern) = (&self.0, is_modern(&context));
        // rmcp itself accepts the methods of both eras.
        let method_of_other_era = match &request {
            ClientRequest::SubscribeRequest(_) if modern => Some("resources/subscribe"),
            ClientRequest::UnsubscribeRequest(_) if modern => Some("resources/unsubscribe"),
            ClientRequest::SubscriptionsListenRequest(_) if !modern => Some("subscriptions/listen"),
            _ => None,
        };
        if let Some(method) = method_of_other_era {
            let error = unknown_method(method, server.is_connected(), modern);
            return Err(server.protocol_error(&context, method, error));
        }
        let reads_project = matches!(
            request,
            ClientRequest::CallToolRequest(_)
                | ClientRequest::ListToolsRequest(_)
                | ClientRequest::ListResourcesRequest(_)
                | ClientRequest::ReadResourceRequest(_)
                | ClientRequest::SubscribeRequest(_)
                | ClientRequest::GetPromptRequest(_)
                | ClientRequest::CompleteRequest(_)
        );
        if let (true, Some(projects), Some(local)) =
            (reads_project && !modern, server.projects(), &server.0.local_caller)
        {
            server.0.project.follow_roots(&context.peer, projects, local).await;
        }
        if let ClientRequest::SubscriptionsListenRequest(listen) = &request {
            let guarded = server.guarded_service(&context)?;
            if let Some(stream) = server.open_stream(guarded, listen).await? {
                // `listen` takes the stream from the extensions after the acknowledgement.
                context.extensions.insert(stream);
            }
        }
        server.handle_request(request, context).await
    }

    async fn handle_notification(
        &self,
        notification: ClientNotification,
        context: NotificationContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.0.handle_notification(notification, context).await
    }

    fn get_info(&self) -> ServerConfig {
        ServerHandler::get_info(&self.0)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        ServerHandler::supported_protocol_versions(&self.0)
    }
}

/// Replaces an error code as rmcp does for errors of a handler.
fn use_modern_code(mut error: ErrorData) -> ErrorData {
    if error.code == ErrorCode::RESOURCE_NOT_FOUND {
        error.code = ErrorCode::INVALID_PARAMS;
    }
    error
}

#[cfg(test)]
mod tests;
