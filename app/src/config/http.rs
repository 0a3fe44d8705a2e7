//! The settings of a server over HTTP.
//!
//! Trap: a repository that somebody cloned must not open a port when its reader's assistant starts,
//! so a file that nobody named can't choose this transport; nor does it say how far a server is
//! open that somebody else started.

use std::net::SocketAddr;

use reqlore_transport_http::{ForwardedBy, Limits, ProxyTrust};

use super::{File, Value, Values};
use crate::exit::CommandError;
use crate::limits;

/// How a server over HTTP is reached, and how much it gives.
#[derive(Debug)]
pub(crate) struct Http {
    pub(crate) listen: SocketAddr,
    pub(crate) hosts: Vec<String>,
    pub(crate) origins: Vec<String>,
    pub(crate) behind_proxy: Option<ProxyTrust>,
    pub(crate) limits: Limits,
    /// The limits for the operator, by their names.
    pub(crate) told: Vec<String>,
}

/// What decides who gets in, to which folders, and what is noted of it; those that end with a dot
/// stand for all that begin with them.
const OF_OPERATORS: [&str; 6] = ["root", "http.", "audit", "audit_keep_days", "log", "log_format"];

/// All of them are checked, whatever the transport; `None` is standard input and output.
pub(super) fn read(values: &Values, file: &File) -> Result<Option<Http>, CommandError> {
    let listen = values.parse("http.listen", "an address and a port, like 127.0.0.1:8080")?;
    let list = |key| values.list(key).map(str::to_owned).collect();
    let limits = limits::read(|name, least, most| limit(values, name, least, most))?;
    let told = limits::told(|key| match key {
        // There is room for one body at least.
        "http.limits.bodies_bytes" => limits.bodies.to_string(),
        _ => values.text(key).to_owned(),
    });
    let http = Http {
        told,
        listen: listen.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 8080))),
        hosts: list("http.hosts"),
        origins: list("http.origins"),
        behind_proxy: behind_proxy(values)?,
        limits,
    };
    match values.get("transport") {
        None => Ok(None),
        Some(value) if value.text == "stdio" => Ok(None),
        Some(value) if value.text != "http" => Err(value.must_be("stdio or http")),
        Some(value) if value.is_of_project(file.named) => Err(not_of_project(value, "")),
        Some(_) => of_operator(values, file).map(|()| Some(http)),
    }
}

/// Refuses what a project's own file says of a server.
fn of_operator(values: &Values, file: &File) -> Result<(), CommandError> {
    let is_of_operators = |key: &str| {
        OF_OPERATORS.iter().any(|of| key == *of || of.ends_with('.') && key.starts_with(of))
    };
    let mut values = values.0.iter();
    let found =
        values.find(|value| value.is_of_project(file.named) && is_of_operators(value.setting.key));
    if let Some(value) = found {
        return Err(not_of_project(value, " over http"));
    }
    if file.named || !file.has_projects() {
        return Ok(());
    }
    Err(CommandError::usage(format!(
        "projects (file {}) may not be set by a project's own file over http; name the file with \
         --config",
        file.path.display()
    )))
}

/// The way out is whatever the setting can be set by.
fn not_of_project(value: &Value, when: &str) -> CommandError {
    let Value { setting, text, source } = value;
    let named = |name: Option<&'static str>| name.map(|name| format!("use {name}, or "));
    let other = named(setting.variable).or_else(|| named(setting.flag)).unwrap_or_default();
    CommandError::usage(format!(
        "{}: {text:?} ({source}) may not be set by a project's own file{when}; {other}name the \
         file with --config",
        setting.key
    ))
}

fn limit(values: &Values, name: &str, least: u32, most: u32) -> Result<u32, CommandError> {
    let key = format!("{}{name}", limits::PREFIX);
    let wanted = format!("a number from {least} to {most}");
    let number = values.parse(&key, &wanted)?;
    match (number.filter(|number| (least..=most).contains(number)), values.get(&key)) {
        (Some(number), _) => Ok(number),
        (None, Some(value)) => Err(value.must_be(&wanted)),
        (None, None) => Err(CommandError::usage(format!("{key} must be {wanted}"))),
    }
}

/// `true` is a proxy on this machine; anything else names the proxies.
fn behind_proxy(values: &Values) -> Result<Option<ProxyTrust>, CommandError> {
    let header = match values.get("http.forwarded_by") {
        None => ForwardedBy::default(),
        Some(value) => match &*value.text {
            "x-forwarded-for" => ForwardedBy::XForwardedFor,
            "forwarded" => ForwardedBy::Forwarded,
            _ => return Err(value.must_be("x-forwarded-for or forwarded")),
        },
    };
    let Some(value) = values.get("http.behind_proxy") else { return Ok(None) };
    match &*value.text {
        "false" => return Ok(None),
        "true" => return Ok(Some(ProxyTrust { header, ..ProxyTrust::default() })),
        _ => {}
    }
    let proxies: Result<Vec<_>, String> =
        values.list("http.behind_proxy").map(str::parse).collect();
    match proxies {
        Ok(proxies) => Ok(Some(ProxyTrust { proxies, header })),
        Err(wrong) => Err(value.must_be(&format!("true, false or a list of addresses: {wrong}"))),
    }
}
