//! Which methods there are in which era, and what is said of all others.

use rmcp::RoleServer;
use rmcp::model::{ErrorCode, ErrorData};
use rmcp::service::RequestContext;

/// When a method can be called.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Era {
    Both,
    /// Before 2026-07-28.
    Old,
    /// Since 2026-07-28.
    New,
}

const METHODS: [(&str, Era); 14] = [
    ("initialize", Era::Old),
    ("ping", Era::Old),
    ("server/discover", Era::New),
    ("tools/list", Era::Both),
    ("tools/call", Era::Both),
    ("resources/list", Era::Both),
    ("resources/templates/list", Era::Both),
    ("resources/read", Era::Both),
    ("resources/subscribe", Era::Old),
    ("resources/unsubscribe", Era::Old),
    ("subscriptions/listen", Era::New),
    ("prompts/list", Era::Both),
    ("prompts/get", Era::Both),
    ("completion/complete", Era::Both),
];

/// Does this request speak 2026-07-28 or newer?
pub(super) fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| !version.has_initialize())
}

/// Why rmcp made nothing of this request: a method that there is had parameters that did not fit.
pub(super) fn refusal(method: &str, modern: bool) -> ErrorData {
    if served(modern).any(|known| known == method) {
        let message = format!("params: missing, or not what {method} takes");
        return ErrorData::invalid_params(message, None);
    }
    unknown(method, modern)
}

pub(super) fn unknown(method: &str, modern: bool) -> ErrorData {
    let methods: Vec<&str> = served(modern).collect();
    let message = format!("Unknown method {method:?}. Reqlore serves {}.", methods.join(", "));
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None)
}

fn served(modern: bool) -> impl Iterator<Item = &'static str> {
    let other = if modern { Era::Old } else { Era::New };
    METHODS.into_iter().filter(move |(_, era)| *era != other).map(|(method, _)| method)
}
