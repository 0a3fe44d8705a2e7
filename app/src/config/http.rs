//! The settings of a server over HTTP.

use std::net::SocketAddr;
use std::time::Duration;

use reqlore_transport_http::{ForwardedBy, HttpLimits, ProxyTrust, RateLimit};

use crate::config::values::SettingValues;
use crate::exit::{CommandError, Result};

const LIMITS: &str = "http.limits.";
/// The transports, and whether they are HTTP.
pub(super) const TRANSPORTS: &[(&str, bool)] = &[("stdio", false), ("http", true)];

/// Addresses, trusted names and limits of a server over HTTP.
#[derive(Debug)]
pub(crate) struct HttpSettings {
    pub(crate) listen: SocketAddr,
    pub(crate) hosts: Vec<String>,
    pub(crate) origins: Vec<String>,
    pub(crate) behind_proxy: Option<ProxyTrust>,
    /// True if people may use pages.
    pub(crate) has_pages: bool,
    /// The URL path of the pages at the proxy; begins and ends with `/`.
    pub(crate) base_path: String,
    pub(crate) limits: HttpLimits,
    /// The limits as `name=value`, for the operator.
    pub(crate) limit_texts: Vec<String>,
}

/// Validates the HTTP settings for every transport; `None` for standard input and output.
pub(super) fn read_http(values: &SettingValues) -> Result<Option<HttpSettings>> {
    let limits = read_limits(values)?;
    let http = HttpSettings {
        listen: values.parse_text("http.listen", "an address and a port, like 127.0.0.1:8080")?,
        hosts: owned_list(values, "http.hosts"),
        origins: owned_list(values, "http.origins"),
        behind_proxy: behind_proxy(values)?,
        base_path: base_path(values)?,
        has_pages: values.parse_choice("http.web", &[("true", true), ("false", false)])?,
        limit_texts: limit_texts(values, &limits),
        limits,
    };
    let is_http = values.parse_choice("transport", TRANSPORTS)?;
    Ok(is_http.then_some(http))
}

/// Returns the path with a `/` at both ends.
fn base_path(values: &SettingValues) -> Result<String> {
    let value = values.require_value("http.base_path")?;
    let path = value.text_or_default().trim_matches('/');
    let is_plain = |part: &str| {
        part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
            && !part.trim_matches('.').is_empty()
    };
    match path {
        "" => Ok("/".to_owned()),
        path if value.text.starts_with('/') && path.split('/').all(is_plain) => {
            Ok(format!("/{path}/"))
        }
        _ => Err(value.invalid_value("a path of letters, digits and -_., like /reqlore")),
    }
}

fn owned_list(values: &SettingValues, key: &str) -> Vec<String> {
    values.list_items(key).into_iter().map(str::to_owned).collect()
}

fn read_limits(values: &SettingValues) -> Result<HttpLimits> {
    let number = |name: &str| values.parse_number(&format!("{LIMITS}{name}"));
    let count = |name: &str| Ok::<_, CommandError>(number(name)? as usize);
    let time = |name: &str| Ok::<_, CommandError>(Duration::from_secs(number(name)?.into()));
    let body = count("body_bytes")?;
    let failed_logins = number("failed_logins_per_minute")?;
    Ok(HttpLimits {
        connections: count("connections")?,
        connections_per_address: count("connections_per_address")?,
        header_timeout: time("header_seconds")?,
        header_bytes: count("header_bytes")?,
        header_fields: count("header_fields")?,
        idle_timeout: time("idle_seconds")?,
        body_bytes: body,
        body_timeout: time("body_seconds")?,
        // At least one body must fit.
        total_body_bytes: count("bodies_bytes")?.max(body),
        unread_timeout: time("unread_seconds")?,
        request_timeout: time("request_seconds")?,
        drain_timeout: time("drain_seconds")?,
        in_flight: count("in_flight")?,
        in_flight_per_token: count("in_flight_per_token")?,
        queue: count("queue")?,
        subscriptions_per_token: count("listens_per_token")?,
        request_rate: rate_limit(number("requests_per_second")?, 1, number("requests_burst")?),
        failed_login_rate: rate_limit(failed_logins, 60, failed_logins),
        look_up_rate: rate_limit(number("look_ups_per_second")?, 1, number("look_ups_burst")?),
    })
}

/// `None`, which limits nothing, for a count of 0.
fn rate_limit(count: u32, seconds: u64, burst: u32) -> Option<RateLimit> {
    let every = Duration::from_secs(seconds).checked_div(count)?;
    Some(RateLimit { every, burst })
}

fn limit_texts(values: &SettingValues, limits: &HttpLimits) -> Vec<String> {
    let mut texts = Vec::new();
    for value in &values.0 {
        match value.setting.key.strip_prefix(LIMITS) {
            Some("bodies_bytes") => texts.push(format!("bodies_bytes={}", limits.total_body_bytes)),
            Some(name) => texts.push(format!("{name}={}", value.text)),
            None => {}
        }
    }
    texts
}

/// `true` trusts proxies on this machine; a list names the trusted ones.
fn behind_proxy(values: &SettingValues) -> Result<Option<ProxyTrust>> {
    let headers =
        [("x-forwarded-for", ForwardedBy::XForwardedFor), ("forwarded", ForwardedBy::Forwarded)];
    let header = values.parse_choice("http.forwarded_by", &headers)?;
    let value = values.require_value("http.behind_proxy")?;
    match value.text_or_default() {
        "false" => return Ok(None),
        "true" => return Ok(Some(ProxyTrust { header, ..ProxyTrust::default() })),
        _ => {}
    }
    let proxies: Result<Vec<_>, String> =
        values.list_items("http.behind_proxy").into_iter().map(str::parse).collect();
    match proxies {
        Ok(proxies) => Ok(Some(ProxyTrust { proxies, header })),
        Err(error) => {
            Err(value.invalid_value(&format!("true, false or a list of addresses: {error}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::values::SettingValue;
    use crate::settings;

    #[test]
    fn limits_default_to_those_of_the_transport() {
        let value = |setting: settings::Setting| SettingValue {
            setting,
            text: setting.default.to_owned(),
            source: String::new(),
        };
        let values = SettingValues(settings::all_settings().map(value).collect());
        let limits = read_limits(&values).unwrap();
        assert_eq!(format!("{limits:?}"), format!("{:?}", HttpLimits::default()));
        let names =
            settings::all_settings().filter(|setting| setting.key.starts_with(LIMITS)).count();
        assert_eq!(limit_texts(&values, &limits).len(), names);
    }

    #[test]
    fn rate_limit_zero_is_unlimited() {
        assert_eq!(rate_limit(0, 1, 5), None);
        let every = Duration::from_secs(12);
        assert_eq!(rate_limit(5, 60, 5), Some(RateLimit { every, burst: 5 }));
    }
}
