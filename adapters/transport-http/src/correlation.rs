//! The name of a request, in its answer, in the log and in the audit.

use std::borrow::Cow;
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName, HeaderValue, Response};
use reqlore_domain::identity::redact;
use reqlore_mcp::asker::correlation_id;

pub(crate) const HEADER: HeaderName = HeaderName::from_static("x-request-id");
const MAX: usize = 64;

/// The client's own name for its request, if it is a plain word and no secret; else a new one. It
/// need not be secret, only hardly ever the same.
pub(crate) fn request_id(headers: &HeaderMap) -> Arc<str> {
    let given = headers.get(HEADER).and_then(|value| value.to_str().ok());
    match given.filter(|text| is_word(text) && matches!(redact(text), Cow::Borrowed(_))) {
        Some(text) => text.into(),
        None => correlation_id().into(),
    }
}

fn is_word(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=MAX).contains(&text.len()) && text.bytes().all(fits)
}

/// Tells the client the name of its request.
pub(crate) fn name<B>(response: &mut Response<B>, request_id: &str) {
    if let Ok(value) = HeaderValue::from_str(request_id) {
        response.headers_mut().insert(HEADER, value);
    }
}
