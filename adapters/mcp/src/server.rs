//! One `ServerHandler` over the endpoint, without rmcp's macros: they would take away the exact
//! schemas, the exact errors and the guard against panics.
//!
//! rmcp is given a server's [`Front`], never the server itself.

mod asked;
mod front;
mod methods;
mod words;

use std::collections::HashSet;
use std::sync::Arc;

use reqlore_domain::identity::{Access, Caller};
use reqlore_domain::ports::endpoint::{Endpoint, Observer};
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, ClientRequest,
    CompleteRequestParams, CompleteResult, CustomRequest, CustomResult, ErrorData,
    GetPromptRequestParams, GetPromptResponse, Implementation, InitializeRequestParams,
    InitializeResult, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, Prompt, ReadResourceRequestParams,
    ReadResourceResponse, ResourceTemplate, ServerCapabilities, ServerConfig,
    SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler};

use crate::guarded::{Guarded, correlation_id};
use crate::subscriptions::{Stream, Subscriptions};
use crate::{observer, present};
pub use front::Front;

/// How long clients may keep lists that are compiled in, in milliseconds.
const COMPILED_IN_TTL_MS: u64 = 3_600_000;

/// Speaks MCP for one caller on one connection. Cloning shares everything.
#[derive(Clone)]
pub struct Server {
    asked: Guarded,
    config: Arc<ServerConfig>,
    tools: Arc<[Tool]>,
    writing: Arc<HashSet<String>>,
    templates: Arc<[ResourceTemplate]>,
    prompts: Arc<[Prompt]>,
    subscriptions: Arc<Subscriptions>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("caller", &self.asked.caller).finish_non_exhaustive()
    }
}

impl Server {
    pub fn new(endpoint: Arc<dyn Endpoint>, caller: Caller) -> Self {
        let specs = endpoint.tools(&caller);
        let instructions = words::instructions(&specs);
        let tools = specs.iter().map(|spec| present::tool(spec)).collect();
        let writing = specs.iter().filter(|spec| spec.access == Access::Write);
        let writing = Arc::new(writing.map(|spec| spec.name.to_owned()).collect());
        let templates: Arc<[_]> =
            endpoint.templates(&caller).into_iter().map(present::template).collect();
        let prompts: Arc<[_]> =
            endpoint.prompts(&caller).into_iter().map(present::prompt_spec).collect();
        let mut config = ServerConfig::new(capabilities(&templates, &prompts));
        config.server_info = Implementation::new("reqlore", env!("CARGO_PKG_VERSION"));
        config.server_info.title = Some("Reqlore".to_owned());
        config.server_info.description = Some(words::DESCRIPTION.to_owned());
        config.instructions = Some(instructions);
        let asked = Guarded { endpoint, caller };
        let subscriptions = Arc::new(Subscriptions::new(asked.clone()));
        Self { asked, config: Arc::new(config), tools, writing, templates, prompts, subscriptions }
    }

    /// What rmcp runs on a connection.
    pub fn front(&self) -> Front {
        Front(self.clone())
    }

    /// No more requests come: nothing is watched any more, and who listens gets a last answer.
    pub fn finish(&self) {
        self.subscriptions.finish();
    }

    /// Must this request run alone, after all before it and before all behind it? True for the
    /// handshake, for every tool that writes, and for what a connection is subscribed to.
    pub fn is_exclusive(&self, request: &ClientRequest) -> bool {
        match request {
            ClientRequest::InitializeRequest(_)
            | ClientRequest::SubscribeRequest(_)
            | ClientRequest::UnsubscribeRequest(_) => true,
            ClientRequest::CallToolRequest(call) => self.writing.contains(&*call.params.name),
            _ => false,
        }
    }

    /// Is there anything that can be read by URI?
    fn has_resources(&self) -> bool {
        !self.templates.is_empty()
    }

    async fn call(
        &self,
        request: CallToolRequestParams,
        observer: Arc<dyn Observer>,
    ) -> Result<CallToolResult, ErrorData> {
        let id = correlation_id();
        let (name, arguments) = (request.name.into_owned(), request.arguments.unwrap_or_default());
        match self.asked.call(name, arguments, &id, observer).await {
            Ok(reply) => Ok(present::reply(reply)),
            Err(error) => present::error(error, &id),
        }
    }
}

/// Only what there is something of.
fn capabilities(templates: &[ResourceTemplate], prompts: &[Prompt]) -> ServerCapabilities {
    let mut capabilities = ServerCapabilities::builder().enable_tools().build();
    if !templates.is_empty() {
        let resources = ServerCapabilities::builder()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_resources_list_changed();
        capabilities.resources = resources.build().resources;
    }
    if !prompts.is_empty() {
        capabilities.prompts = Some(rmcp::model::PromptsCapability::default());
    }
    if !templates.is_empty() || !prompts.is_empty() {
        capabilities.completions = Some(rmcp::model::JsonObject::default());
    }
    capabilities
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        (*self.config).clone()
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let result = self.negotiate_initialize(&request)?;
        let mut peer = request;
        // What was negotiated counts from here on, not what was asked for.
        peer.protocol_version = result.protocol_version.clone();
        context.peer.set_peer_info(peer);
        Ok(result)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        asked::only_page(request, "tools")?;
        let result = ListToolsResult::with_all_items(self.tools.to_vec());
        Ok(result.with_ttl_ms(COMPILED_IN_TTL_MS).with_cache_scope(CacheScope::Private))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools.iter().find(|tool| tool.name == name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let (line, mut told) = observer::line(&context);
        told.until(self.call(request, Arc::new(line))).await.map(CallToolResponse::from)
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
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        self.resource_templates(request)
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
        self.subscriptions.subscribe(request.uri, &context.peer).await
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.subscriptions.unsubscribe(&request.uri);
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
        self.subscriptions.listen(stream.map(|stream| &**stream), &context).await;
        Ok(())
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        self.prompt_list(request)
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
        Err(methods::refusal(&request.method, methods::is_modern(&context)))
    }
}

#[cfg(test)]
mod tests;
