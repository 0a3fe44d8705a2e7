//! `reqlore docsets import`: puts the configuration of the docsets into the storage.

use std::path::PathBuf;

use reqlore_application::docsets::import::{DocsetImport, import};
use serde_json::json;

use super::{print, print_json};
use crate::composition;
use crate::config::Config;
use crate::exit::CommandError;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Put the configuration of the docsets into the storage, replacing the present one
    Import(Options),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// A configuration as in .knowledge/config.yaml
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(config: &Config, command: &Command) -> Result<u8, CommandError> {
    let Command::Import(Options { file, json }) = command;
    let failed =
        |error| CommandError::refused(format!("{} can't be read: {error}", file.display()));
    let text = std::fs::read_to_string(file).map_err(failed)?;
    let ports = composition::ports(config)?;
    let imported = composition::run(import(&ports, text, composition::caller(config)))?;
    let imported = imported.map_err(CommandError::refused)?;
    let DocsetImport { docsets, version, replaced, unchanged } = imported;
    if *json {
        return print_json(&json!({
            "docsets": docsets, "version": version, "replaced": replaced, "unchanged": unchanged
        }));
    }
    let done = match (unchanged, replaced) {
        (true, _) => "the same as before",
        (false, true) => "replacing another configuration",
        (false, false) => "imported",
    };
    let end = if docsets == 1 { "" } else { "s" };
    print(&format!("{docsets} docset{end}, {done} (version {version}).\n"))
}
