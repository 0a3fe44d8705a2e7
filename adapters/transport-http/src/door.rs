//! Who may knock: the name by which the server is called, and the web page that calls.
//!
//! A page that a browser shows may send requests to a server on the same machine, and a name of its
//! own may point there (DNS rebinding). The browser tells both, in Origin and Host.

use axum::http::header::{HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};

use crate::refusal::Refusal;

const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// The lists, made ready to compare.
#[derive(Debug)]
pub(crate) struct Door {
    hosts: Vec<Authority>,
    origins: Vec<Origin>,
}

/// A host with the port that it must have; none means any.
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

impl Door {
    /// Makes the lists; an entry that is none is an error for the operator.
    pub(crate) fn new(hosts: &[String], origins: &[String]) -> Result<Self, String> {
        let own_hosts = LOOPBACK.map(str::to_owned);
        let own_origins = LOOPBACK.map(|name| format!("http://{name}:*"));
        let hosts = own_hosts.iter().chain(hosts).map(|entry| {
            let (name, port) = split(entry).ok_or_else(|| {
                format!("hosts: {entry:?} is no host; write `name` or `name:port`")
            })?;
            Ok(Authority { name: name.to_owned(), port })
        });
        let origins = own_origins.iter().chain(origins).map(|entry| {
            Origin::parse(entry).ok_or_else(|| {
                format!(
                    "origins: {entry:?} is no origin; write `https://name` or `https://name:port`"
                )
            })
        });
        Ok(Self {
            hosts: hosts.collect::<Result<_, String>>()?,
            origins: origins.collect::<Result<_, String>>()?,
        })
    }

    /// Refuses what was not meant for this server, or comes from a page that it does not know.
    pub(crate) fn check(&self, parts: &Parts) -> Result<(), Refusal> {
        let host = one_host(&parts.headers)?;
        if let Some(target) = parts.uri.authority() {
            let target = target.as_str();
            let target = target.rsplit_once('@').map_or(target, |(_, host)| host);
            if split(target).is_none_or(|target| !same(target, host)) {
                let message = "the target and the Host header name different hosts";
                return Err(Refusal::invalid(StatusCode::BAD_REQUEST, message));
            }
        }
        if !self.hosts.iter().any(|allowed| allowed.admits(host)) {
            let message = "Host: not a name of this server; its operator can add it (hosts)";
            return Err(Refusal::invalid(StatusCode::FORBIDDEN, message));
        }
        let mut origins = parts.headers.get_all(ORIGIN).iter();
        let Some(origin) = origins.next() else { return Ok(()) };
        let known = origin.to_str().is_ok_and(|origin| self.knows(origin));
        if known && origins.next().is_none() {
            return Ok(());
        }
        let message =
            "Origin: this page may not call this server; its operator can add it (origins)";
        Err(Refusal::invalid(StatusCode::FORBIDDEN, message))
    }

    fn knows(&self, origin: &str) -> bool {
        let Some((scheme, rest)) = Scheme::of(origin) else { return false };
        let Some((name, port)) = split(rest) else { return false };
        let port = Some(port.unwrap_or(scheme.port()));
        let admits = |known: &&Origin| known.authority.admits((name, port));
        self.origins.iter().filter(|known| known.scheme == scheme).any(|known| admits(&known))
    }

    /// The hosts as rmcp's list has them.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = String> + '_ {
        self.hosts.iter().map(|host| match host.port {
            Some(port) => format!("{}:{port}", host.name),
            None => host.name.clone(),
        })
    }

    /// The origins as rmcp's list has them.
    pub(crate) fn origins(&self) -> impl Iterator<Item = String> + '_ {
        self.origins.iter().map(|origin| {
            let scheme = if origin.scheme == Scheme::Http { "http" } else { "https" };
            let name = &origin.authority.name;
            match origin.authority.port {
                Some(port) => format!("{scheme}://{name}:{port}"),
                None => format!("{scheme}://{name}:*"),
            }
        })
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

fn one_host(headers: &HeaderMap) -> Result<(&str, Option<u16>), Refusal> {
    let mut hosts = headers.get_all(HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().ok().and_then(split),
        _ => None,
    };
    let invalid = || {
        let message = "a request must have exactly one Host header, a name with or without a port";
        Refusal::invalid(StatusCode::BAD_REQUEST, message)
    };
    host.ok_or_else(invalid)
}

fn same(one: (&str, Option<u16>), other: (&str, Option<u16>)) -> bool {
    let port = |port: Option<u16>| port.unwrap_or(Scheme::Http.port());
    one.0.eq_ignore_ascii_case(other.0) && port(one.1) == port(other.1)
}

/// Name and port; `None` for what can't be a host.
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
