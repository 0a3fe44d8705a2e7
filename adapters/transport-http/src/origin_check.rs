//! Checks the request line, and the Host and Origin headers to prevent DNS rebinding and calls from
//! foreign web pages.

use axum::http::header::{ALLOW, HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};

use crate::error_response::ErrorResponse;

const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];
/// Schemes of origins and their default ports.
const SCHEMES: [(&str, u16); 2] = [("http", HTTP_PORT), ("https", 443)];
const HTTP_PORT: u16 = 80;

#[derive(Debug)]
pub(crate) struct OriginCheck {
    hosts: Vec<AllowedHost>,
    /// Each with the default port of its scheme, which identifies the scheme.
    origins: Vec<(u16, AllowedHost)>,
}

/// A host name and its required port; `None` allows any port.
#[derive(Debug)]
struct AllowedHost {
    /// IPv6 addresses are in brackets.
    name: String,
    port: Option<u16>,
}

impl OriginCheck {
    /// Parses the configured lists. The error is a message for the operator.
    pub(crate) fn new(hosts: &[String], origins: &[String]) -> Result<Self, String> {
        let mut allowed = Self { hosts: Vec::new(), origins: Vec::new() };
        for name in LOOPBACK {
            allowed.hosts.push(AllowedHost { name: name.to_owned(), port: None });
            let host = AllowedHost { name: name.to_owned(), port: None };
            allowed.origins.push((HTTP_PORT, host));
        }
        for entry in hosts {
            let Some((name, port)) = split_port(entry) else {
                return Err(format!("hosts: {entry:?} is not a host; write `name` or `name:port`"));
            };
            allowed.hosts.push(AllowedHost { name: name.to_owned(), port });
        }
        for entry in origins {
            let Some(origin) = parse_origin(entry) else {
                return Err(format!(
                    "origins: {entry:?} is not an origin; write `https://name` or \
                     `https://name:port`"
                ));
            };
            allowed.origins.push(origin);
        }
        Ok(allowed)
    }

    /// Rejects a request for another host or from an unknown page.
    pub(crate) fn check_request(&self, parts: &Parts) -> Result<(), ErrorResponse> {
        self.check_host(parts)?;
        Self::check_origin(parts, |origin| self.is_allowed_origin(origin, 0))
    }

    /// Rejects a request for a page from another origin than that page's. Another server on this
    /// machine is another origin. A proxy may replace Host, so configured origins are allowed.
    pub(crate) fn check_page_request(&self, parts: &Parts) -> Result<(), ErrorResponse> {
        let (name, port) = self.check_host(parts)?;
        Self::check_origin(parts, |origin| {
            let own = split_scheme(origin).and_then(|(scheme, rest)| {
                let (origin_name, origin_port) = split_port(rest)?;
                let is_port = origin_port.unwrap_or(scheme) == port.unwrap_or(scheme);
                Some(is_port && origin_name.eq_ignore_ascii_case(name))
            });
            own.unwrap_or(false) || self.is_allowed_origin(origin, LOOPBACK.len())
        })
    }

