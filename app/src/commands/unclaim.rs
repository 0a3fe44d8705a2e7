//! `reqlore unclaim`: ends the claim of a story, also that of another holder.

use super::tool_client::{ClientPurpose, ToolClient};
use super::write_target::{ToolRequest, WriteOptions, check_exact_id};
use crate::config::AppConfig;
use crate::exit::Result;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  reqlore unclaim US-001")]
pub(crate) struct UnclaimOptions {
    /// A user story
    #[arg(value_name = "ID", add = super::complete::stories())]
    reference: String,
    #[command(flatten)]
    write: WriteOptions,
}

pub(crate) fn run(config: &AppConfig, options: &UnclaimOptions) -> Result<u8> {
    check_exact_id(&options.reference)?;
    let request = ToolRequest::new("unclaim_item").with("id", &*options.reference);
    let client = ToolClient::open(config, &options.write.project, ClientPurpose::Change)?;
    options.write.print_answer(&request.send(&client)?)
}
