//! Responses to requests that the application does not receive: HTTP status and JSON-RPC error.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::Body;
use axum::http::header::{CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderName, HeaderValue, Response, StatusCode};
use reqlore_domain::error::ErrorKind;
use reqlore_domain::identity::{Caller, redact_secrets};
use reqlore_domain::ports::service::UNKNOWN_METHOD;
use reqlore_mcp::convert::error_code;
use reqlore_mcp::failure_log::log_failure;
use reqlore_mcp::{jsonrpc, message_id};
use rmcp::model::{ErrorCode, ErrorData};
use serde_json::{Value, json};

pub(crate) const JSON_CONTENT_TYPE: HeaderValue = HeaderValue::from_static("application/json");
const TEXT_CONTENT_TYPE: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// The request has no valid token.
pub(crate) const UNAUTHENTICATED: i32 = -32010;
pub(crate) const RATE_LIMITED: i32 = -32013;
// Codes of the application's errors.
pub(crate) const FORBIDDEN: i32 = error_code(ErrorKind::Forbidden);
pub(crate) const BUSY: i32 = error_code(ErrorKind::Busy);
pub(crate) const UNAVAILABLE: i32 = error_code(ErrorKind::Unavailable);
pub(crate) const NOT_FOUND: i32 = error_code(ErrorKind::NotFound);
pub(crate) const INTERNAL: i32 = error_code(ErrorKind::Internal);

#[derive(Debug)]
pub(crate) struct ErrorResponse {
    pub(crate) status: StatusCode,
    code: i32,
    pub(crate) message: Cow<'static, str>,
    /// Set if the log has details.
    correlation_id: Option<std::sync::Arc<str>>,
    header: Option<Box<(HeaderName, HeaderValue)>>,
    /// The request's JSON-RPC id, if its body was read.
    jsonrpc_id: Option<Box<Value>>,
    /// The request's method and tool, if its body was read.
    call: Option<Box<(String, Option<String>)>>,
    /// True if the rest of the request is not read.
    closes_connection: bool,
}

impl ErrorResponse {
    pub(crate) fn new(
        status: StatusCode,
        code: i32,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        let message = match message.into() {
            // It may quote the request, which may contain a secret.
            Cow::Owned(quoting) => Cow::Owned(redact_secrets(&quoting).into_owned()),
            constant @ Cow::Borrowed(_) => constant,
        };
        Self {
            status,
            code,
            message,
            correlation_id: None,
            header: None,
            jsonrpc_id: None,
            call: None,
            closes_connection: false,
        }
    }

    /// A request that violates HTTP or JSON-RPC.
    pub(crate) fn invalid_request(
        status: StatusCode,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::new(status, ErrorCode::INVALID_REQUEST.0, message)
    }

    pub(crate) fn rate_limited(message: &'static str, seconds: u64) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, RATE_LIMITED, message).with_retry_after(seconds)
    }

    /// Nothing was changed, and a retry may succeed.
    pub(crate) fn busy(message: &'static str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, BUSY, message).with_retry_after(1)
    }

    pub(crate) fn with_retry_after(self, seconds: u64) -> Self {
        // Clients would read 0 as an immediate retry.
        self.with_header(RETRY_AFTER, HeaderValue::from(seconds.max(1)))
    }

    pub(crate) fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.header = Some(Box::new((name, value)));
        self
    }

    /// Logs a panic or another failure inside the server.
    pub(crate) fn internal_error(request_id: &std::sync::Arc<str>) -> Self {
        tracing::error!(id = &**request_id, "internal error in the HTTP transport");
        let message = "internal error: see its correlation_id in the server's log";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, INTERNAL, message)
            .with_correlation_id(request_id)
    }

    pub(crate) fn with_correlation_id(mut self, id: &std::sync::Arc<str>) -> Self {
        self.correlation_id = Some(id.clone());
        self
    }

    pub(crate) fn with_jsonrpc_id(mut self, id: Value) -> Self {
        self.jsonrpc_id = Some(Box::new(id));
        self
    }

    /// Names the rejected request: its id in the response, its method and tool in the log.
    pub(crate) fn for_message(self, message: &Value) -> Self {
        let mut error = self.with_jsonrpc_id(message_id::request_id(message.get("id")));
        if let Some(method) = message["method"].as_str() {
            let tool = match method {
                "tools/call" => message["params"]["name"].as_str().map(str::to_owned),
                _ => None,
            };
            error.call = Some(Box::new((method.to_owned(), tool)));
        }
        error
    }

    pub(crate) fn closing_connection(mut self) -> Self {
        self.closes_connection = true;
        self
    }

    pub(crate) fn log(&self, request_id: &str, caller: Option<&Caller>) {
        let call = match self.call.as_deref() {
            Some((method, tool)) => (method.as_str(), tool.as_deref()),
            None => (UNKNOWN_METHOD, None),
        };
        log_failure(request_id, caller, call, self.code, &self.message);
    }

    pub(crate) fn into_response(self) -> Response<Body> {
        let data = self.correlation_id.map(|id| json!({ "correlation_id": &*id }));
        // JSON-RPC 2.0, section 5: null if the id could not be determined.
        let id = self.jsonrpc_id.map_or(Value::Null, |id| *id);
        let error = ErrorData::new(ErrorCode(self.code), self.message, data);
        let response = json_response(self.status, jsonrpc::error_line(&id, &error));
        add_headers(response, self.header, self.closes_connection)
    }

    /// The response to a browser, as plain text.
    pub(crate) fn into_text_response(self) -> Response<Body> {
        let mut response = Response::new(Body::from(format!("{}\n", self.message)));
        *response.status_mut() = self.status;
        response.headers_mut().insert(CONTENT_TYPE, TEXT_CONTENT_TYPE);
        add_headers(response, self.header, self.closes_connection)
    }
}

fn add_headers(
    mut response: Response<Body>,
    header: Option<Box<(HeaderName, HeaderValue)>>,
    closes_connection: bool,
) -> Response<Body> {
    if let Some((name, value)) = header.map(|header| *header) {
        response.headers_mut().insert(name, value);
    }
    if closes_connection {
        // hyper closes the connection when it sees this header.
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Counts log lines of one cause; only the first `MAX_LINES` of each minute are written.
#[derive(Debug, Default)]
pub(crate) struct LineLimit<const MAX_LINES: u64 = 100>(AtomicU64);

impl<const MAX_LINES: u64> LineLimit<MAX_LINES> {
    pub(crate) fn allows_line(&self) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed) < MAX_LINES
    }

    /// Starts the next minute. Returns the number of lines that were not written.
    pub(crate) fn take_further(&self) -> Option<u64> {
        self.0.swap(0, Ordering::Relaxed).checked_sub(MAX_LINES).filter(|further| *further > 0)
    }
}

pub(crate) fn json_response(status: StatusCode, body: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, JSON_CONTENT_TYPE);
    response
}
