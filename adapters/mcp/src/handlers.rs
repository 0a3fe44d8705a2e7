//! Handlers of the protocol's methods, and the error responses for unknown methods.

use std::sync::Arc;

use reqlore_domain::error::{Error, ErrorKind};
use reqlore_domain::identity::redact_echo;
use reqlore_domain::ports::service::{
    AnswerFormat, CompletionRequest, CompletionTarget, PromptPart, UNKNOWN_METHOD,
};
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult,
    CustomRequest, CustomResult, DiscoverResult, ErrorData, GetPromptRequestParams,
    GetPromptResponse, GetSkillRequestParams, GetSkillResult, InitializeRequestParams,
    InitializeResult, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListSkillsResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, Reference, ServerConfig, SubscribeRequestParams,
    SubscriptionFilter, Tool, UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, RequestContext as RmcpContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Value, json};

use crate::convert::{self, ProtocolEra};
use crate::methods::{is_modern, served_methods, unknown_method};
use crate::request_context::{GuardedService, run_with_progress};
use crate::server::{McpServer, add_server_info, idempotency_key};
use crate::skills::skill_file;
use crate::subscriptions::SubscriptionStream;
use crate::surrogates::has_replacements;

type Context = RmcpContext<RoleServer>;

/// How long clients may cache lists that are compiled into the program, in milliseconds.
const COMPILED_IN_TTL_MS: u64 = 3_600_000;
/// The same for tools, whose custom fields may change at any time.
const TOOLS_TTL_MS: u64 = 60_000;

impl ServerHandler for McpServer {
    fn get_info(&self) -> ServerConfig {
        // rmcp knows no caller here; `initialize` narrows the instructions.
        self.widest_lists().config.clone()
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: Context,
    ) -> Result<InitializeResult, ErrorData> {
        let lists = self.authorize_method(&context, "initialize").await?;
        self.set_answers(&context.meta)
            .map_err(|error| self.protocol_error(&context, "initialize", error))?;
        let mut result = self.negotiate_initialize(&request)?;
        result.instructions.clone_from(&lists.config.instructions);
        // Without a connection the client cannot be notified.
        if !self.is_connected() {
            if let Some(resources) = result.capabilities.resources.as_mut() {
                (resources.subscribe, resources.list_changed) = (None, None);
            }
            if let Some(tools) = result.capabilities.tools.as_mut() {
                tools.list_changed = None;
            }
        }
        self.set_version(&result.protocol_version);
        let mut peer = request;
        // Later requests use the negotiated version, not the requested one.
        peer.protocol_version = result.protocol_version.clone();
        context.peer.set_peer_info(peer);
        Ok(result)
    }

