//! `reqlore doctor`: checks everything a working assistant needs, with the next step per finding.
//!
//! It changes nothing, and the files of a project, which may be a cloned repository, can't make it
//! start another program or send a token.

mod clients;
mod git;
mod report;
mod storage;

use std::io::IsTerminal;
use std::path::Path;

use reqlore_client_config::{Client, edit::block};

use super::untrusted_text::{
    AGENTS_MD, MAX_AGENTS_MD_BYTES, agents_md_ignored_by_claude, read_file,
};
use super::{print, print_json};
use crate::client_environment::{NAME, VERSION, client_environment, own_program, program_on_path};
use crate::config::Config;
use crate::exit::{CommandError, OK, REFUSED};
use crate::settings::{FILE, Flags};
use crate::{composition, telemetry};
use report::{AreaReport, DoctorReport, ReportArea};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
    /// Also ask servers at addresses that the project's own files name, with the token
    ///
    /// A repository may name any server. Without this only servers in your own files are asked.
    #[arg(long)]
    with_token: bool,
}

pub(crate) fn run(flags: &Flags, options: &Options) -> Result<u8, CommandError> {
    let mut report = DoctorReport::default();
    let environment = client_environment(flags);
    let config = check_settings(flags, report.area(ReportArea::Settings));
    let config_root = config.as_ref().map(|config| config.root.clone());
    let root = config_root.or_else(|| environment.as_ref().ok().map(|env| env.project.clone()));
    let requirements = config.as_ref().and_then(|config| config.requirements_directory.clone());
    let storage = config.as_ref().map(|config| config.storage.clone());
    check_program(report.area(ReportArea::Program));
    if let Some(config) = config {
        storage::check_all(config, &mut report);
    } else {
        for area in [ReportArea::Storage, ReportArea::Search] {
            report.area(area).note("not checked, because the settings are wrong", "");
        }
    }
    let mut has_claude = false;
    match environment {
        Ok(environment) => {
            has_claude = Client::ClaudeCode.is_present(&environment);
            let area = report.area(ReportArea::Clients);
            clients::check_clients(&environment, storage.as_ref(), options.with_token, area);
        }
        Err(failure) => report.area(ReportArea::Clients).warning("not checked", failure.message),
    }
    if let Some(root) = root {
        git::check_git(&root, requirements.as_deref(), report.area(ReportArea::Git));
        check_agents_md(&root, has_claude, report.area(ReportArea::Instructions));
    }
    if options.json {
        print_json(&report.as_json())?;
    } else {
        print(&report.as_text(std::io::stdout().is_terminal()))?;
    }
    Ok(if report.has_problems() { REFUSED } else { OK })
}

fn check_settings(flags: &Flags, mut report: AreaReport<'_>) -> Option<Config> {
    let config = match resolve_config(flags) {
        Ok(config) => config,
        Err(failure) => {
            let next = "fix that; `reqlore --print-config` shows each setting, its value and its \
                        source";
            report.problem(failure.message, next);
            return None;
        }
    };
    let source = match &config.file {
        Some(file) => format!("{} is used", file.display()),
        None => format!("there is no {FILE}; flags, environment and defaults are used"),
    };
    report.ok(format!("the root is {}; {source}", config.root.display()));
    Some(config)
}

/// The settings, with everything that a server validates before it starts.
fn resolve_config(flags: &Flags) -> Result<Config, CommandError> {
    let config = Config::resolve(flags)?;
    telemetry::targets(&config.log)?;
    composition::check_files(&config)?;
    Ok(config)
}

fn check_program(mut report: AreaReport<'_>) {
    let own = own_program().unwrap_or_default();
    report.ok(format!("{NAME} {VERSION}, {}", own.display()));
    let Some(named) = program_on_path(NAME) else {
        let folder = own.parent().unwrap_or(Path::new("")).display();
        return report.warning(
            format!("no {NAME} on PATH: clients that start it by its name don't find it"),
            format!("add {folder} to PATH, or install it with `npm install --global {NAME}`"),
        );
    };
    if named.canonicalize().is_ok_and(|named| named == own) {
        return report.ok(format!("`{NAME}` on PATH is this program"));
    }
    let named = named.display();
    report.note(
        format!("`{NAME}` on PATH is {named}, not this program; it was not started"),
        format!("clients start that one; `{named} --version` shows its version"),
    );
}

fn check_agents_md(root: &Path, has_claude: bool, mut report: AreaReport<'_>) {
    let next = "`reqlore init` adds a few lines to it that tell an assistant when to call the \
                server";
    let text = match read_file(&root.join(AGENTS_MD), MAX_AGENTS_MD_BYTES) {
        Ok(Some(text)) => text,
        Ok(None) => return report.note(format!("the project's root has no {AGENTS_MD}"), next),
        Err(error) => {
            let next = "make it a file that you can read, as text";
            return report.warning(format!("{AGENTS_MD}: {error}"), next);
        }
    };
    match block::find_block(&text) {
        Ok(Some(_)) => {
            report.ok("it mentions Reqlore");
            if has_claude && let Some([message, next]) = agents_md_ignored_by_claude(root) {
                report.warning(message, next);
            }
        }
        Ok(None) => report.note("it does not mention Reqlore", next),
        Err(error) => report.warning(
            format!("its block for Reqlore is broken: {error}"),
            "correct the markers by hand, then run `reqlore init`",
        ),
    }
}
