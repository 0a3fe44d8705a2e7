//! One `ServerHandler` over the endpoint, without rmcp's macros: they would take away the exact
//! schemas, the exact errors and the guard against panics.
//!
//! rmcp is given a server's [`Front`], never the server itself.

mod asked;
mod front;
mod methods;
mod view;
mod words;

use std::sync::Arc;

use reqlore_domain::error::{Error, ErrorKind};
use reqlore_domain::identity::{Access, Caller};
use reqlore_domain::ports::endpoint::{Endpoint, Observer};
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, ClientRequest,
    CompleteRequestParams, CompleteResult, CustomRequest, CustomResult, DiscoverResult, ErrorData,
    GetPromptRequestParams, GetPromptResponse, InitializeRequestParams, InitializeResult,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ServerConfig,
    SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler};

use crate::asker::{self, Asker};
use crate::guarded::Guarded;
use crate::present::Era;
use crate::subscriptions::{Stream, Subscriptions};
use crate::{observer, present};
pub use front::Front;
use view::{View, Views};

/// How long clients may keep lists that are compiled in, in milliseconds.
const COMPILED_IN_TTL_MS: u64 = 3_600_000;
/// Where a call carries its caller's own name for it.
const IDEMPOTENCY_KEY: &str = "reqlore/idempotency-key";

/// Speaks MCP for the callers of one connection, or of one process. Cloning shares everything.
#[derive(Clone)]
pub struct Server(Arc<Shared>);

struct Shared {
    endpoint: Arc<dyn Endpoint>,
    views: Views,
    /// Whoever makes all requests, where they do not say themselves who asks.
    local: Option<Arc<Caller>>,
    subscriptions: Subscriptions,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("local", &self.0.local).finish_non_exhaustive()
    }
}

impl Server {
    /// For one caller on one connection.
    pub fn new(endpoint: Arc<dyn Endpoint>, caller: Caller) -> Self {
        Self::with(endpoint, Some(Arc::new(caller)))
    }

    /// For requests that stand alone, each with an [`Asker`] in the extensions of its HTTP request.
    pub fn for_requests(endpoint: Arc<dyn Endpoint>) -> Self {
        Self::with(endpoint, None)
    }

    fn with(endpoint: Arc<dyn Endpoint>, local: Option<Arc<Caller>>) -> Self {
        let (views, subscriptions) = (Views::of(&endpoint), Subscriptions::new(local.is_some()));
        Self(Arc::new(Shared { endpoint, views, local, subscriptions }))
    }

    /// What rmcp runs on a connection.
    pub fn front(&self) -> Front {
        Front(self.clone())
    }

    /// No more requests come: nothing is watched any more, and who listens gets a last answer.
    pub fn finish(&self) {
        self.0.subscriptions.finish();
    }

    /// Must this request run alone, after all before it and before all behind it? True for the
    /// handshake, for every tool that writes, and for what a connection is subscribed to.
    pub fn is_exclusive(&self, request: &ClientRequest) -> bool {
        match request {
            ClientRequest::InitializeRequest(_)
            | ClientRequest::SubscribeRequest(_)
            | ClientRequest::UnsubscribeRequest(_) => true,
            ClientRequest::CallToolRequest(call) => {
                self.widest().writing.contains(&*call.params.name)
            }
            _ => false,
        }
    }

    /// Who asks this. Where nobody says so nobody is answered.
    fn asked(&self, context: &RequestContext<RoleServer>) -> Result<Guarded, ErrorData> {
        let asker = match &self.0.local {
            Some(caller) => Asker::local(Arc::clone(caller)),
            None => asker::of(context).ok_or_else(|| {
                let error = Error::new(ErrorKind::Internal, "a request came without its caller");
                present::internal(&error, &asker::correlation_id())
            })?,
        };
        Ok(Guarded { endpoint: Arc::clone(&self.0.endpoint), asker })
    }

    fn view(&self, context: &RequestContext<RoleServer>) -> Result<&View, ErrorData> {
        let access = match &self.0.local {
            Some(caller) => caller.access,
            None => self.asked(context)?.asker.caller.access,
        };
        Ok(self.0.views.for_access(access))
    }

