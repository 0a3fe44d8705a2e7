//! What the line and the headers of a request must say, whoever asks.

use axum::http::header::{ALLOW, CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};

use crate::refusal::{JSON, Refusal};

pub(crate) fn check_method(method: &Method) -> Result<(), Refusal> {
    if method == Method::POST {
        return Ok(());
    }
    let refusal = Refusal::invalid(StatusCode::METHOD_NOT_ALLOWED, "Only POST is served here.");
    Err(refusal.header(ALLOW, HeaderValue::from_static("POST")))
}

/// A secret in a URL ends up in logs; so nothing but the path is taken, from anybody.
pub(crate) fn check_target(parts: &Parts) -> Result<(), Refusal> {
    let has_user = parts.uri.authority().is_some_and(|authority| authority.as_str().contains('@'));
    if parts.uri.query().is_none() && !has_user {
        return Ok(());
    }
    let message = "The URL must end with its path: no query and no user. A token belongs into the \
                   Authorization header; one that was sent in a URL should be revoked.";
    Err(Refusal::invalid(StatusCode::BAD_REQUEST, message))
}

pub(crate) fn check_content(headers: &HeaderMap) -> Result<(), Refusal> {
    let unsupported = |message| Refusal::invalid(StatusCode::UNSUPPORTED_MEDIA_TYPE, message);
    let mut codings = headers.get_all(CONTENT_ENCODING).iter();
    if codings.any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return Err(unsupported("Content-Encoding: send the body as it is"));
    }
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    if types.all(|kind| kind == JSON || kind.to_str().is_ok_and(is_json)) {
        return Ok(());
    }
    Err(unsupported("Content-Type: send application/json in UTF-8"))
}

fn is_json(kind: &str) -> bool {
    let mut parts = kind.split(';').map(str::trim);
    let is_json = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("application/json"));
    let mut charsets = parts.filter_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches('"'))
    });
    is_json && charsets.all(|charset| charset.eq_ignore_ascii_case("utf-8"))
}
