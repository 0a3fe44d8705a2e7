//! The settings of a server over HTTP.
//!
//! A project's own `reqlore.toml` must not select this transport: a cloned repository could open a
//! port when an assistant starts. Nor may it widen a server that an operator started.

use std::net::SocketAddr;
use std::time::Duration;

use reqlore_transport_http::{ForwardedBy, Limits, ProxyTrust, Rate};

use super::{File, Value, Values};
use crate::exit::CommandError;

const LIMITS: &str = "http.limits.";

/// Addresses, trusted names and limits of a server over HTTP.
#[derive(Debug)]
pub(crate) struct Http {
    pub(crate) listen: SocketAddr,
    pub(crate) hosts: Vec<String>,
    pub(crate) origins: Vec<String>,
    pub(crate) behind_proxy: Option<ProxyTrust>,
    pub(crate) limits: Limits,
    /// The limits as `name=value`, for the operator.
    pub(crate) limit_texts: Vec<String>,
}

/// Settings of access, logs and audit, which a project's own file must not set over HTTP. A name
/// that ends with a dot is the beginning of several.
const OPERATOR_KEYS: [&str; 6] = ["root", "http.", "audit", "audit_keep_days", "log", "log_format"];

/// Checks all settings of HTTP for every transport; `None` is standard input and output.
pub(super) fn read(values: &Values, file: &File) -> Result<Option<Http>, CommandError> {
    let owned = |key| values.list(key).into_iter().map(str::to_owned).collect();
    let limits = limits(values)?;
    let http = Http {
        listen: values.parse("http.listen", "an address and a port, like 127.0.0.1:8080")?,
        hosts: owned("http.hosts"),
        origins: owned("http.origins"),
        behind_proxy: behind_proxy(values)?,
        limit_texts: limit_texts(values, &limits),
        limits,
    };
    if !values.choice("transport", &[("stdio", false), ("http", true)])? {
        return Ok(None);
    }
    let transport = values.value("transport")?;
    if transport.is_of_project(file.named) {
        return Err(transport.not_of_project(""));
    }
    check_operator_keys(values, file)?;
    Ok(Some(http))
}

/// Rejects settings of the operator in a project's own file.
fn check_operator_keys(values: &Values, file: &File) -> Result<(), CommandError> {
    if file.named {
        return Ok(());
    }
    for value in values.0.iter().filter(|value| value.is_of_project(file.named)) {
        let key = value.setting.key;
        if OPERATOR_KEYS.iter().any(|of| key == *of || of.ends_with('.') && key.starts_with(of)) {
            return Err(value.not_of_project(" over http"));
        }
    }
    if file.has_projects() {
        return Err(CommandError::usage(format!(
            "projects (file {}) may not be set by a project's own file over http; name the file \
             with --config",
            file.path.display()
        )));
    }
    Ok(())
}

fn limits(values: &Values) -> Result<Limits, CommandError> {
    let number = |name: &str| values.number(&format!("{LIMITS}{name}"));
    let count = |name: &str| number(name).map(|number| number as usize);
    let time = |name: &str| number(name).map(|number| Duration::from_secs(number.into()));
    let body = count("body_bytes")?;
    let failed_logins = number("failed_logins_per_minute")?;
    Ok(Limits {
        connections: count("connections")?,
        connections_per_address: count("connections_per_address")?,
        header_time: time("header_seconds")?,
        header_bytes: count("header_bytes")?,
        header_fields: count("header_fields")?,
        idle: time("idle_seconds")?,
        body,
        body_time: time("body_seconds")?,
        // There is room for at least one body.
        bodies: count("bodies_bytes")?.max(body),
        unread: time("unread_seconds")?,
        request_time: time("request_seconds")?,
        drain: time("drain_seconds")?,
        in_flight: count("in_flight")?,
        in_flight_per_token: count("in_flight_per_token")?,
        queue: count("queue")?,
        listens_per_token: count("listens_per_token")?,
        requests: rate(number("requests_per_second")?, 1, number("requests_burst")?),
        failed_logins: rate(failed_logins, 60, failed_logins),
        look_ups: rate(number("look_ups_per_second")?, 1, number("look_ups_burst")?),
    })
}

/// `None`, which limits nothing, for a count of 0.
fn rate(count: u32, seconds: u64, burst: u32) -> Option<Rate> {
    let every = Duration::from_secs(seconds).checked_div(count)?;
    Some(Rate { every, burst })
}

fn limit_texts(values: &Values, limits: &Limits) -> Vec<String> {
    let text = |value: &Value| {
        let name = value.setting.key.strip_prefix(LIMITS)?;
        Some(match name {
            "bodies_bytes" => format!("{name}={}", limits.bodies),
            _ => format!("{name}={}", value.text),
        })
    };
    values.0.iter().filter_map(text).collect()
}

/// `true` trusts proxies on this machine; a list names the trusted ones.
fn behind_proxy(values: &Values) -> Result<Option<ProxyTrust>, CommandError> {
    let headers =
        [("x-forwarded-for", ForwardedBy::XForwardedFor), ("forwarded", ForwardedBy::Forwarded)];
    let header = values.choice("http.forwarded_by", &headers)?;
    let value = values.value("http.behind_proxy")?;
    match value.text_or_default() {
        "false" => return Ok(None),
        "true" => return Ok(Some(ProxyTrust { header, ..ProxyTrust::default() })),
        _ => {}
    }
    let proxies: Result<Vec<_>, String> =
        values.list("http.behind_proxy").into_iter().map(str::parse).collect();
    match proxies {
        Ok(proxies) => Ok(Some(ProxyTrust { proxies, header })),
        Err(error) => Err(value.must_be(&format!("true, false or a list of addresses: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings;

    #[test]
    fn limits_by_default_are_those_of_the_transport() {
        let value = |setting: settings::Setting| Value {
            setting,
            text: setting.default.to_owned(),
            source: String::new(),
        };
        let values = Values(settings::all().map(value).collect());
        let limits = limits(&values).unwrap();
        assert_eq!(format!("{limits:?}"), format!("{:?}", Limits::default()));
        let names = settings::all().filter(|setting| setting.key.starts_with(LIMITS)).count();
        assert_eq!(limit_texts(&values, &limits).len(), names);
    }

    #[test]
    fn rate_of_zero_limits_nothing() {
        assert_eq!(rate(0, 1, 5), None);
        let every = Duration::from_secs(12);
        assert_eq!(rate(5, 60, 5), Some(Rate { every, burst: 5 }));
    }
}
