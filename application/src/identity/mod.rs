//! Users, tokens, authentication and the audit trail.
//!
//! Administration is not a tool: it is reachable only through the command line on the host.

pub mod audit_query;
pub mod token_authenticator;
pub mod tokens;
pub mod user_admin;

#[cfg(test)]
mod tests;
