//! `reqlore undo` and `reqlore restore-item`: bring back an earlier state as a new change.

use reqlore_domain::error::Result;

use super::tool_client::{ClientPurpose, ToolClient};
use super::write_target::{ToolRequest, WriteOptions, check_exact_id};
use crate::config::AppConfig;
use crate::exit::CommandError;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  reqlore undo --dry-run\n  reqlore undo EP-001")]
pub(crate) struct UndoOptions {
    /// Undo the last change of this item, entity, section or rule [default: your last change, with
    /// all documents that it changed]
    #[arg(value_name = "ID", add = super::complete::all_ids())]
    reference: Option<String>,
    #[command(flatten)]
    options: RestoreOptions,
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
    options: RestoreOptions,
}

#[derive(Debug, clap::Args)]
struct RestoreOptions {
    /// Show what would be restored, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    write: WriteOptions,
}

pub(crate) fn run(config: &AppConfig, undo: &UndoOptions) -> Result<u8, CommandError> {
    let request = ToolRequest::new("undo");
    undo.options.send(config, undo.reference.as_deref(), request)
}

pub(crate) fn run_restore(
    config: &AppConfig,
    restore: &RestoreItemOptions,
) -> Result<u8, CommandError> {
    let request = ToolRequest::new("undo").with("version", &*restore.version);
    restore.options.send(config, Some(&restore.reference), request)
}

impl RestoreOptions {
    fn send(
        &self,
        config: &AppConfig,
        reference: Option<&str>,
        mut request: ToolRequest,
    ) -> Result<u8, CommandError> {
        if let Some(id) = reference {
            check_exact_id(id)?;
            request = request.with("reference", id);
        }
        let client = ToolClient::open(config, &self.write.project, ClientPurpose::Change)?;
        self.write.print_reply(&request.with("dry_run", self.dry_run).send(&client)?)
    }
}
