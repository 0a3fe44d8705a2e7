//! Users, tokens, authentication and the audit trail.
//!
//! Administration is not a tool: it is reachable only through the command line on the host.

pub mod audit_trail;
pub mod authenticate;
pub mod tokens;
pub mod users;

#[cfg(test)]
mod tests;
