//! Checks the Host and Origin headers against DNS rebinding and calls from foreign web pages.

use axum::http::header::{HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};

use crate::error_response::ErrorResponse;

const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// The allowed hosts and origins, parsed.
#[derive(Debug)]
pub(crate) struct OriginCheck {
    hosts: Vec<Authority>,
    origins: Vec<Origin>,
}

/// A host and its required port; `None` allows any.
#[derive(Debug)]
struct Authority {
    /// An IPv6 address is in its brackets.
    name: String,
    port: Option<u16>,
}

#[derive(Debug)]
struct Origin {
    scheme: Scheme,
    authority: Authority,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Http,
    Https,
}

impl OriginCheck {
    /// Parses the lists; an invalid entry is an error message for the operator.
    pub(crate) fn new(hosts: &[String], origins: &[String]) -> Result<Self, String> {
        let own_hosts = LOOPBACK.map(str::to_owned);
        let own_origins = LOOPBACK.map(|name| format!("http://{name}:*"));
        let hosts = own_hosts.iter().chain(hosts).map(|entry| {
            let (name, port) = split(entry).ok_or_else(|| {
                format!("hosts: {entry:?} is not a host; write `name` or `name:port`")
            })?;
            Ok(Authority { name: name.to_owned(), port })
        });
        let origins = own_origins.iter().chain(origins).map(|entry| {
            Origin::parse(entry).ok_or_else(|| {
                format!(
                    "origins: {entry:?} is not an origin; write `https://name` or \
                     `https://name:port`"
                )
            })
        });
        Ok(Self {
            hosts: hosts.collect::<Result<_, String>>()?,
            origins: origins.collect::<Result<_, String>>()?,
        })
    }

    /// Refuses a request for another host or from an unknown page.
    pub(crate) fn check(&self, parts: &Parts) -> Result<(), ErrorResponse> {
        let host = one_host(&parts.headers)?;
        if let Some(target) = parts.uri.authority() {
            let target = target.as_str();
            let target = target.rsplit_once('@').map_or(target, |(_, host)| host);
            if split(target).is_none_or(|target| !same(target, host)) {
                let message = "the target and the Host header name different hosts";
                return Err(ErrorResponse::invalid(StatusCode::BAD_REQUEST, message));
            }
        }
        if !self.hosts.iter().any(|allowed| allowed.admits(host)) {
            let message = "Host: not a name of this server; its operator can add it (hosts)";
            return Err(ErrorResponse::invalid(StatusCode::FORBIDDEN, message));
        }
        let mut origins = parts.headers.get_all(ORIGIN).iter();
        let Some(origin) = origins.next() else { return Ok(()) };
        let known = origin.to_str().is_ok_and(|origin| self.knows(origin));
        if known && origins.next().is_none() {
            return Ok(());
        }
        let message =
            "Origin: this page may not call this server; its operator can add it (origins)";
        Err(ErrorResponse::invalid(StatusCode::FORBIDDEN, message))
    }

    fn knows(&self, origin: &str) -> bool {
        let Some((scheme, rest)) = Scheme::of(origin) else { return false };
        let Some((name, port)) = split(rest) else { return false };
        let port = Some(port.unwrap_or(scheme.port()));
        let admits = |known: &&Origin| known.authority.admits((name, port));
        self.origins.iter().filter(|known| known.scheme == scheme).any(|known| admits(&known))
    }
}

impl Authority {
    fn admits(&self, (name, port): (&str, Option<u16>)) -> bool {
        self.name.eq_ignore_ascii_case(name) && (self.port.is_none() || self.port == port)
    }
}

impl Origin {
    fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = Scheme::of(text)?;
        let (name, port) = match rest.strip_suffix(":*") {
            Some(name) => split(name).filter(|(_, port)| port.is_none())?,
            None => split(rest).map(|(name, port)| (name, Some(port.unwrap_or(scheme.port()))))?,
        };
        Some(Self { scheme, authority: Authority { name: name.to_owned(), port } })
    }
}

impl Scheme {
    fn of(origin: &str) -> Option<(Self, &str)> {
        let (scheme, rest) = origin.split_once("://")?;
        [(Self::Http, "http"), (Self::Https, "https")]
            .into_iter()
            .find(|(_, name)| scheme.eq_ignore_ascii_case(name))
            .map(|(scheme, _)| (scheme, rest))
    }

    fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

fn one_host(headers: &HeaderMap) -> Result<(&str, Option<u16>), ErrorResponse> {
    let mut hosts = headers.get_all(HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().ok().and_then(split),
        _ => None,
    };
    let invalid = || {
        let message = "a request must have exactly one Host header, a name with or without a port";
        ErrorResponse::invalid(StatusCode::BAD_REQUEST, message)
    };
    host.ok_or_else(invalid)
}

fn same(one: (&str, Option<u16>), other: (&str, Option<u16>)) -> bool {
    let port = |port: Option<u16>| port.unwrap_or(Scheme::Http.port());
    one.0.eq_ignore_ascii_case(other.0) && port(one.1) == port(other.1)
}

/// Name and port; `None` for an invalid host.
fn split(text: &str) -> Option<(&str, Option<u16>)> {
    let (name, rest) = match text.find(']') {
        Some(end) if text.starts_with('[') => text.split_at(end + 1),
        Some(_) => return None,
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    if name.is_empty() || name == "[]" || !name.bytes().all(fits) {
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
