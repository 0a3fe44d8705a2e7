//! `reqlore history`: shows the versions of a document, one of them, or the difference of two, or
//! lists the documents that changed since a time, and erases earlier texts.

use std::sync::Arc;

use reqlore_application::history::purge::{PurgeRequest, purge_history};
use reqlore_domain::document::VersionPrefix;
use serde_json::json;

use super::tool_client::{ClientPurpose, ProjectOptions, ToolClient};
use crate::commands::output::{print, print_json};
use crate::composition;
use crate::config::AppConfig;
use crate::exit::{CommandError, Result};
use crate::storage_spec::StorageSpec;

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct HistoryOptions {
    #[command(subcommand)]
    command: Option<HistoryCommand>,
    /// Any ID: EP-001, dec-1d2c8f, general, general:2.1
    #[arg(
        value_name = "ID",
        required_unless_present = "since",
        add = super::complete::all_ids()
    )]
    reference: Option<String>,
    /// List the documents that changed since this time, or since `next` of an earlier list
    #[arg(long, value_name = "TIME", conflicts_with_all = ["reference", "version", "compare"])]
    since: Option<String>,
    /// With --since, only this kind, such as user_story or decision; repeatable
    #[arg(long = "kind", value_name = "KIND", requires = "since")]
    kinds: Vec<String>,
    /// Show the text of this version (at least 8 digits)
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
    /// Show the word difference to --version (default: the newest version)
    #[arg(long, value_name = "VERSION")]
    compare: Option<String>,
    /// Maximum number of versions or documents
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = 50,
        value_parser = clap::value_parser!(u32).range(1..=100)
    )]
    limit: u32,
    /// Continue a list after this cursor
    #[arg(long)]
    cursor: Option<String>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    project: ProjectOptions,
}

#[derive(Debug, clap::Subcommand)]
enum HistoryCommand {
    /// Erase earlier texts of a document, such as a pasted password
    Purge(PurgeOptions),
}

#[derive(Debug, clap::Args)]
struct PurgeOptions {
    /// Any ID, also of a deleted document
    #[arg(value_name = "ID")]
    reference: String,
    /// Only the text of this version (at least 8 digits); all earlier texts without it
    #[arg(long, value_name = "VERSION", value_parser = parse_version)]
    version: Option<VersionPrefix>,
    /// Why, for the audit log; do not repeat the text
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

fn parse_version(text: &str) -> Result<VersionPrefix, String> {
    VersionPrefix::try_from(text.to_owned())
}

pub(crate) fn run(config: &AppConfig, options: &HistoryOptions) -> Result<u8> {
    if let Some(HistoryCommand::Purge(options)) = &options.command {
        return run_purge(config, options);
    }
    let HistoryOptions { reference, version, compare, limit, cursor, json, project, .. } = options;
    let mut arguments = json!({ "limit": limit });
    let tool = if options.since.is_some() { "list_changes" } else { "get_history" };
    if !options.kinds.is_empty() {
        arguments["kinds"] = json!(options.kinds);
    }
    for (name, value) in [
        ("reference", reference),
        ("since", &options.since),
        ("version", version),
        ("compare_with", compare),
        ("cursor", cursor),
    ] {
        if let Some(value) = value {
            arguments[name] = json!(value);
        }
    }
    let client = ToolClient::open(config, project, ClientPurpose::Read)?;
    let answer = client.call_for_answer(tool, arguments)?;
    if *json { print_json(&*answer.data) } else { print(&format!("{}\n", answer.text.trim_end())) }
}

/// The storage must exist: a misspelt one would be created, without anything to erase.
fn run_purge(config: &AppConfig, options: &PurgeOptions) -> Result<u8> {
    crate::commands::output::warn_of_unselected_database(config);
    let store = composition::open_existing_store(config)?;
    let ports = composition::ports_over(config, &store, false)?;
    let caller = Arc::new(composition::local_caller(config));
    let request = PurgeRequest {
        reference: options.reference.clone(),
        version: options.version,
        reason: options.reason.clone(),
        is_audited: config.audit != Some(false),
    };
    let purged = composition::block_on(purge_history(ports, caller, request))?;
    let report = purged.map_err(CommandError::failure)?;
    if options.json {
        return print_json(&json!({ "document": report.document, "erased": report.erased }));
    }
    let noun = if report.erased == 1 { "version" } else { "versions" };
    let mut text = format!("Erased the text of {} {noun} of {}.\n", report.erased, report.document);
    match config.storage {
        StorageSpec::Sled(_) => {
            text += "The bytes stay in the folder until sled reuses their space; to be sure, copy \
                     the database to a new folder and remove this one.\n";
        }
        StorageSpec::Postgres(_) => {
            text += "The bytes stay in the files of the database until VACUUM, and in its write-\
                     ahead log and backups as long as you keep them.\n";
        }
        StorageSpec::Fs(_) | StorageSpec::Sqlite(_) => {}
    }
    print(&text)
}
