//! `reqlore diff`: shows the word difference of two versions of a document.

use reqlore_domain::records::answers::history::HistoryAnswer;
use reqlore_domain::untrusted_text::encode_line;
use serde_json::json;

use super::tool_client::{ClientPurpose, ProjectOptions, ToolClient};
use crate::commands::output::{print, print_json};
use crate::config::AppConfig;
use crate::exit::{CommandError, Result};

#[derive(Debug, clap::Args)]
pub(crate) struct DiffOptions {
    /// Any ID: EP-001, dec-1d2c8f, general
    #[arg(value_name = "ID", add = super::complete::all_ids())]
    reference: String,
    /// The older version (at least 8 digits) [default: the one before the newest]
    #[arg(long, value_name = "VERSION")]
    from: Option<String>,
    /// The newer version [default: the newest one]
    #[arg(long, value_name = "VERSION")]
    to: Option<String>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    project: ProjectOptions,
}

pub(crate) fn run(config: &AppConfig, options: &DiffOptions) -> Result<u8> {
    let client = ToolClient::open(config, &options.project, ClientPurpose::Read)?;
    let reference = &options.reference;
    let from = match &options.from {
        Some(version) => version.clone(),
        None => previous_version(&client, reference, options.to.as_deref())?,
    };
    let mut arguments = json!({ "reference": reference, "compare_with": from });
    if let Some(to) = &options.to {
        arguments["version"] = json!(to);
    }
    let answer = client.call_for_answer("get_history", arguments)?;
    if options.json {
        return print_json(&*answer.data);
    }
    print(&format!("{}\n", answer.text.trim_end()))
}

/// The version before `newer`, or before the newest one.
fn previous_version(client: &ToolClient, reference: &str, newer: Option<&str>) -> Result<String> {
    let mut arguments = json!({ "reference": reference, "limit": 100 });
    let mut is_found = false;
    loop {
        let page: HistoryAnswer = client.call("get_history", arguments.clone())?;
        for version in page.versions.into_iter().filter_map(|record| record.version) {
            if is_found {
                return Ok(version);
            }
            is_found = newer.is_none_or(|newer| version.starts_with(newer));
        }
        match page.next_cursor {
            Some(cursor) => arguments["cursor"] = json!(cursor),
            None => break,
        }
    }
    let reference = encode_line(reference);
    let problem = match newer {
        None => {
            format!("{reference} has no earlier version; `reqlore history {reference}` lists all")
        }
        Some(newer) => {
            let newer = encode_line(newer);
            format!("{reference} has no version before {newer}; pass --from, or another --to")
        }
    };
    Err(CommandError::failure(problem))
}
