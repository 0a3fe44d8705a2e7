//! Users, tokens, the audit log and idempotency records in SQLite tables.
//!
//! The functions take a `&Connection` and do not begin transactions. A caller that needs several
//! statements to be atomic holds a transaction.

pub mod audit;
pub mod checksum;
pub mod connection;
pub mod error;
pub mod idempotency;
pub mod identity;
mod json;
pub mod loss_acceptance;
pub mod pending;
pub mod team_database;
mod team_schema;
