//! `reqlore set`: changes fields of a document.

use super::item_fields::{DocumentForm, assignment_pairs, parse_assignment};
use super::tool_client::{ClientPurpose, ToolClient};
use super::write_target::{WriteOptions, WriteTarget};
use crate::config::AppConfig;
use crate::exit::Result;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  reqlore set REQ-001 status=active prio=high assignee=ann")]
pub(crate) struct SetOptions {
    /// A backlog item, entity or section requirement: REQ-001, dec-1d2c8f, general:2.1
    #[arg(value_name = "ID", add = super::complete::all_ids())]
    reference: String,
    /// title, status, priority, type, assignee, tags (separated by commas), parent, a custom field
    /// or text; text=- reads standard input
    #[arg(
        value_name = "FIELD=VALUE",
        required = true,
        value_parser = parse_assignment,
        add = super::complete::assignments(true)
    )]
    fields: Vec<(String, String)>,
    #[command(flatten)]
    write: WriteOptions,
}

pub(crate) fn run(config: &AppConfig, options: &SetOptions) -> Result<u8> {
    let client = ToolClient::open(config, &options.write.project, ClientPurpose::Change)?;
    let target = WriteTarget::read(&client, &options.reference)?;
    let form = DocumentForm::read(target.kind.clone(), &client)?;
    let changed = form.parse_values(assignment_pairs(&options.fields))?;
    options.write.print_answer(&target.update_request(changed).send(&client)?)
}
