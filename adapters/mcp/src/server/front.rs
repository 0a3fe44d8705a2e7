//! What rmcp runs on a connection: the server, and before it what rmcp's handler has no place for.
//!
//! rmcp acknowledges a subscription before its handler hears of it. What changes in between would
//! be lost, and a bad URI could not be refused; so here everything is looked at first.

use std::borrow::Cow;
use std::sync::Arc;

use rmcp::model::{
    ClientNotification, ClientRequest, ErrorCode, ErrorData, ProtocolVersion, ServerConfig,
    ServerResult,
};
use rmcp::service::{NotificationContext, RequestContext, Service};
use rmcp::{RoleServer, ServerHandler};

use super::Server;
use super::methods::{is_modern, unknown};

/// A [`Server`] on one connection.
#[derive(Debug, Clone)]
pub struct Front(pub(super) Server);

impl Service<RoleServer> for Front {
    async fn handle_request(
        &self,
        request: ClientRequest,
        mut context: RequestContext<RoleServer>,
    ) -> Result<ServerResult, ErrorData> {
        let (server, modern) = (&self.0, is_modern(&context));
        let refused = |method| Err(unknown(method, server.is_connected(), modern));
        match &request {
            ClientRequest::SubscribeRequest(_) if modern => return refused("resources/subscribe"),
            ClientRequest::UnsubscribeRequest(_) if modern => {
                return refused("resources/unsubscribe");
            }
            ClientRequest::SubscriptionsListenRequest(_) if !modern => {
                return refused("subscriptions/listen");
            }
            _ => {}
        }
        if let ClientRequest::SubscriptionsListenRequest(listen) = &request
            && server.view(&context)?.has_resources()
        {
            let (asked, wanted) = (server.asked(&context)?, &listen.params.notifications);
            let stream = server.0.subscriptions.prepare(asked, wanted).await;
            context.extensions.insert(Arc::new(stream.map_err(in_new_codes)?));
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

/// As rmcp does behind the handler.
fn in_new_codes(mut error: ErrorData) -> ErrorData {
    if error.code == ErrorCode::RESOURCE_NOT_FOUND {
        error.code = ErrorCode::INVALID_PARAMS;
    }
    error
}
