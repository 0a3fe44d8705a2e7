//! Integration tests: the real binary over pipes and HTTP, and rules of the repository.

#![expect(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "this crate is tests")]

mod administration;
mod answers;
mod apply_changes;
mod backlog;
mod backlog_files;
mod claims;
mod client;
mod command_errors;
mod commands;
mod commands_fields;
mod commands_read;
mod commands_write;
mod completion;
mod copy_and_backup;
mod crash;
mod criteria;
mod database_history;
mod docsets;
mod doctor;
mod doctor_clients;
mod dump_format;
mod durability;
mod found_settings;
mod freshness;
mod git_merges;
mod hand_made_files;
mod history;
mod hooks;
mod hostile_commands;
mod hostile_files;
mod hostile_names;
mod http;
mod import_cycles;
mod imported_backlogs;
mod index_crash;
mod index_rebuild;
mod init;
mod init_entry;
mod init_remove;
mod json_rpc;
mod knowledge;
mod language;
mod many_projects;
mod memory_limit;
mod model;
mod output_limits;
mod pagination;
mod pictures;
mod postgres_commands;
mod postgres_connection;
mod postgres_crash;
mod project_root;
mod readme;
mod record_schema;
mod refusals;
mod refused_places;
mod rights;
mod schemas;
mod search;
mod search_updates;
mod secrets;
mod site;
mod snippets;
mod stdio;
mod storages;
mod subscriptions;
mod team;
mod tidy;
mod tool_snapshots;
mod transcripts;
mod transcripts_http;
mod undo;
mod undo_crash;
mod web_sessions;
mod work_trees;
mod write_guard;
mod writers;

use std::path::PathBuf;

fn repository() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}
