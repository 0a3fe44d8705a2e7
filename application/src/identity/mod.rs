//! Users, tokens, authentication and queries of the audit log.
//!
//! Administration has no tools: only the command line on the host changes users and tokens.

pub mod audit_query;
pub mod sessions;
pub mod token_authenticator;
pub mod tokens;
pub mod user_admin;

#[cfg(test)]
mod tests;
