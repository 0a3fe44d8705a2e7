//! What rmcp runs: the server, and before it what rmcp's handler has no place for.
//!
//! rmcp acknowledges a subscription before its handler hears of it. What changes in between would
//! be lost, and a bad URI could not be refused; so here everything is looked at first.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use rmcp::model::{
    ClientNotification, ClientRequest, ErrorCode, ErrorData, Implementation, ProtocolVersion,
    ServerConfig, ServerResult,
};
use rmcp::service::{NotificationContext, RequestContext, Service};
use rmcp::{RoleServer, ServerHandler};
use serde_json::Value;

use super::Server;
use super::methods::{is_modern, named, unknown};
use crate::present;

/// A [`Server`] in front of one connection.
#[derive(Debug, Clone)]
pub struct Front(pub(super) Server);

impl Service<RoleServer> for Front {
    async fn handle_request(
        &self,
        request: ClientRequest,
        mut context: RequestContext<RoleServer>,
    ) -> Result<ServerResult, ErrorData> {
        let (server, modern) = (&self.0, is_modern(&context));
        let connected = server.is_connected();
        let refused = |method| Err(unknown(method, connected, modern));
        match &request {
            ClientRequest::SubscribeRequest(_) if modern || !connected => {
                return refused("resources/subscribe");
            }
            ClientRequest::UnsubscribeRequest(_) if modern || !connected => {
                return refused("resources/unsubscribe");
            }
            ClientRequest::SubscriptionsListenRequest(_) if !modern => {
                return refused("subscriptions/listen");
            }
            _ => {}
        }
        let asked = server.asked(&context)?;
        if let Some(method) = noted(&request) {
            let noted = asked.noted(method).await;
            noted.map_err(|error| present::failure(error, &asked.asker, None))?;
        }
        if let ClientRequest::SubscriptionsListenRequest(listen) = &request
            && server.view(&context)?.has_resources()
        {
            let wanted = &listen.params.notifications;
            let stream = server.0.subscriptions.prepare(asked, wanted).await;
            context.extensions.insert(Arc::new(stream.map_err(in_new_codes)?));
        }
        let answer = server.handle_request(request, context).await;
        if modern { answer.map(signed) } else { answer }
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

/// What the endpoint does not hear of, or not as the client's own question (S5 4.5).
fn noted(request: &ClientRequest) -> Option<&'static str> {
    match request {
        // The endpoint records these itself, with what came of them.
        ClientRequest::CallToolRequest(_)
        | ClientRequest::ReadResourceRequest(_)
        | ClientRequest::GetPromptRequest(_)
        // Nobody learns anything by it.
        | ClientRequest::PingRequest(_) => None,
        request => named(request.method()),
    }
}

/// Every result of the new era says who answered.
fn signed(mut result: ServerResult) -> ServerResult {
    let meta = match &mut result {
        ServerResult::CompleteResult(result) => &mut result.meta,
        ServerResult::GetPromptResult(result) => &mut result.meta,
        ServerResult::ListPromptsResult(result) => &mut result.meta,
        ServerResult::ListResourcesResult(result) => &mut result.meta,
        ServerResult::ListResourceTemplatesResult(result) => &mut result.meta,
        ServerResult::ReadResourceResult(result) => &mut result.meta,
        ServerResult::ListToolsResult(result) => &mut result.meta,
        ServerResult::CallToolResult(result) => &mut result.meta,
        // rmcp does it itself.
        _ => return result,
    };
    let signature = SIGNATURE.get_or_init(|| {
        let short = Implementation::new("reqlore", env!("CARGO_PKG_VERSION"));
        serde_json::to_value(short).unwrap_or_default()
    });
    meta.get_or_insert_default().insert(SERVER_INFO.to_owned(), signature.clone());
    result
}

/// Where a result says who answered (2026-07-28, basic protocol).
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
static SIGNATURE: OnceLock<Value> = OnceLock::new();

/// As rmcp does behind the handler.
fn in_new_codes(mut error: ErrorData) -> ErrorData {
    if error.code == ErrorCode::RESOURCE_NOT_FOUND {
        error.code = ErrorCode::INVALID_PARAMS;
    }
    error
}