    /// What the one caller sees, or all that anybody does.
    fn widest(&self) -> &View {
        let local = self.0.local.as_ref();
        self.0.views.for_access(local.map_or(Access::Write, |caller| caller.access))
    }

    /// Can a client be told of changes outside of its requests?
    fn is_connected(&self) -> bool {
        self.0.local.is_some()
    }

    async fn call(
        &self,
        request: CallToolRequestParams,
        asked: &Guarded,
        era: Era,
        key: Option<String>,
        observer: Arc<dyn Observer>,
    ) -> Result<CallToolResult, ErrorData> {
        let (name, arguments) = (request.name.into_owned(), request.arguments.unwrap_or_default());
        match asked.call(name, arguments, key, observer).await {
            Ok(reply) => Ok(present::reply(reply)),
            Err(error) => present::error(error, &asked.asker, era),
        }
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        self.widest().config.clone()
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let mut result = self.negotiate_initialize(&request)?;
        result.instructions.clone_from(&self.view(&context)?.config.instructions);
        if let Some(resources) = result.capabilities.resources.as_mut()
            && !self.is_connected()
        {
            (resources.subscribe, resources.list_changed) = (None, None);
        }
        let mut peer = request;
        // What was negotiated counts from here on, not what was asked for.
        peer.protocol_version = result.protocol_version.clone();
        context.peer.set_peer_info(peer);
        Ok(result)
    }

    async fn discover(
        &self,
        context: RequestContext<RoleServer>,
    ) -> Result<DiscoverResult, ErrorData> {
        let versions = ServerHandler::supported_protocol_versions(self).into_owned();
        Ok(DiscoverResult::from_server_info(versions, self.view(&context)?.config.clone()))
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        asked::only_page(request, "tools")?;
        let result = ListToolsResult::with_all_items(self.view(&context)?.tools.clone());
        Ok(result.with_ttl_ms(COMPILED_IN_TTL_MS).with_cache_scope(CacheScope::Private))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.widest().tools.iter().find(|tool| tool.name == name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let (asked, era) = (self.asked(&context)?, methods::era(&context));
        let key = idempotency_key(&context)?;
        let (line, mut told) = observer::line(&context);
        let call = self.call(request, &asked, era, key, Arc::new(line));
        told.until(call).await.map(CallToolResponse::from)
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        self.resources(request, &context).await
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        self.resource_templates(request, &context)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.read(request.uri, &context).await.map(ReadResourceResponse::from)
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let asked = self.asked(&context)?;
        self.0.subscriptions.subscribe(asked, request.uri, &context.peer).await
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.0.subscriptions.unsubscribe(&request.uri);
        Ok(())
    }

    /// rmcp keeps of it what the capabilities name.
    fn accepted_subscription_filter(
        &self,
        wanted: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(wanted.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let stream = context.request_context().extensions.get::<Arc<Stream>>();
        self.0.subscriptions.listen(stream.map(|stream| &**stream), &context).await;
        Ok(())
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        self.prompt_list(request, &context)
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        self.prompt(request, &context).await.map(GetPromptResponse::from)
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        self.completion(request, &context).await
    }

    /// A known method lands here when its parameters did not fit, an unknown one always.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        Err(methods::refusal(&request.method, self.is_connected(), methods::is_modern(&context)))
    }
}

/// The caller's own name for a write (rulings 7).
fn idempotency_key(context: &RequestContext<RoleServer>) -> Result<Option<String>, ErrorData> {
    const MOST: usize = 200;
    let Some(key) = context.meta.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    match key.as_str() {
        Some(key) if (1..=MOST).contains(&key.len()) => Ok(Some(key.to_owned())),
        _ => {
            let message = format!(
                "_meta[{IDEMPOTENCY_KEY:?}] must be a text of 1 to {MOST} bytes, such as a UUID, \
                 that is new for each write"
            );
            Err(ErrorData::invalid_params(message, None))
        }
    }
}

#[cfg(test)]
mod tests;
