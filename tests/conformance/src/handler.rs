//! The handler that serves the suite's fixtures through rmcp.

#![expect(deprecated, reason = "the suite also tests the 2025 protocol")]

use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult, ErrorData,
    GetPromptRequestParams, GetPromptResponse, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, ServerConfig, SetLevelRequestParams,
    SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
};
use rmcp::service::{RequestContext, SubscriptionContext, SubscriptionSendError};
use rmcp::{RoleServer, ServerHandler};
use serde::de::DeserializeOwned;
use serde_json::{Value, from_value, json};
use tokio::sync::broadcast;

use crate::fixtures::Fixtures;
use crate::rounds::{RoundOutcome, StateSeal};

pub(crate) type Context = RequestContext<RoleServer>;

#[derive(Clone)]
pub(crate) struct Handler(Arc<HandlerState>);

pub(crate) struct HandlerState {
    pub(crate) fixtures: Fixtures,
    config: ServerConfig,
    pub(crate) seal: StateSeal,
    /// Notifies subscription streams.
    pub(crate) changes: broadcast::Sender<ListChange>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum ListChange {
    Tools,
    Prompts,
}

impl Handler {
    pub(crate) fn new() -> serde_json::Result<Self> {
        let config = from_value(json!({
            "protocolVersion": "2026-07-28",
            "capabilities": {
                "tools": { "listChanged": true },
                "prompts": { "listChanged": true },
                "resources": { "subscribe": true },
                "completions": {},
                "logging": {},
            },
            "serverInfo": { "name": "reqlore-conformance", "version": env!("CARGO_PKG_VERSION") },
        }))?;
        let (changes, _) = broadcast::channel(16);
        let fixtures = Fixtures::read()?;
        Ok(Self(Arc::new(HandlerState { fixtures, config, seal: StateSeal::default(), changes })))
    }
}

/// Parses a fixture, which was validated when it was loaded.
pub(crate) fn from_fixture<T: DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    from_value(value).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        self.0.config.clone()
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.0.fixtures.tools.clone()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.0.fixtures.tools.iter().find(|tool| tool.name == name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: Context,
    ) -> Result<CallToolResponse, ErrorData> {
        self.0.call(request, &context).await
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(self.0.fixtures.resources.clone()))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(self.0.fixtures.templates.clone()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: Context,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri;
        if let Some(contents) = self.0.fixtures.contents.get(&uri) {
            return Ok(contents.clone().into());
        }
        let id = uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data"));
        let Some(id) = id else {
            let data = json!({ "uri": uri });
            return Err(ErrorData::resource_not_found("Resource not found", Some(data)));
        };
        let text = json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
        let text = text.to_string();
        let content = json!({ "uri": uri, "mimeType": "application/json", "text": text });
        let result = json!({ "resultType": "complete", "contents": [content] });
        Ok(from_fixture::<ReadResourceResult>(result)?.into())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(self.0.fixtures.prompts.clone()))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: Context,
    ) -> Result<GetPromptResponse, ErrorData> {
        let fixtures = &self.0.fixtures;
        let mut arguments = json!(request.arguments.unwrap_or_default());
        if let Some(rounds) = fixtures.rounds.get(&request.name) {
            let responses = request.input_responses.as_ref();
            match self.0.seal.next_round(
                rounds,
                false,
                responses,
                request.request_state.as_deref(),
            )? {
                RoundOutcome::Ask(request) => return Ok(request.into()),
                RoundOutcome::Done(answers) => arguments = json!({ "answers": answers }),
            }
        }
        let result = fixtures.message(&request.name, &arguments);
        let unknown = || ErrorData::invalid_params("no such prompt", None);
        Ok(result.ok_or_else(unknown)?.into())
    }

    async fn complete(
        &self,
        _: CompleteRequestParams,
        _: Context,
    ) -> Result<CompleteResult, ErrorData> {
        Ok(CompleteResult::default())
    }

    /// Without a session the 2025 protocol can't deliver notifications, so there is nothing to
    /// store.
    async fn subscribe(&self, _: SubscribeRequestParams, _: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(&self, _: UnsubscribeRequestParams, _: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn set_level(&self, _: SetLevelRequestParams, _: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.0.changes.subscribe();
        loop {
            let change = tokio::select! {
                () = context.cancelled() => return Ok(()),
                change = changes.recv() => change,
            };
            let sink = context.sink();
            let sent = match change {
                Ok(ListChange::Tools) => sink.notify_tool_list_changed().await,
                Ok(ListChange::Prompts) => sink.notify_prompt_list_changed().await,
                Err(_) => return Ok(()),
            };
            if !matches!(sent, Ok(()) | Err(SubscriptionSendError::NotificationNotAccepted(_))) {
                return Ok(());
            }
        }
    }
}
