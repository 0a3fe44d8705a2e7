//! `reqlore docsets import`: the docsets' configuration from a file into the storage.

use std::fmt::Write as _;
use std::path::PathBuf;

use reqlore_application::docsets::import::{Imported, import};
use serde_json::json;

use crate::composition;
use crate::config::Config;
use crate::exit::CommandError;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Put the configuration of the docsets into the storage, in the place of the one there is
    Import(Options),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// A configuration as in .knowledge/config.yaml
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Print what was done as JSON
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
    let imported = imported.map_err(|error| CommandError::refused(error.message))?;
    super::print(&if *json { as_json(&imported) } else { sentence(&imported) })
}

fn sentence(imported: &Imported) -> String {
    let Imported { docsets, version, replaced, unchanged } = *imported;
    let mut said = format!("{docsets} docset{}", if docsets == 1 { "" } else { "s" });
    let done = match (unchanged, replaced) {
        (true, _) => "the same as before",
        (false, true) => "in the place of another configuration",
        (false, false) => "imported",
    };
    // Writing to a string does not fail.
    let _ = writeln!(said, ", {done} (version {version}).");
    said
}

fn as_json(imported: &Imported) -> String {
    let Imported { docsets, version, replaced, unchanged } = *imported;
    let told = json!({
        "docsets": docsets, "version": version, "replaced": replaced, "unchanged": unchanged
    });
    format!("{told:#}\n")
}
