//! The protocol behind the transport: rmcp, and a direct path for tool calls.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{Response, StatusCode};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use reqlore_domain::ports::service::ApplicationService;
use reqlore_mcp::jsonrpc::ToolCallMessage;
use reqlore_mcp::request_context::RequestContext;
use reqlore_mcp::server::McpServer;
use rmcp::ServerHandler;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;

use crate::config::{HttpConfig, HttpLimits};
use crate::error_response::JSON_CONTENT_TYPE;

pub(crate) struct ProtocolHandler {
    rmcp: RmcpService,
    /// Handles tool calls without rmcp; `None` for a handler of the conformance tests.
    server: Option<McpServer>,
    /// Ends all streams and calls.
    pub(crate) cancelled: CancellationToken,
}

/// rmcp's service with any handler.
pub(crate) type RmcpService =
    Box<dyn Fn(Request<Full<Bytes>>) -> BoxFuture<'static, ProtocolResponse> + Send + Sync>;

pub(crate) type ProtocolResponse = Response<BoxBody<Bytes, Infallible>>;

impl ProtocolHandler {
    pub(crate) fn new(service: Arc<dyn ApplicationService>, config: &HttpConfig) -> Self {
        let server = McpServer::for_requests(service).with_answers(config.answers);
        Self { server: Some(server.clone()), ..Self::with_handler(server, &config.limits) }
    }

    pub(crate) fn with_handler(handler: impl ServerHandler + Clone, limits: &HttpLimits) -> Self {
        let cancelled = CancellationToken::new();
        // `OriginCheck` is stricter than rmcp's lists.
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .with_max_request_body_bytes(limits.body_bytes)
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_cancellation_token(cancelled.clone());
        let sessions = Arc::new(NeverSessionManager::default());
        let service = StreamableHttpService::new(move || Ok(handler.clone()), sessions, config);
        let service = Arc::new(service);
        let rmcp = Box::new(move |request| {
            let service = Arc::clone(&service);
            async move { service.handle(request).await }.boxed()
        });
        Self { rmcp, server: None, cancelled }
    }

    /// Sends each subscription its last response.
    pub(crate) fn end_subscriptions(&self) {
        if let Some(server) = &self.server {
            server.end_subscriptions();
        }
    }

    /// Handles a request. A `call` bypasses rmcp; `is_listen` prepares a stream for rmcp.
    pub(crate) async fn handle_request(
        &self,
        mut parts: Parts,
        body: Bytes,
        call: Option<ToolCallMessage>,
        is_listen: bool,
        context: RequestContext,
    ) -> ProtocolResponse {
        let handling = async {
            let server = self.server.as_ref().filter(|_| is_listen || call.is_some())?;
            let Some(call) = call else {
                let (context, extensions) = (context.clone(), &mut parts.extensions);
                return server.prepare_listen(&body, context, extensions).await.err();
            };
            Some(server.call_directly(call, context.clone()).await)
        };
        let mut response = Response::new(BoxBody::default());
        match self.cancelled.run_until_cancelled(handling).await {
            Some(None) => {
                parts.extensions.insert(context);
                return (self.rmcp)(Request::from_parts(parts, Full::new(body))).await;
            }
            // The status stays 200 here; `finish_response` sets the one that the call requests.
            Some(Some(body)) => {
                *response.body_mut() = Full::from(body).boxed();
                response.headers_mut().insert(CONTENT_TYPE, JSON_CONTENT_TYPE);
            }
            // Cancelled by the shutdown: `finish_response` turns it into a 503.
            None => *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR,
        }
        response
    }
}
