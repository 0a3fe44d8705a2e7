//! Users, tokens, authentication and queries of the audit log.
//!
//! Administration has no tools: only commands on the host and pages change users and tokens.

pub mod administration;
pub mod audit_query;
pub mod sessions;
pub mod token_authenticator;
pub mod tokens;
pub mod user_admin;

#[cfg(test)]
mod tests;
