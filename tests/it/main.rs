//! The whole product: the real binary over real pipes, and what the repository promises of itself.

#![expect(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "this crate is tests")]

mod administration;
mod backlog;
mod backlog_files;
mod backlog_real;
mod branches;
mod client;
mod commands;
mod compatibility;
mod crash;
mod criteria;
mod docsets;
mod doctor;
mod doctor_clients;
mod durability;
mod freshness;
mod http;
mod init;
mod init_entry;
mod init_remove;
mod knowledge;
mod language;
mod model;
mod moving;
mod over_http;
mod plain;
mod readme;
mod rights;
mod schemas;
mod secrets;
mod snippets;
mod stdio;
mod storages;
mod subscriptions;
mod surface;
mod team;
mod tidy;
mod transcripts;
mod writers;

use std::path::PathBuf;

/// The repository's root.
fn repository() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}
