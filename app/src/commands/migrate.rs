//! `reqlore migrate`: the schema of a database server, for administrators who separate roles.

use reqlore_storage_postgres::{PostgresConfig, SchemaStatus};
use serde_json::json;

use crate::commands::output::{print, print_json};
use crate::composition;
use crate::config::AppConfig;
use crate::exit::{CommandError, Result};
use crate::storage_spec::StorageSpec;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum MigrateCommand {
    /// Show the schema version and the number of pending statements
    Status {
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Run the pending statements, also while servers run
    Up {
        /// Print the statements instead of running them
        #[arg(long)]
        dry_run: bool,
    },
}

pub(crate) fn run(config: &AppConfig, command: &MigrateCommand) -> Result<u8> {
    let StorageSpec::Postgres(database) = &config.storage else {
        return Err(CommandError::usage_error(format!(
            "migrate: the storage {} needs no migration; pass --storage \
             postgres://HOST/NAME to migrate a database",
            config.storage.name()
        )));
    };
    match command {
        MigrateCommand::Status { json } => show_status(database, *json),
        MigrateCommand::Up { dry_run: true } => {
            print(&script(&composition::database_schema(database)?))
        }
        MigrateCommand::Up { dry_run: false } if config.read_only => Err(CommandError::failure(
            "migrate up: changes the storage; run it without --read-only",
        )),
        MigrateCommand::Up { dry_run: false } => {
            let count = composition::migrate_database(database)?;
            let SchemaStatus { version, .. } = composition::database_schema(database)?;
            let noun = if count == 1 { "statement" } else { "statements" };
            print(&format!("Schema version {version}; ran {count} {noun}.\n"))
        }
    }
}

fn show_status(database: &PostgresConfig, as_json: bool) -> Result<u8> {
    let SchemaStatus { version, latest, pending } = composition::database_schema(database)?;
    if as_json {
        let count = pending.len();
        return print_json(&json!({ "version": version, "latest": latest, "pending": count }));
    }
    let next = match pending.len() {
        0 => "nothing is pending".to_owned(),
        count => format!("pending statements: {count}; `reqlore migrate up` runs them"),
    };
    print(&format!("{database}: schema version {version} of {latest}; {next}.\n"))
}

/// The pending statements as a script of SQL.
fn script(status: &SchemaStatus) -> String {
    let mut text = String::new();
    for statement in &status.pending {
        text += &format!("-- version {}, step {}\n", statement.version, statement.step);
        text += &format!("{};\n", statement.text.trim_end_matches(';'));
    }
    if text.is_empty() {
        text += "-- Nothing is pending.\n";
    }
    text
}
