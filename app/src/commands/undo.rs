//! `reqlore undo` and `reqlore restore-item`: bring back an earlier state as a new change.

use super::tool_client::{ClientPurpose, ToolClient};
use super::write_target::{ToolRequest, WriteOptions, check_exact_id};
use crate::config::AppConfig;
use crate::exit::Result;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  reqlore undo --dry-run\n  reqlore undo EP-001")]
pub(crate) struct UndoOptions {
    /// Undo the last change of this item, entity, section or rule [default: your last change, with
    /// all documents that it changed]
    #[arg(value_name = "ID", add = super::complete::all_ids())]
    reference: Option<String>,
    /// Show what would be restored, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    write: WriteOptions,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  reqlore restore-item US-001 --version 3f9a1c20")]
pub(crate) struct RestoreItemOptions {
    /// An item, entity, section or rule, also a deleted one
    #[arg(value_name = "ID", add = super::complete::all_ids())]
    reference: String,
    /// The version (at least 8 digits); `reqlore history ID` lists all
    #[arg(long, value_name = "VERSION")]
    version: String,
    #[command(flatten)]
    write: WriteOptions,
}

pub(crate) fn run(config: &AppConfig, options: &UndoOptions) -> Result<u8> {
    let mut request = ToolRequest::new("undo").with("dry_run", options.dry_run);
    if let Some(id) = &options.reference {
        check_exact_id(id)?;
        request = request.with("reference", &**id);
    }
    let client = ToolClient::open(config, &options.write.project, ClientPurpose::Change)?;
    options.write.print_answer(&request.send(&client)?)
}

pub(crate) fn restore(config: &AppConfig, options: &RestoreItemOptions) -> Result<u8> {
    check_exact_id(&options.reference)?;
    let request = ToolRequest::new("undo").with("reference", &*options.reference);
    let client = ToolClient::open(config, &options.write.project, ClientPurpose::Change)?;
    options.write.print_answer(&request.with("version", &*options.version).send(&client)?)
}
