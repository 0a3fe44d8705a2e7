//! A request that is answered without the application: an HTTP status and a JSON-RPC error.

use std::borrow::Cow;

use axum::body::Body;
use axum::http::header::{CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderName, HeaderValue, Response, StatusCode};
use reqlore_domain::error::ErrorKind;
use reqlore_domain::identity::redact;
use reqlore_mcp::present::code;
use reqlore_mcp::wire;
use rmcp::model::{ErrorCode, ErrorData};
use serde_json::{Value, json};

pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Nobody may do this without a token that counts (rulings 6).
pub(crate) const UNAUTHENTICATED: i32 = -32010;
pub(crate) const RATE_LIMITED: i32 = -32013;
/// The others are those of the application's errors.
pub(crate) const FORBIDDEN: i32 = code(ErrorKind::Forbidden);
pub(crate) const BUSY: i32 = code(ErrorKind::Busy);
pub(crate) const UNAVAILABLE: i32 = code(ErrorKind::Unavailable);
pub(crate) const NOT_FOUND: i32 = code(ErrorKind::NotFound);
pub(crate) const INTERNAL: i32 = code(ErrorKind::Internal);

/// Why a request goes no further, in the client's words.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    code: i32,
    message: Cow<'static, str>,
    /// Goes with it where somebody may look it up in the log.
    correlation_id: Option<std::sync::Arc<str>>,
    header: Option<Box<(HeaderName, HeaderValue)>>,
    /// Of the request, where its body was read.
    id: Option<Box<Value>>,
    /// The rest of the request is not worth reading.
    close: bool,
}

impl Refusal {
    pub(crate) fn new(
        status: StatusCode,
        code: i32,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        let message = match message.into() {
            // Not our own words alone: somebody may have sent a secret in the wrong place.
            Cow::Owned(told) => Cow::Owned(redact(&told).into_owned()),
            ours @ Cow::Borrowed(_) => ours,
        };
        Self { status, code, message, correlation_id: None, header: None, id: None, close: false }
    }

    /// A request that HTTP or JSON-RPC does not allow.
    pub(crate) fn invalid(status: StatusCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(status, ErrorCode::INVALID_REQUEST.0, message)
    }

    /// Too often, for now.
    pub(crate) fn rate_limited(message: &'static str, seconds: u64) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, RATE_LIMITED, message).retry_after(seconds)
    }

    /// Nothing was done, and trying again may work.
    pub(crate) fn busy(message: &'static str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, BUSY, message).retry_after(1)
    }

    pub(crate) fn retry_after(self, seconds: u64) -> Self {
        self.header(RETRY_AFTER, HeaderValue::from(seconds.max(1)))
    }

    pub(crate) fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.header = Some(Box::new((name, value)));
        self
    }

    pub(crate) fn correlated(mut self, id: &std::sync::Arc<str>) -> Self {
        self.correlation_id = Some(id.clone());
        self
    }

    /// Names the request that this answers, as JSON-RPC wants it.
    pub(crate) fn answering(mut self, body: &[u8]) -> Self {
        #[derive(serde::Deserialize)]
        struct Envelope {
            id: Value,
        }
        let envelope = serde_json::from_slice::<Envelope>(body).ok();
        let is_id = |id: &Value| id.is_string() || id.is_i64();
        self.id = envelope.map(|envelope| envelope.id).filter(is_id).map(Box::new);
        self
    }

    pub(crate) fn closing(mut self) -> Self {
        self.close = true;
        self
    }

    pub(crate) fn into_response(self) -> Response<Body> {
        let data = self.correlation_id.map(|id| json!({ "correlation_id": &*id }));
        let id = self.id.map_or(Value::Null, |id| *id);
        let error = ErrorData::new(ErrorCode(self.code), self.message, data);
        let mut response = json(self.status, wire::error_line(&id, &error));
        if let Some((name, value)) = self.header.map(|header| *header) {
            response.headers_mut().insert(name, value);
        }
        if self.close {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

pub(crate) fn json(status: StatusCode, body: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}
