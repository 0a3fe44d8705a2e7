//! The methods of both eras of the protocol.

use reqlore_domain::identity::redact_echo;
use rmcp::RoleServer;
use rmcp::model::{ErrorCode, ErrorData};
use rmcp::service::RequestContext;

/// The protocol era that has a method.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MethodAvailability {
    Both,
    /// Before 2026-07-28.
    Legacy,
    /// Before 2026-07-28, and on connections only: other clients cannot be notified later.
    LegacyConnection,
    /// Since 2026-07-28.
    Modern,
}

const METHODS: [(&str, MethodAvailability); 16] = [
    ("initialize", MethodAvailability::Legacy),
    ("ping", MethodAvailability::Legacy),
    ("server/discover", MethodAvailability::Modern),
    ("tools/list", MethodAvailability::Both),
    ("tools/call", MethodAvailability::Both),
    ("resources/list", MethodAvailability::Both),
    ("resources/templates/list", MethodAvailability::Both),
    ("resources/read", MethodAvailability::Both),
    ("resources/subscribe", MethodAvailability::LegacyConnection),
    ("resources/unsubscribe", MethodAvailability::LegacyConnection),
    ("subscriptions/listen", MethodAvailability::Modern),
    ("prompts/list", MethodAvailability::Both),
    ("prompts/get", MethodAvailability::Both),
    ("completion/complete", MethodAvailability::Both),
    ("skills/list", MethodAvailability::Both),
    ("skills/get", MethodAvailability::Both),
];

/// True for a request of protocol version 2026-07-28 or newer.
pub(crate) fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| !version.has_initialize())
}

pub(crate) fn unknown_method(method: &str, connected: bool, modern: bool) -> ErrorData {
    // A client may have sent a secret as the method.
    let method = redact_echo(method);
    let served = served_methods(connected, modern).join(", ");
    let message = format!("unknown method {method:?}; use one of {served}");
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None)
}

pub(crate) fn served_methods(connected: bool, modern: bool) -> Vec<&'static str> {
    let mut served = Vec::with_capacity(METHODS.len());
    for (method, availability) in METHODS {
        let is_served = match availability {
            MethodAvailability::Both => true,
            MethodAvailability::Legacy => !modern,
            MethodAvailability::LegacyConnection => !modern && connected,
            MethodAvailability::Modern => modern,
        };
        if is_served {
            served.push(method);
        }
    }
    served
}
