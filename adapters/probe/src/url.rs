//! A server that runs, and is asked at its address.
//!
//! The trap: an address may lead anywhere. So no redirect is followed, the token is part of no
//! text, and no proxy learns what is said to this machine itself.

use std::net::IpAddr;
use std::time::Duration;

use serde_json::Value;
use ureq::http::Uri;
use ureq::{Agent, Proxy};

use crate::{Hello, MOST, NoAnswer, introduction, request, shortened};

/// Asks the server at an address who it is, within the time limit.
pub fn hello(url: &str, token: Option<&str>, timeout: Duration) -> Result<Hello, NoAnswer> {
    let proxy = if is_loopback(url) { None } else { Proxy::try_from_env() };
    let agent: Agent = Agent::config_builder()
        .timeout_global(Some(timeout))
        .max_redirects(0)
        .http_status_as_error(false)
        .proxy(proxy)
        .build()
        .into();
    let mut post = agent
        .post(url)
        .header("Content-Type", "application/json")
        .header("Accept", "application/json, text/event-stream");
    if let Some(token) = token {
        post = post.header("Authorization", format!("Bearer {token}"));
    }
    let body = request(1, "initialize", &introduction()).to_string();
    let mut response = post.send(body).map_err(|error| unreached(&error, timeout))?;
    let status = response.status().as_u16();
    if !response.status().is_success() {
        return Err(refused(status, token.is_some()));
    }
    let body = response.body_mut().with_config().limit(MOST as u64).read_to_string();
    Hello::of(&message(&body.map_err(|error| unreached(&error, timeout))?))
}

/// Does the address lead to this machine, whatever a name server says?
pub fn is_loopback(url: &str) -> bool {
    host(url).is_some_and(|host| {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    })
}

/// Is what is said to it hidden from those between?
pub fn is_encrypted(url: &str) -> bool {
    url.parse::<Uri>().is_ok_and(|uri| uri.scheme_str() == Some("https"))
}

fn host(url: &str) -> Option<String> {
    let uri: Uri = url.parse().ok()?;
    let host = uri.host()?.to_owned();
    // Names are what a resolver makes of them, but for this one (RFC 6761).
    Some(if host.eq_ignore_ascii_case("localhost") { "127.0.0.1".to_owned() } else { host })
}

/// The message of a body, which may be a stream of events.
fn message(body: &str) -> Value {
    let read = |text: &str| serde_json::from_str::<Value>(text).ok();
    let events = || body.lines().filter_map(|line| read(line.strip_prefix("data:")?));
    read(body).or_else(|| events().find(|message| message["id"] == 1)).unwrap_or_default()
}

fn refused(status: u16, has_token: bool) -> NoAnswer {
    let (what, next) = match status {
        401 if has_token => (
            "the token does not count",
            "it may be revoked, expired or another server's; `reqlore token list` on the server \
             shows those that count, `reqlore token create` makes one",
        ),
        401 => ("it wants a token", "give the client one that `reqlore token create` made"),
        403 => (
            "it may not be called so",
            "the server takes the names and origins of its settings http.hosts and http.origins; \
             call it by one of them",
        ),
        404 => ("there is no MCP server at this path", "Reqlore's address ends with /api/v1/mcp"),
        300..=399 => (
            "it sends callers elsewhere, which was not followed",
            "put the address into the configuration that it leads to",
        ),
        429 => ("it is asked too often", "wait a minute and try again"),
        500.. => ("it failed", "look into the server's log, or that of the proxy before it"),
        _ => ("it refused", "look whether an MCP server is at this address"),
    };
    NoAnswer::new(format!("answered with status {status}: {what}"), next)
}

fn unreached(error: &ureq::Error, timeout: Duration) -> NoAnswer {
    use std::io::ErrorKind::ConnectionRefused;
    match error {
        ureq::Error::Io(cause) if cause.kind() == ConnectionRefused => NoAnswer::new(
            "nobody listens there (connection refused)",
            "start the server with `reqlore --transport http`, or mend the port",
        ),
        ureq::Error::ConnectionFailed => {
            NoAnswer::new("can't be connected to", "start the server, or mend the port")
        }
        ureq::Error::HostNotFound => {
            NoAnswer::new("no such host is known", "mend the name, or look at the network")
        }
        ureq::Error::Timeout(_) => NoAnswer::new(
            format!("did not answer within {timeout:?}"),
            "look whether the server is well, and whether a firewall is between",
        ),
        ureq::Error::Tls(_) | ureq::Error::Rustls(_) => tls(&error.to_string()),
        ureq::Error::Io(cause)
            if cause.get_ref().is_some_and(|c| c.to_string().contains("cert")) =>
        {
            tls(&cause.to_string())
        }
        ureq::Error::BodyExceedsLimit(_) => {
            NoAnswer::new("answered too much", "look whether an MCP server is at this address")
        }
        ureq::Error::BadUri(_) | ureq::Error::Http(_) => {
            NoAnswer::new("is no address", "write it as https://HOST/api/v1/mcp")
        }
        other => NoAnswer::new(
            format!("can't be asked: {}", shortened(&other.to_string())),
            "look whether the server is there, and whether it speaks http or https",
        ),
    }
}

fn tls(why: &str) -> NoAnswer {
    NoAnswer::new(
        format!("the encrypted connection failed: {}", shortened(why)),
        "look whether the server has a certificate for this name that a known authority signed, \
         and whether it speaks https at all",
    )
}
