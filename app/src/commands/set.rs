//! `reqlore set`: changes fields of a document.

use serde_json::Map;

use super::item_fields::field_value;
use super::tool_client::{ClientPurpose, ToolClient};
use super::write_target::{WriteOptions, WriteTarget};
use crate::config::AppConfig;
use crate::exit::CommandError;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  reqlore set REQ-001 status=active prio=high assignee=ann")]
pub(crate) struct SetOptions {
    /// A backlog item, entity or section requirement: REQ-001, dec-1d2c8f, general:2.1
    #[arg(value_name = "ID", add = super::complete::all_ids())]
    reference: String,
    /// title, status, priority, type, assignee, tags (separated by commas), parent or text; text=-
    /// reads standard input
    #[arg(value_name = "FIELD=VALUE", required = true, value_parser = parse_assignment)]
    fields: Vec<(String, String)>,
    #[command(flatten)]
    write: WriteOptions,
}

fn parse_assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => Err("expected FIELD=VALUE, such as status=done".to_owned()),
    }
}

pub(crate) fn run(config: &AppConfig, options: &SetOptions) -> Result<u8, CommandError> {
    let client = ToolClient::open(config, &options.write.project, ClientPurpose::Change)?;
    let target = WriteTarget::read(&client, &options.reference)?;
    let mut changed = Map::new();
    for (name, value) in &options.fields {
        let field = target.kind.find_field(name).map_err(CommandError::usage_error)?;
        if changed.insert(field.to_owned(), field_value(field, value)?).is_some() {
            return Err(CommandError::usage_error(format!("{field} is given twice; remove one")));
        }
    }
    options.write.print_answer(&target.update_request(changed).send(&client)?)
}