    async fn discover(&self, context: Context) -> Result<DiscoverResult, ErrorData> {
        let lists = self.authorize_method(&context, "server/discover").await?;
        let versions = ServerHandler::supported_protocol_versions(self).into_owned();
        Ok(DiscoverResult::from_server_info(versions, lists.config.clone()))
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Result<ListToolsResult, ErrorData> {
        let lists = self.authorize_method(&context, "tools/list").await?;
        reject_cursor(request, "tools")
            .map_err(|error| self.protocol_error(&context, "tools/list", error))?;
        let guarded = self.guarded_service(&context)?;
        let format = self.answer_format(&context.meta, guarded.context.dialect);
        let format = format.map_err(|error| self.protocol_error(&context, "tools/list", error))?;
        let mut tools = lists.tools.clone();
        // A list without custom fields is better than none.
        let schemas = guarded.tool_schemas().await.unwrap_or_default();
        for tool in &mut tools {
            if format == AnswerFormat::Text {
                // No model reads them, and they cost nearly half of the tokens.
                tool.output_schema = None;
            }
            if let Some(schema) = schemas.get(&*tool.name) {
                tool.input_schema = Arc::new(schema.clone());
            }
        }
        if self.is_connected() && !is_modern(&context) {
            self.poll_tools(schemas, &context.peer);
        }
        let mut result = ListToolsResult::with_all_items(tools);
        add_server_info(&mut result.meta, &context);
        Ok(result.with_ttl_ms(TOOLS_TTL_MS).with_cache_scope(CacheScope::Private))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        // Not a permission check: the application authorizes every call.
        self.widest_lists().tools.iter().find(|tool| tool.name == name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: Context,
    ) -> Result<CallToolResponse, ErrorData> {
        let guarded = self.guarded_service(&context)?;
        let era = if is_modern(&context) { ProtocolEra::Modern } else { ProtocolEra::Legacy };
        // On a connection a response is lost only with the connection, so no retry needs a key.
        let key = if self.is_connected() { Ok(None) } else { idempotency_key(&context.meta) };
        let key = key.map_err(|error| guarded.context.protocol_error("tools/call", error))?;
        let format = self.answer_format(&context.meta, guarded.context.dialect);
        let format = format.map_err(|error| guarded.context.protocol_error("tools/call", error))?;
        let (name, arguments) = (request.name.into_owned(), request.arguments.unwrap_or_default());
        let (tool, client) = (name.clone(), client_name(&context));
        let is_write = self.widest_lists().write_tools.contains(&name);
        let refused = self.0.project.check_write(is_write, &arguments);
        let mut outcome = if let Err(refused) = refused {
            Err(refused)
        } else {
            let call = run_with_progress(&context, |progress_sink| {
                guarded.call_tool(client, name, arguments, key, format, progress_sink)
            });
            call.await
        };
        if let (Ok(answer), Some(projects)) = (&mut outcome, self.projects()) {
            let caller = &guarded.context.caller;
            self.0.project.name_folder(projects, caller, is_write, answer).await;
        }
        if has_replacements(&context.meta) {
            outcome = convert::note_replacements(outcome);
        }
        let mut result = match outcome {
            Ok(answer) => convert::tool_result(answer),
            Err(error) => convert::tool_error(error, &guarded.context, era, &tool)?,
        };
        add_server_info(&mut result.meta, &context);
        Ok(result.into())
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Result<ListResourcesResult, ErrorData> {
        let guarded = self.guarded_service(&context)?;
        if self.lists_of_caller(&guarded).has_resources()
            && self.is_connected()
            && !is_modern(&context)
        {
            // Clients of this era cannot subscribe to the list explicitly.
            self.0.subscriptions.watch_list(&guarded, &context.peer).await;
        }
        let cursor = request.and_then(|request| request.cursor);
        let page = run_request(
            guarded.list_resources(cursor, false),
            &context,
            &guarded,
            "resources/list",
            None,
        )
        .await?;
        let resources = page.resources.into_iter().map(convert::mcp_resource).collect();
        let mut result = ListResourcesResult::with_all_items(resources);
        result.next_cursor = page.next_cursor;
        add_server_info(&mut result.meta, &context);
        // Any write may change the list, so clients must not cache it.
        Ok(result.with_ttl_ms(0).with_cache_scope(CacheScope::Private))
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let lists = self.authorize_method(&context, "resources/templates/list").await?;
        reject_cursor(request, "templates")
            .map_err(|error| self.protocol_error(&context, "resources/templates/list", error))?;
        let mut result = ListResourceTemplatesResult::with_all_items(lists.templates.clone());
        add_server_info(&mut result.meta, &context);
        Ok(result.with_ttl_ms(COMPILED_IN_TTL_MS).with_cache_scope(CacheScope::Private))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: Context,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let (guarded, uri) = (self.guarded_service(&context)?, request.uri);
        if let Some(file) = skill_file(&self.lists_of_caller(&guarded).skills, &uri) {
            self.authorize_method(&context, "resources/read").await?;
            let mut result = ReadResourceResult::new(vec![file]);
            add_server_info(&mut result.meta, &context);
            let result = result.with_ttl_ms(COMPILED_IN_TTL_MS);
            return Ok(result.with_cache_scope(CacheScope::Private).into());
        }
        let read = guarded.read_resource(uri.clone(), false);
        let resource = run_request(read, &context, &guarded, "resources/read", Some(&uri)).await?;
        let mut result = ReadResourceResult::new(vec![convert::resource_contents(resource)]);
        add_server_info(&mut result.meta, &context);
        // Any write may change the content, so clients must not cache it.
        Ok(result.with_ttl_ms(0).with_cache_scope(CacheScope::Private).into())
    }

    async fn list_skills(
        &self,
        request: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Result<ListSkillsResult, ErrorData> {
        let lists = self.authorize_method(&context, "skills/list").await?;
        reject_cursor(request, "skills")
            .map_err(|error| self.protocol_error(&context, "skills/list", error))?;
        let mut result = ListSkillsResult::with_all_items(lists.skills.clone());
        add_server_info(&mut result.meta, &context);
        Ok(result.with_ttl_ms(COMPILED_IN_TTL_MS).with_cache_scope(CacheScope::Private))
    }

    async fn get_skill(
        &self,
        request: GetSkillRequestParams,
        context: Context,
    ) -> Result<GetSkillResult, ErrorData> {
        let lists = self.authorize_method(&context, "skills/get").await?;
        let Some(skill) = lists.skills.iter().find(|skill| skill.uri == request.uri) else {
            let uris: Vec<&str> = lists.skills.iter().map(|skill| &*skill.uri).collect();
            let uri = redact_echo(&request.uri);
            let message = format!("uri: {uri:?} is not a skill; use one of {}", uris.join(", "));
            let error = ErrorData::invalid_params(message, None);
            return Err(self.protocol_error(&context, "skills/get", error));
        };
        let mut result = GetSkillResult::new(skill.clone());
        add_server_info(&mut result.meta, &context);
        Ok(result.with_ttl_ms(COMPILED_IN_TTL_MS).with_cache_scope(CacheScope::Private))
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: Context,
    ) -> Result<(), ErrorData> {
        if !self.is_connected() {
            let error = unknown_method("resources/subscribe", false, false);
            return Err(self.protocol_error(&context, "resources/subscribe", error));
        }
        self.authorize_method(&context, "resources/subscribe").await?;
        let guarded = self.guarded_service(&context)?;
        self.0.subscriptions.subscribe(guarded, request.uri, &context.peer).await
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        context: Context,
    ) -> Result<(), ErrorData> {
        if !self.is_connected() {
            let error = unknown_method("resources/unsubscribe", false, false);
            return Err(self.protocol_error(&context, "resources/unsubscribe", error));
        }
        self.authorize_method(&context, "resources/unsubscribe").await?;
        self.0.subscriptions.unsubscribe(request.uri);
        Ok(())
    }

    /// Accepts everything: rmcp itself removes features that the capabilities do not name.
    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let extensions = &context.request_context().extensions;
        // Over HTTP rmcp wraps the extensions of the request into its parts.
        let of_http = extensions.get::<http::request::Parts>().map(|parts| &parts.extensions);
        let stream = match of_http {
            Some(extensions) => extensions.get::<Arc<SubscriptionStream>>(),
            None => extensions.get::<Arc<SubscriptionStream>>(),
        };
        self.0.subscriptions.serve_stream(stream.map(|stream| &**stream), &context).await;
        Ok(())
    }

    async fn on_roots_list_changed(&self, _: NotificationContext<RoleServer>) {
        self.0.project.ask_again().await;
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Result<ListPromptsResult, ErrorData> {
        let lists = self.authorize_method(&context, "prompts/list").await?;
        reject_cursor(request, "prompts")
            .map_err(|error| self.protocol_error(&context, "prompts/list", error))?;
        let mut result = ListPromptsResult::with_all_items(lists.prompts.clone());
        add_server_info(&mut result.meta, &context);
        Ok(result.with_ttl_ms(COMPILED_IN_TTL_MS).with_cache_scope(CacheScope::Private))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: Context,
    ) -> Result<GetPromptResponse, ErrorData> {
        let guarded = self.guarded_service(&context)?;
        let prompt = guarded.get_prompt(request.name, request.arguments.unwrap_or_default());
        let mut prompt = run_request(prompt, &context, &guarded, "prompts/get", None).await?;
        if has_replacements(&context.meta)
            && let Some(PromptPart::Text(text)) = prompt.messages.first_mut()
        {
            text.push_str("\n\nNote: ");
            text.push_str(convert::REPLACEMENT_NOTE);
        }
        let mut result = convert::prompt_result(prompt);
        add_server_info(&mut result.meta, &context);
        Ok(result.into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: Context,
    ) -> Result<CompleteResult, ErrorData> {
        let target = match request.r#ref {
            Reference::Prompt(prompt) => CompletionTarget::Prompt(prompt.name),
            Reference::Resource(template) => CompletionTarget::Template(template.uri),
            // Later protocol versions may add types.
            _ => {
                let error = ErrorData::invalid_params("ref: unknown type", None);
                return Err(self.protocol_error(&context, "completion/complete", error));
            }
        };
        let (argument, value) = (request.argument.name, request.argument.value);
        let guarded = self.guarded_service(&context)?;
        let request = CompletionRequest { target, argument, value };
        let completion = guarded.complete_argument(request);
        let mut result = convert::completion_result(
            run_request(completion, &context, &guarded, "completion/complete", None).await?,
        );
        add_server_info(&mut result.meta, &context);
        Ok(result)
    }

    /// rmcp calls this for every unknown method, and for a known one with invalid parameters.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: Context,
    ) -> Result<CustomResult, ErrorData> {
        // Even unknown methods are authorized and audited.
        self.authorize_method(&context, UNKNOWN_METHOD).await?;
        let (method, modern) = (request.method.as_str(), is_modern(&context));
        let error = if served_methods(self.is_connected(), modern).contains(&method) {
            invalid_params(method, request.params.as_ref())
        } else {
            unknown_method(method, self.is_connected(), modern)
        };
        Err(self.protocol_error(&context, method, error))
    }
}

/// The required members of `params` that rmcp checks, by their paths.
const REQUIRED_MEMBERS: [(&str, &[&str]); 8] = [
    ("initialize", &["protocolVersion", "capabilities", "clientInfo.name", "clientInfo.version"]),
    ("tools/call", &["name"]),
    ("resources/read", &["uri"]),
    ("resources/subscribe", &["uri"]),
    ("resources/unsubscribe", &["uri"]),
    ("prompts/get", &["name"]),
    ("skills/get", &["uri"]),
    ("completion/complete", &["ref.type", "argument.name", "argument.value"]),
];

/// The error for parameters that rmcp cannot parse. Names a missing member by its path.
fn invalid_params(method: &str, params: Option<&Value>) -> ErrorData {
    let field_error = |field: &str, problem: &str| {
        let message = format!("{field}: {problem}; see the schema of {method}");
        ErrorData::invalid_params(message, Some(json!({ "field": field })))
    };
    let Some(params) = params.filter(|params| !params.is_null()) else {
        return field_error("params", "required, and missing");
    };
    let required = REQUIRED_MEMBERS.iter().find(|(name, _)| *name == method);
    for path in required.map_or(&[][..], |(_, paths)| paths) {
        // `end` follows the path in its text, so that no part of it is copied.
        let (mut value, mut end) = (params, 0);
        for member in path.split('.') {
            end += member.len();
            let Some(inner) = value.get(member).filter(|inner| !inner.is_null()) else {
                // A missing object is named instead of its member.
                return field_error(&path[..end], "required, and missing");
            };
            (value, end) = (inner, end + 1);
        }
        // `capabilities` is the only required object; every other member is a string.
        if *path != "capabilities" && !value.is_string() {
            return field_error(path, "must be a string");
        }
    }
    for member in ["arguments", "context", "notifications"] {
        if params.get(member).is_some_and(|value| !value.is_null() && !value.is_object()) {
            return field_error(member, "must be an object");
        }
    }
    field_error("params", "invalid")
}

/// Runs a read until the client cancels it. A client that cancels gets no response.
async fn run_request<T>(
    request: impl Future<Output = Result<T, Error>>,
    context: &Context,
    guarded: &GuardedService,
    method: &str,
    uri: Option<&str>,
) -> Result<T, ErrorData> {
    let error = match context.ct.run_until_cancelled(request).await {
        Some(Ok(outcome)) => return Ok(outcome),
        Some(Err(error)) => error,
        None => Error::new(ErrorKind::Cancelled, "The request was cancelled."),
    };
    Err(convert::request_error(error, &guarded.context, method, uri))
}

/// The name in the request, or in the handshake of the connection.
fn client_name(context: &Context) -> Option<String> {
    let own = context.meta.client_info().map(|info| info.name);
    own.or_else(|| context.peer.peer_info().map(|peer| peer.client_info.name.clone()))
}

/// Rejects every cursor: a list that is compiled in has one page.
fn reject_cursor(
    request: Option<PaginatedRequestParams>,
    list_name: &str,
) -> Result<(), ErrorData> {
    let Some(cursor) = request.and_then(|request| request.cursor) else { return Ok(()) };
    let cursor = redact_echo(&cursor);
    let message = format!("cursor: {cursor:?} is unknown; list the {list_name} without a cursor");
    Err(ErrorData::invalid_params(message, None))
}
