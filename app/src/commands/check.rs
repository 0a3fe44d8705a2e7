//! `reqlore check`: reports problems in documents, one line each; CI uses its exit code.

use reqlore_application::backlog::repair::{RenumberedItem, RepairReport, RepairedLink};
use reqlore_application::check::finding::CheckFinding;
use reqlore_application::check::{check_documents, find_damage, repair_references};
use reqlore_domain::backlog::Reference;
use reqlore_domain::error::Error;
use reqlore_domain::ports::accepted_loss::AcceptedLoss;
use reqlore_domain::ports::archive::HighWaterMark;
use reqlore_domain::untrusted_text::encode_line;
use reqlore_storage_fs::FoundRoot;
use serde_json::{Value, json};

use super::nested_projects::{NESTED_NEXT, NESTED_PROBLEM, find_nested_projects};
use crate::commands::output::{print, print_json};
use crate::composition;
use crate::config::AppConfig;
use crate::exit::{CommandError, EXIT_FAILED, EXIT_OK, Result};

#[derive(Debug, clap::Args)]
pub(crate) struct CheckOptions {
    /// Print the problems as JSON
    #[arg(long)]
    json: bool,
    /// Give the newer of two items with the same reference a new one, and update its links
    #[arg(long)]
    fix: bool,
    /// Accept that a database lost commits, or is a copy that may lack some, so that it opens again
    /// (stop the server first). New items get higher numbers than every reference that is known
    #[arg(long)]
    accept_loss: bool,
}

pub(crate) fn run(config: &AppConfig, options: &CheckOptions) -> Result<u8> {
    if (options.fix || options.accept_loss) && config.read_only {
        let flag = if options.fix { "--fix" } else { "--accept-loss" };
        let message = format!("{flag} changes the storage, which --read-only forbids");
        return Err(CommandError::failure(message));
    }
    // Before the storage is opened, which refuses it until then.
    let accepted = options.accept_loss.then(|| composition::accept_loss(config)).transpose()?;
    if !options.json
        && let Some(accepted) = &accepted
    {
        // Printed at once, because the check that follows may fail.
        print(&acceptance_text(accepted))?;
    }
    let store = composition::open_project_store(config, false)?;
    let ports = composition::ports_over(config, &store, false)?;
    let caller = composition::local_caller(config);
    let done = composition::block_on(async {
        let damage = find_damage(&*store, &config.storage.to_string()).await?;
        // In a damaged storage, documents may be missing from lists, and nothing may be written.
        if !damage.is_empty() {
            return Ok((RepairReport::default(), Ok(damage)));
        }
        let repairs = if options.fix {
            repair_references(&ports, caller).await?
        } else {
            RepairReport::default()
        };
        Ok::<_, Error>((repairs, check_documents(&ports).await))
    })?;
    let (repairs, mut findings) = done.map_err(CommandError::failure)?;
    if let Ok(findings) = &mut findings {
        for folder in find_nested_projects(config) {
            let message = format!("{NESTED_PROBLEM}; {NESTED_NEXT}");
            findings.push(CheckFinding::of_file(folder, message));
        }
    }
    let is_fine = repairs.refused.is_empty()
        && findings.as_ref().is_ok_and(|found| found.iter().all(|one| one.is_note));
    // Repairs are reported even if the check failed.
    if findings.is_ok() || repairs != RepairReport::default() {
        let found = findings.as_deref().unwrap_or_default();
        if options.json {
            let RepairReport { relinked, renumbered, refused } = &repairs;
            let mut report = json!({
                "fixed": renumbered, "relinked": relinked, "refused": refused, "findings": found,
            });
            if let Some(accepted) = &accepted {
                report["accepted"] = acceptance_json(accepted);
            }
            print_json(&report)?;
        } else {
            if let Some(FoundRoot { folder, reason: Some(reason) }) = &config.found_root
                && *folder != config.working_directory
            {
                print(&format!("Project folder: {} ({reason})\n", folder.display()))?;
            }
            print(&report_text(&repairs, found, is_fine))?;
        }
    }
    findings.map_err(CommandError::failure)?;
    Ok(if is_fine { EXIT_OK } else { EXIT_FAILED })
}

fn acceptance_text(accepted: &AcceptedLoss) -> String {
    let mut text = format!("Accepted: {}.\n", accepted.loss);
    for mark in &accepted.raised {
        let HighWaterMark { project, kind, number } = mark;
        let reference = Reference { kind: *kind, number: *number };
        let scope = if project.is_default() { String::new() } else { format!(" in {project}") };
        text += &format!("New items get numbers after {reference}{scope}.\n");
    }
    text
}

fn acceptance_json(accepted: &AcceptedLoss) -> Value {
    let mut raised = Vec::new();
    for HighWaterMark { project, kind, number } in &accepted.raised {
        raised.push(json!({ "project": project, "kind": kind.name(), "number": number }));
    }
    json!({ "loss": accepted.loss, "raised": raised })
}

fn report_text(repairs: &RepairReport, findings: &[CheckFinding], is_fine: bool) -> String {
    let mut text = String::new();
    for RepairedLink { document, from, to } in &repairs.relinked {
        let document = encode_line(document);
        text += &format!("{document}: the link to {from} now points to {to}\n");
    }
    for RenumberedItem { document, from, to, relinked } in &repairs.renumbered {
        text += &format!("{}: {from} is now {to}", encode_line(document));
        if !relinked.is_empty() {
            text += &format!("; links updated in {}", encode_line(&relinked.join(", ")));
        }
        text += "\n";
    }
    for CheckFinding { document, line, message, .. } in repairs.refused.iter().chain(findings) {
        let (document, message) = (encode_line(document), encode_line(message));
        match line {
            Some(line) => text += &format!("{document}:{line}: {message}\n"),
            None => text += &format!("{document}: {message}\n"),
        }
    }
    if findings.iter().any(|found| found.message.contains("unresolved merge")) {
        text += "`git status` names all files of the merge; run `git add` after each correction.\n";
    }
    if is_fine {
        text += "Nothing to fix.\n";
    }
    text
}
