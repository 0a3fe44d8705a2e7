//! `reqlore delete`: deletes a backlog item, an entity or a section requirement.

use reqlore_domain::error::Result;
use reqlore_domain::records::answers::applied_changes::AppliedChanges;
use serde_json::json;

use super::item_fields::WritableKind;
use super::tool_client::{ClientPurpose, ToolClient};
use super::write_target::{ToolRequest, WriteOptions, WriteTarget, ask_yes, can_ask};
use crate::commands::output::print;
use crate::config::AppConfig;
use crate::exit::CommandError;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  reqlore delete US-001 --cascade")]
pub(crate) struct DeleteOptions {
    /// A backlog item, entity or section requirement: REQ-001, dec-1d2c8f, general:2.1
    #[arg(value_name = "ID", add = super::complete::all_ids())]
    reference: String,
    /// Also delete its children and end relationships
    #[arg(long)]
    cascade: bool,
    /// Delete without asking
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    write: WriteOptions,
}

pub(crate) fn run(config: &AppConfig, options: &DeleteOptions) -> Result<u8, CommandError> {
    let client = ToolClient::open(config, &options.write.project, ClientPurpose::Change)?;
    let target = WriteTarget::read(&client, &options.reference)?;
    if !options.yes {
        let planned = options.plan_deletion(&client, &target)?;
        if !can_ask() {
            return Err(CommandError::usage_error(format!(
                "{planned}\nNothing was deleted; pass --yes to delete without asking"
            )));
        }
        if !ask_yes(&format!("{planned}\nDelete?")) {
            return print("Nothing was deleted.\n");
        }
    }
    let answer = options.request(&target).send(&client)?;
    options.write.print_answer(&answer)
}

impl DeleteOptions {
    /// Returns the effects of the deletion, or the error that it would return.
    fn plan_deletion(&self, client: &ToolClient, target: &WriteTarget) -> Result<String> {
        let would_delete = format!("Would delete {}", target.subject());
        if target.kind == WritableKind::SectionRequirement {
            return Ok(would_delete);
        }
        let entry = json!({ "delete": target.id, "cascade": self.cascade });
        let planned = json!({ "changes": [entry], "dry_run": true });
        let answer = client.call_for_answer("apply_changes", planned).map_err(|mut error| {
            // The only change, such as `Entry 1 (delete US-001): `.
            if let Some((entry, message)) = error.message.split_once("): ")
                && entry.starts_with("Entry 1 (")
            {
                error.message = message.to_owned();
            }
            error
        })?;
        let mut lines = vec![would_delete];
        lines.extend(answer.answer::<AppliedChanges>()?.effect_lines());
        Ok(lines.join("\n"))
    }

    fn request(&self, target: &WriteTarget) -> ToolRequest {
        let request = if target.kind == WritableKind::SectionRequirement {
            ToolRequest::of_section("reqlix_delete_requirements", "delete", &target.id)
        } else {
            let request = ToolRequest::new("delete_item").with("reference", &*target.id);
            request.with("cascade", self.cascade)
        };
        // Only the version that the question showed.
        request.with("if_version", &*target.version)
    }
}
