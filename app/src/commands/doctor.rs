//! `reqlore doctor`: checks everything an assistant needs, with the next step for each problem.
//!
//! It changes nothing. Project files may come from a cloned repository, so they can't make it start
//! another program or send a token.

mod clients;
mod git;
mod hooks;
mod report;
mod storage;

use std::io::IsTerminal;
use std::path::Path;

use reqlore_client_config::{Client, edit::block};

use super::untrusted_text::{
    AGENTS_MD, MAX_AGENTS_MD_BYTES, agents_md_ignored_by_claude, read_file,
};
use crate::client_environment::{NAME, VERSION, client_environment, own_program, program_on_path};
use crate::commands::output::{print, print_json};
use crate::config::AppConfig;
use crate::exit::{EXIT_FAILED, EXIT_OK, Result};
use crate::settings::{FILE, SettingFlags};
use crate::{composition, telemetry};
use report::{AreaReport, DoctorReport, ReportArea};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
    /// Also contact servers that the project's files name, and send them the token
    ///
    /// A repository may name any server. By default, only servers in your own files are contacted.
    #[arg(long)]
    with_token: bool,
}

pub(crate) fn run(flags: &SettingFlags, options: &Options) -> Result<u8> {
    let mut report = DoctorReport::default();
    let environment = client_environment(flags);
    let config = check_settings(flags, report.area(ReportArea::Settings));
    // Later checks use the folder even if the settings are invalid.
    let root = match (&config, &environment) {
        (Some(config), _) => Some(config.root.clone()),
        (None, Ok(environment)) => Some(environment.project.clone()),
        (None, Err(_)) => None,
    };
    let mut requirements = None;
    let mut storage = None;
    check_program(report.area(ReportArea::Program));
    if let Some(config) = config {
        requirements.clone_from(&config.requirements_directory);
        storage = Some(config.storage.clone());
        storage::check_all(config, &mut report);
    } else {
        for area in [ReportArea::Storage, ReportArea::Search] {
            report.area(area).note("not checked, because the settings are invalid", "");
        }
    }
    let mut has_claude = false;
    match environment {
        Ok(environment) => {
            has_claude = Client::ClaudeCode.is_present(&environment);
            let area = report.area(ReportArea::Clients);
            clients::check_clients(&environment, storage.as_ref(), options.with_token, area);
            let mut area = report.area(ReportArea::Clients);
            hooks::check_hooks(&environment, options.with_token, &mut area);
        }
        Err(failure) => {
            report.area(ReportArea::Clients).warning("not checked", failure.message);
        }
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
    Ok(if report.has_problems() { EXIT_FAILED } else { EXIT_OK })
}

fn check_settings(flags: &SettingFlags, mut report: AreaReport<'_>) -> Option<AppConfig> {
    let config = match resolve_config(flags) {
        Ok(config) => config,
        Err(failure) => {
            let next = "correct it; `reqlore --print-config` shows each setting with its source";
            report.problem(failure.message, next);
            return None;
        }
    };
    let source = match &config.file {
        Some(file) => format!("settings from {}", file.display()),
        None => format!("no {FILE}, so settings come from flags, environment and defaults"),
    };
    report.ok(format!("root {}; {source}", config.root.display()));
    Some(config)
}

/// The settings, with everything that a server validates before it starts.
fn resolve_config(flags: &SettingFlags) -> Result<AppConfig> {
    let config = AppConfig::resolve(flags)?;
    telemetry::parse_targets(&config.log)?;
    composition::check_files(&config)?;
    Ok(config)
}

fn check_program(mut report: AreaReport<'_>) {
    let own_path = own_program().unwrap_or_default();
    report.ok(format!("{NAME} {VERSION}, {}", own_path.display()));
    let Some(path) = program_on_path(NAME) else {
        let folder = own_path.parent().unwrap_or(Path::new("")).display();
        return report.warning(
            format!("{NAME} is not on PATH, so clients can't start it by name"),
            format!("add {folder} to PATH"),
        );
    };
    if dunce::canonicalize(&path).is_ok_and(|path| path == own_path) {
        return report.ok(format!("`{NAME}` on PATH is this binary"));
    }
    let path = path.display();
    report.note(
        format!("`{NAME}` on PATH is {path}, not this binary; it was not started"),
        format!("clients start {path}; run it with --version to compare"),
    );
}

fn check_agents_md(root: &Path, has_claude: bool, mut report: AreaReport<'_>) {
    let next = "run `reqlore init`; it adds instructions on when to call the server";
    let text = match read_file(&root.join(AGENTS_MD), MAX_AGENTS_MD_BYTES) {
        Ok(Some(text)) => text,
        Ok(None) => return report.note(format!("no {AGENTS_MD} in the project's root"), next),
        Err(error) => {
            let next = "make it a readable text file";
            return report.warning(format!("{AGENTS_MD}: {error}"), next);
        }
    };
    match block::find_block(&text) {
        Ok(Some(_)) => {
            report.ok("has the Reqlore block");
            if has_claude && let Some([message, next]) = agents_md_ignored_by_claude(root) {
                report.warning(message, next);
            }
        }
        Ok(None) => report.note("has no Reqlore block", next),
        Err(error) => report.warning(
            format!("the Reqlore block is broken: {error}"),
            "correct the markers by hand, then run `reqlore init`",
        ),
    }
}
