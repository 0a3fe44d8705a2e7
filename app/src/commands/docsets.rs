//! `reqlore docsets import`: imports a docset configuration into the storage.

use std::path::PathBuf;

use reqlore_application::docsets::import::{DocsetImport, import};
use reqlore_domain::document::MAX_DOCUMENT_BYTES;
use serde_json::json;

use super::untrusted_text::read_file;
use crate::commands::output::{print, print_json};
use crate::composition;
use crate::config::AppConfig;
use crate::exit::{CommandError, Result};

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

pub(crate) fn run(config: &AppConfig, command: &DocsetsCommand) -> Result<u8> {
    let DocsetsCommand::Import(ImportOptions { file, json }) = command;
    let failed = |problem: &str| CommandError::failure(format!("{}: {problem}", file.display()));
    let read = read_file(file, MAX_DOCUMENT_BYTES as u64).map_err(|problem| failed(&problem))?;
    let text = read.ok_or_else(|| failed("no such file; name an existing one"))?;
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
