//! Checks the Host and Origin headers against DNS rebinding and calls from foreign web pages.

use axum::http::header::{HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};

use crate::error_response::ErrorResponse;

const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];
/// The schemes of origins and their default ports.
const SCHEMES: [(&str, u16); 2] = [("http", HTTP_PORT), ("https", 443)];
const HTTP_PORT: u16 = 80;

#[derive(Debug)]
pub(crate) struct OriginCheck {
    hosts: Vec<AllowedHost>,
    /// Each with the default port of its scheme, which stands for the scheme.
    origins: Vec<(u16, AllowedHost)>,
}

/// A host and its required port; `None` allows any.
#[derive(Debug)]
struct AllowedHost {
    /// An IPv6 address is in its brackets.
    name: String,
    port: Option<u16>,
}

impl OriginCheck {
    /// Parses the lists; an invalid entry is an error message for the operator.
    pub(crate) fn new(hosts: &[String], origins: &[String]) -> Result<Self, String> {
        let mut allowed = Self { hosts: Vec::new(), origins: Vec::new() };
        for entry in LOOPBACK.into_iter().chain(hosts.iter().map(String::as_str)) {
            let (name, port) = split_port(entry).ok_or_else(|| {
                format!("hosts: {entry:?} is not a host; write `name` or `name:port`")
            })?;
            allowed.hosts.push(AllowedHost { name: name.to_owned(), port });
        }
        let own_origins = LOOPBACK.map(|name| format!("http://{name}:*"));
        for entry in own_origins.iter().chain(origins) {
            allowed.origins.push(parse_origin(entry).ok_or_else(|| {
                format!(
                    "origins: {entry:?} is not an origin; write `https://name` or \
                     `https://name:port`"
                )
            })?);
        }
        Ok(allowed)
    }

    /// Refuses a request for another host or from an unknown page.
    pub(crate) fn check_request(&self, parts: &Parts) -> Result<(), ErrorResponse> {
        let host = single_host(&parts.headers)?;
        if let Some(target) = parts.uri.authority() {
            let target = target.as_str();
            let target = target.rsplit_once('@').map_or(target, |(_, host)| host);
            if split_port(target).is_none_or(|target| !is_same_host(target, host)) {
                let message = "the target and the Host header name different hosts";
                return Err(ErrorResponse::invalid_request(StatusCode::BAD_REQUEST, message));
            }
        }
        if !self.hosts.iter().any(|allowed| allowed.allows_host(host)) {
            let message = "Host: not a name of this server; its operator can add it (hosts)";
            return Err(ErrorResponse::invalid_request(StatusCode::FORBIDDEN, message));
        }
        let mut origins = parts.headers.get_all(ORIGIN).iter();
        let Some(origin) = origins.next() else { return Ok(()) };
        let is_known = origin.to_str().is_ok_and(|origin| self.is_allowed_origin(origin));
        if is_known && origins.next().is_none() {
            return Ok(());
        }
        let message =
            "Origin: this page may not call this server; its operator can add it (origins)";
        Err(ErrorResponse::invalid_request(StatusCode::FORBIDDEN, message))
    }

    fn is_allowed_origin(&self, origin: &str) -> bool {
        let Some((scheme, rest)) = split_scheme(origin) else { return false };
        let Some((name, port)) = split_port(rest) else { return false };
        let origin = (name, port.or(Some(scheme)));
        self.origins
            .iter()
            .any(|(allowed, authority)| *allowed == scheme && authority.allows_host(origin))
    }
}

impl AllowedHost {
    fn allows_host(&self, (name, port): (&str, Option<u16>)) -> bool {
        self.name.eq_ignore_ascii_case(name) && (self.port.is_none() || self.port == port)
    }
}

fn parse_origin(text: &str) -> Option<(u16, AllowedHost)> {
    let (scheme, rest) = split_scheme(text)?;
    let (name, port) = match rest.strip_suffix(":*") {
        Some(name) => split_port(name).filter(|(_, port)| port.is_none())?,
        None => split_port(rest).map(|(name, port)| (name, port.or(Some(scheme))))?,
    };
    Some((scheme, AllowedHost { name: name.to_owned(), port }))
}

/// The default port of an origin's scheme, and the rest.
fn split_scheme(origin: &str) -> Option<(u16, &str)> {
    let (scheme, rest) = origin.split_once("://")?;
    let known = SCHEMES.into_iter().find(|(name, _)| scheme.eq_ignore_ascii_case(name));
    known.map(|(_, port)| (port, rest))
}

fn single_host(headers: &HeaderMap) -> Result<(&str, Option<u16>), ErrorResponse> {
    let mut hosts = headers.get_all(HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().ok().and_then(split_port),
        _ => None,
    };
    host.ok_or_else(|| {
        let message = "a request must have exactly one Host header, a name with or without a port";
        ErrorResponse::invalid_request(StatusCode::BAD_REQUEST, message)
    })
}

fn is_same_host(one: (&str, Option<u16>), other: (&str, Option<u16>)) -> bool {
    let port = |port: Option<u16>| port.unwrap_or(HTTP_PORT);
    one.0.eq_ignore_ascii_case(other.0) && port(one.1) == port(other.1)
}

/// Name and port; `None` for an invalid host.
fn split_port(text: &str) -> Option<(&str, Option<u16>)> {
    let (name, rest) = match text.find(']') {
        Some(end) if text.starts_with('[') => text.split_at(end + 1),
        Some(_) => return None,
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    if name.is_empty() || name == "[]" || !name.bytes().all(is_name_byte) {
        return None;
    }
    match rest.strip_prefix(':') {
        None => rest.is_empty().then_some((name, None)),
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some((name, Some(port.parse().ok()?)))
        }
        Some(_) => None,
    }
}
