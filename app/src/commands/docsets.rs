//! `reqlore docsets import`: imports a docset configuration into the storage.

use std::path::PathBuf;

use reqlore_application::docsets::import::{DocsetImport, import};
use serde_json::json;

use super::{print, print_json};
use crate::composition;
use crate::config::AppConfig;
use crate::exit::CommandError;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum DocsetsCommand {
    /// Import a docset configuration into the storage, replacing the current one
    Import(ImportOptions),
}

#[derive(Debug, clap::Args)]
pub(crate) struct ImportOptions {
    /// A file in the format of .knowledge/config.yaml
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(config: &AppConfig, command: &DocsetsCommand) -> Result<u8, CommandError> {
    let DocsetsCommand::Import(ImportOptions { file, json }) = command;
    let failed =
        |error| CommandError::failure(format!("{} can't be read: {error}", file.display()));
    let text = std::fs::read_to_string(file).map_err(failed)?;
    let ports = composition::open_ports(config)?;
    let imported = composition::block_on(import(&ports, text, composition::local_caller(config)))?;
    let imported = imported.map_err(CommandError::failure)?;
    let DocsetImport { docsets, version, replaced, unchanged } = imported;
    if *json {
        return print_json(&json!({
            "docsets": docsets, "version": version, "replaced": replaced, "unchanged": unchanged
        }));
    }
    let done = match (unchanged, replaced) {
        (true, _) => "unchanged",
        (false, true) => "replacing the previous configuration",
        (false, false) => "imported",
    };
    let end = if docsets == 1 { "" } else { "s" };
    print(&format!("{docsets} docset{end}, {done} (version {version}).\n"))
}
