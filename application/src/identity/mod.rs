//! Users and tokens: who a client is, and the administration of both.
//!
//! Trap: administration is no tool. Nobody gets at it but through the command line on the host, so
//! its only caller is the local person.

pub mod audit_trail;
pub mod authenticate;
pub mod tokens;
pub mod users;

#[cfg(test)]
mod tests;
