//! One `ServerHandler` over the endpoint, without rmcp's macros: they would take away the exact
//! schemas, the exact errors and the guard against panics.
//!
//! On a connection rmcp is given a server's [`Front`]; where each request stands alone, the server.

mod asked;
mod front;
mod methods;
mod view;
mod words;

use std::sync::Arc;

use reqlore_domain::error::{Error, ErrorKind};
use reqlore_domain::identity::{Access, Caller};
use reqlore_domain::ports::service::{ApplicationService, ProgressSink, UNKNOWN_METHOD};
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, ClientRequest,
    CompleteRequestParams, CompleteResult, CustomRequest, CustomResult, DiscoverResult, ErrorData,
    GetPromptRequestParams, GetPromptResponse, InitializeRequestParams, InitializeResult,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    MetaObject, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse,
    ServerConfig, SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler};
use serde_json::json;

use crate::asker::{self, Asker};
use crate::guarded::Guarded;
use crate::present::Era;
use crate::subscriptions::{Stream, Subscriptions};
use crate::{observer, present};
pub use front::Front;
use view::{View, Views};

type Context = RequestContext<RoleServer>;

/// How long clients may keep lists that are compiled in, in milliseconds.
const COMPILED_IN_TTL_MS: u64 = 3_600_000;
/// Where a call carries its caller's own name for it.
const IDEMPOTENCY_KEY: &str = "reqlore/idempotency-key";

/// Speaks MCP for the callers of one connection, or of one process. Cloning shares everything.
#[derive(Clone)]
pub struct Server(Arc<Shared>);

struct Shared {
    endpoint: Arc<dyn ApplicationService>,
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
    pub fn new(endpoint: Arc<dyn ApplicationService>, caller: Caller) -> Self {
        Self::with(endpoint, Some(Arc::new(caller)))
    }

    /// For requests that stand alone, each with an [`Asker`] in the extensions of its HTTP request.
    pub fn for_requests(endpoint: Arc<dyn ApplicationService>) -> Self {
        Self::with(endpoint, None)
    }

    fn with(endpoint: Arc<dyn ApplicationService>, local: Option<Arc<Caller>>) -> Self {
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
    fn asked(&self, context: &Context) -> Result<Guarded, ErrorData> {
        let asker = match &self.0.local {
            Some(caller) => Asker::local(Arc::clone(caller)),
            None => asker::of(context).ok_or_else(|| {
                let error = Error::new(ErrorKind::Internal, "a request came without its caller");
                present::internal(&error, &asker::correlation_id())
            })?,
        };
        Ok(Guarded { endpoint: Arc::clone(&self.0.endpoint), asker })
    }

    fn view(&self, context: &Context) -> Result<&View, ErrorData> {
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

    /// Authorizes and records a request that is answered here.
    async fn admit(&self, context: &Context, method: &'static str) -> Result<(), ErrorData> {
        let asked = self.asked(context)?;
        let admitted = asked.admit(method).await;
        admitted.map_err(|error| present::failure(error, &asked.asker, None))
    }

    async fn call(
        &self,
        request: CallToolRequestParams,
        asked: &Guarded,
        era: Era,
        key: Option<String>,
        observer: Arc<dyn ProgressSink>,
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
        context: Context,
    ) -> Result<InitializeResult, ErrorData> {
        self.admit(&context, "initialize").await?;
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

    async fn discover(&self, context: Context) -> Result<DiscoverResult, ErrorData> {
        self.admit(&context, "server/discover").await?;
        let versions = ServerHandler::supported_protocol_versions(self).into_owned();
        Ok(DiscoverResult::from_server_info(versions, self.view(&context)?.config.clone()))
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Result<ListToolsResult, ErrorData> {
        self.admit(&context, "tools/list").await?;
        asked::only_page(request, "tools")?;
        let mut result = ListToolsResult::with_all_items(self.view(&context)?.tools.clone());
        sign(&mut result.meta, &context);
        Ok(result.with_ttl_ms(COMPILED_IN_TTL_MS).with_cache_scope(CacheScope::Private))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.widest().tools.iter().find(|tool| tool.name == name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: Context,
    ) -> Result<CallToolResponse, ErrorData> {
        let (asked, era) = (self.asked(&context)?, methods::era(&context));
        // Only over HTTP is there a request that may have come and its answer not.
        let key = if self.is_connected() { None } else { idempotency_key(&context)? };
        let (line, mut told) = observer::line(&context);
        let call = self.call(request, &asked, era, key, Arc::new(line));
        let mut result = told.until(call).await?;
        sign(&mut result.meta, &context);
        Ok(result.into())
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Result<ListResourcesResult, ErrorData> {
        let mut result = self.resources(request, &context).await?;
        sign(&mut result.meta, &context);
        Ok(result)
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        self.admit(&context, "resources/templates/list").await?;
        let mut result = self.resource_templates(request, &context)?;
        sign(&mut result.meta, &context);
        Ok(result)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: Context,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let mut result = self.read(request.uri, &context).await?;
        sign(&mut result.meta, &context);
        Ok(result.into())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: Context,
    ) -> Result<(), ErrorData> {
        if !self.is_connected() {
            return Err(methods::unknown("resources/subscribe", false, false));
        }
        self.admit(&context, "resources/subscribe").await?;
        let asked = self.asked(&context)?;
        self.0.subscriptions.subscribe(asked, request.uri, &context.peer).await
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        context: Context,
    ) -> Result<(), ErrorData> {
        if !self.is_connected() {
            return Err(methods::unknown("resources/unsubscribe", false, false));
        }
        self.admit(&context, "resources/unsubscribe").await?;
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
        let request = context.request_context();
        self.admit(request, "subscriptions/listen").await?;
        let mut stream = request.extensions.get::<Arc<Stream>>().cloned();
        if stream.is_none() && self.view(request)?.has_resources() {
            // Where rmcp serves requests it acknowledged this one already.
            let asked = self.asked(request)?;
            stream = Some(Arc::new(self.0.subscriptions.catch_up(asked, &context).await?));
        }
        self.0.subscriptions.listen(stream.as_deref(), &context).await;
        Ok(())
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Result<ListPromptsResult, ErrorData> {
        self.admit(&context, "prompts/list").await?;
        let mut result = self.prompt_list(request, &context)?;
        sign(&mut result.meta, &context);
        Ok(result)
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: Context,
    ) -> Result<GetPromptResponse, ErrorData> {
        let mut result = self.prompt(request, &context).await?;
        sign(&mut result.meta, &context);
        Ok(result.into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: Context,
    ) -> Result<CompleteResult, ErrorData> {
        let mut result = self.completion(request, &context).await?;
        sign(&mut result.meta, &context);
        Ok(result)
    }

    /// A known method lands here when its parameters did not fit, an unknown one always.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: Context,
    ) -> Result<CustomResult, ErrorData> {
        self.admit(&context, UNKNOWN_METHOD).await?;
        Err(methods::refusal(&request.method, self.is_connected(), methods::is_modern(&context)))
    }
}

/// Every result since 2026-07-28 says who answered; rmcp signs some of them itself.
fn sign(meta: &mut Option<MetaObject>, context: &Context) {
    const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
    if methods::is_modern(context) {
        let reqlore = json!({ "name": "reqlore", "version": env!("CARGO_PKG_VERSION") });
        meta.get_or_insert_default().insert(SERVER_INFO.to_owned(), reqlore);
    }
}

/// The caller's own name for a write (rulings 7).
fn idempotency_key(context: &Context) -> Result<Option<String>, ErrorData> {
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
