//! Which methods there are in which era, and what is said of all others.

use reqlore_domain::identity::redact;
use rmcp::RoleServer;
use rmcp::model::{ErrorCode, ErrorData};
use rmcp::service::RequestContext;
use serde_json::json;

use crate::present::Era;

/// When a method can be called.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Since {
    Both,
    /// Before 2026-07-28.
    Old,
    /// The same, on connections alone: where each request stands alone nobody can be told later.
    Connected,
    /// Since 2026-07-28.
    New,
}

const METHODS: [(&str, Since); 14] = [
    ("initialize", Since::Old),
    ("ping", Since::Old),
    ("server/discover", Since::New),
    ("tools/list", Since::Both),
    ("tools/call", Since::Both),
    ("resources/list", Since::Both),
    ("resources/templates/list", Since::Both),
    ("resources/read", Since::Both),
    ("resources/subscribe", Since::Connected),
    ("resources/unsubscribe", Since::Connected),
    ("subscriptions/listen", Since::New),
    ("prompts/list", Since::Both),
    ("prompts/get", Since::Both),
    ("completion/complete", Since::Both),
];

/// Does this request speak 2026-07-28 or newer?
pub(super) fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| !version.has_initialize())
}

/// The same as answers know it.
pub(super) fn era(context: &RequestContext<RoleServer>) -> Era {
    if is_modern(context) { Era::Modern } else { Era::Legacy }
}

/// Why rmcp made nothing of this request: a method that there is had parameters that did not fit.
pub(super) fn refusal(method: &str, connected: bool, modern: bool) -> ErrorData {
    if served(connected, modern).any(|known| known == method) {
        let message = format!("params: missing, or not what {method} takes");
        return ErrorData::invalid_params(message, Some(json!({ "field": "params" })));
    }
    unknown(method, connected, modern)
}

pub(super) fn unknown(method: &str, connected: bool, modern: bool) -> ErrorData {
    let methods: Vec<&str> = served(connected, modern).collect();
    let (method, methods) = (redact(method), methods.join(", "));
    let message = format!("Unknown method {method:?}. Reqlore serves {methods}.");
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None)
}

fn served(connected: bool, modern: bool) -> impl Iterator<Item = &'static str> {
    let is_served = move |since| match since {
        Since::Both => true,
        Since::Old => !modern,
        Since::Connected => !modern && connected,
        Since::New => modern,
    };
    METHODS.into_iter().filter(move |(_, since)| is_served(*since)).map(|(method, _)| method)
}