    fn check_host<'a>(&self, parts: &'a Parts) -> Result<(&'a str, Option<u16>), ErrorResponse> {
        let host = single_host(&parts.headers)?;
        // RFC 9112, section 3.2.2: an absolute target overrides Host, so they must agree.
        if let Some(target) = parts.uri.authority() {
            let target = target.as_str();
            // The user part is rejected later, by `check_target`.
            let target = target.rsplit_once('@').map_or(target, |(_, host)| host);
            if split_port(target).is_none_or(|target| !is_same_host(target, host)) {
                let message = "Host: differs from the host in the request target";
                return Err(ErrorResponse::invalid_request(StatusCode::BAD_REQUEST, message));
            }
        }
        if !self.hosts.iter().any(|allowed| allowed.allows_host(host)) {
            let message = "Host: not a name of this server; its operator can add it to `hosts`";
            return Err(ErrorResponse::invalid_request(StatusCode::FORBIDDEN, message));
        }
        Ok(host)
    }

    fn check_origin(parts: &Parts, is_allowed: impl Fn(&str) -> bool) -> Result<(), ErrorResponse> {
        let mut origins = parts.headers.get_all(ORIGIN).iter();
        // Only browsers send Origin, and a foreign page cannot omit it from a POST.
        let Some(origin) = origins.next() else { return Ok(()) };
        let is_allowed = origin.to_str().is_ok_and(is_allowed);
        // A second Origin header is never valid.
        if is_allowed && origins.next().is_none() {
            return Ok(());
        }
        let message =
            "Origin: this page may not call the server; its operator can add it to `origins`";
        Err(ErrorResponse::invalid_request(StatusCode::FORBIDDEN, message))
    }

    fn is_allowed_origin(&self, origin: &str, skipped: usize) -> bool {
        let Some((scheme, rest)) = split_scheme(origin) else { return false };
        let Some((name, port)) = split_port(rest) else { return false };
        // Without a port, an origin has the default port of its scheme.
        let origin = (name, port.or(Some(scheme)));
        self.origins
            .iter()
            .skip(skipped)
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

/// Returns the default port of an origin's scheme, and the rest of the origin.
fn split_scheme(origin: &str) -> Option<(u16, &str)> {
    let (scheme, rest) = origin.split_once("://")?;
    for (name, port) in SCHEMES {
        if scheme.eq_ignore_ascii_case(name) {
            return Some((port, rest));
        }
    }
    None
}

fn single_host(headers: &HeaderMap) -> Result<(&str, Option<u16>), ErrorResponse> {
    let mut hosts = headers.get_all(HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        // RFC 9112, section 3.2: a missing or a second Host header is a 400.
        (Some(host), None) => host.to_str().ok().and_then(split_port),
        _ => None,
    };
    host.ok_or_else(|| {
        let message = "Host: must appear exactly once, as a name with or without a port";
        ErrorResponse::invalid_request(StatusCode::BAD_REQUEST, message)
    })
}

fn is_same_host(
    (one_name, one_port): (&str, Option<u16>),
    (other_name, other_port): (&str, Option<u16>),
) -> bool {
    // TLS ends at the proxy, so the default port here is that of HTTP.
    one_name.eq_ignore_ascii_case(other_name)
        && one_port.unwrap_or(HTTP_PORT) == other_port.unwrap_or(HTTP_PORT)
}

/// Returns the name and the port of a host; `None` if it is invalid.
fn split_port(text: &str) -> Option<(&str, Option<u16>)> {
    // An IPv6 address has colons of its own, inside brackets.
    let (name, rest) = match text.find(']') {
        Some(end) if text.starts_with('[') => text.split_at(end + 1),
        Some(_) => return None,
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
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

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte)
}

/// Rejects a query and a user: a secret in a URL ends up in logs.
pub(crate) fn check_target(parts: &Parts) -> Result<(), ErrorResponse> {
    if parts.uri.query().is_none() && !has_user(parts) {
        return Ok(());
    }
    let message = "URL: must have no query and no user; send tokens in the Authorization header, \
                   and revoke one that was in a URL";
    Err(ErrorResponse::invalid_request(StatusCode::BAD_REQUEST, message))
}

/// True if the request target names a user. The usual origin form has no authority.
pub(crate) fn has_user(parts: &Parts) -> bool {
    parts.uri.authority().is_some_and(|authority| authority.as_str().contains('@'))
}

pub(crate) fn check_method(parts: &Parts) -> Result<(), ErrorResponse> {
    if parts.method == Method::POST {
        return Ok(());
    }
    let message = "method: only POST is served at this path";
    // RFC 9110, section 15.5.6, requires Allow in a 405.
    let error = ErrorResponse::invalid_request(StatusCode::METHOD_NOT_ALLOWED, message);
    Err(error.with_header(ALLOW, HeaderValue::from_static("POST")))
}
