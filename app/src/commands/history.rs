//! `reqlore history`: shows the versions of a document, one of them, or the difference of two.

use std::sync::Arc;

use reqlore_application::history::read_history;
use serde_json::{Map, json};

use super::untrusted_text::is_terminal_control;
use super::{print, print_json};
use crate::composition;
use crate::config::AppConfig;
use crate::exit::CommandError;

#[derive(Debug, clap::Args)]
pub(crate) struct HistoryOptions {
    /// Any ID: EP-001, dec-1d2c8f, general, general:2.1
    #[arg(value_name = "ID")]
    reference: String,
    /// Show the text of this version (at least 8 digits)
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
    /// Show the word difference to --version (default: the newest version)
    #[arg(long, value_name = "VERSION")]
    compare: Option<String>,
    /// Maximum number of versions
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
}

pub(crate) fn run(config: &AppConfig, options: &HistoryOptions) -> Result<u8, CommandError> {
    let ports = composition::open_ports(config)?;
    let caller = Arc::new(composition::local_caller(config));
    let HistoryOptions { reference, version, compare, limit, cursor, json } = options;
    let mut arguments = Map::new();
    arguments.insert("reference".to_owned(), json!(reference));
    arguments.insert("limit".to_owned(), json!(limit));
    for (name, value) in [("version", version), ("compare_with", compare), ("cursor", cursor)] {
        arguments.extend(value.as_ref().map(|value| (name.to_owned(), json!(value))));
    }
    let read = composition::block_on(read_history(ports, caller, arguments))?;
    let reply = read.map_err(CommandError::failure)?;
    if *json { print_json(&*reply.data) } else { print(&printable(&reply.text.join("\n"))) }
}

/// Documents and the subjects of commits may contain controls of the terminal.
fn printable(text: &str) -> String {
    let is_safe = |c: char| matches!(c, '\n' | '\t') || !is_terminal_control(c);
    let text: String = text.chars().filter(|c| is_safe(*c)).collect();
    format!("{}\n", text.trim_end())
}
