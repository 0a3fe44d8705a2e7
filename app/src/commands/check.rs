//! `reqlore check`: reports problems in documents, one line each; CI uses its exit code.

use reqlore_application::backlog::repair::{RenumberedItem, RepairReport, RepairedLink};
use reqlore_application::check::CheckFinding;
use reqlore_application::check::{check_documents, repair_references};
use reqlore_domain::error::Error;
use serde_json::json;

use super::{print, print_json};
use crate::composition;
use crate::config::AppConfig;
use crate::exit::{CommandError, EXIT_FAILED, EXIT_OK};

#[derive(Debug, clap::Args)]
pub(crate) struct CheckOptions {
    /// Print the problems as JSON
    #[arg(long)]
    json: bool,
    /// Give the newer of two items with the same reference a new one, and update its links
    #[arg(long)]
    fix: bool,
}

pub(crate) fn run(config: &AppConfig, options: &CheckOptions) -> Result<u8, CommandError> {
    let ports = composition::open_ports(config)?;
    if options.fix && config.read_only {
        return Err(CommandError::failure("--fix changes files, which --read-only forbids"));
    }
    let caller = composition::local_caller(config);
    let done = composition::block_on(async {
        let repairs = if options.fix {
            repair_references(&ports, caller).await?
        } else {
            RepairReport::default()
        };
        Ok::<_, Error>((repairs, check_documents(&ports).await))
    })?;
    let (repairs, findings) = done.map_err(CommandError::failure)?;
    let is_fine = repairs.refused.is_empty() && findings.as_ref().is_ok_and(Vec::is_empty);
    // Repairs are reported even if the check failed.
    if findings.is_ok() || repairs != RepairReport::default() {
        let found = findings.as_deref().unwrap_or_default();
        if options.json {
            let RepairReport { relinked, renumbered, refused } = &repairs;
            print_json(&json!({
                "fixed": renumbered, "relinked": relinked, "refused": refused, "findings": found,
            }))?;
        } else {
            print(&report_text(&repairs, found, is_fine))?;
        }
    }
    findings.map_err(CommandError::failure)?;
    Ok(if is_fine { EXIT_OK } else { EXIT_FAILED })
}

fn report_text(repairs: &RepairReport, findings: &[CheckFinding], is_fine: bool) -> String {
    let mut text = String::new();
    for RepairedLink { document, from, to } in &repairs.relinked {
        text += &format!("{document}: the link to {from} now points to {to}\n");
    }
    for RenumberedItem { document, from, to, relinked } in &repairs.renumbered {
        text += &format!("{document}: {from} is now {to}");
        if !relinked.is_empty() {
            text += &format!("; links updated in {}", relinked.join(", "));
        }
        text += "\n";
    }
    for CheckFinding { document, line, message, .. } in repairs.refused.iter().chain(findings) {
        match line {
            Some(line) => text += &format!("{document}:{line}: {message}\n"),
            None => text += &format!("{document}: {message}\n"),
        }
    }
    if is_fine {
        text += "Nothing to fix.\n";
    }
    text
}
