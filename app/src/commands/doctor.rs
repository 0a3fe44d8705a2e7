//! `reqlore doctor`: looks at everything that stands between a person and a working assistant.
//!
//! A finding says what to do next. The traps: it changes nothing, so no storage is opened as a
//! server opens it, and what it has to start gets an empty folder as its project and is ended. A
//! wrapper of a person's own is started as it was written, and may do what it likes. And a project
//! may be somebody else's: what its files name is started only as far as `trust` allows, and asked
//! only as far as `remote` does.

mod clients;
mod entry;
mod finding;
mod git;
mod http;
mod instructions;
mod permissions;
mod program;
mod programs;
mod remote;
mod search;
mod settings;
mod started;
mod storage;
mod subject;
mod trust;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use reqlore_client_config::Client;

use super::print;
use crate::config::Config;
use crate::exit::{CommandError, OK, REFUSED};
use crate::settings::Flags;
use crate::surroundings::surroundings;
use clients::Known;
use finding::{Area, Findings};
use programs::Programs;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
    /// Also ask servers at addresses that the project's own files name, with the token
    ///
    /// A repository may name any server. Without this only those are asked that your own files
    /// name.
    #[arg(long)]
    with_token: bool,
}

pub(crate) fn run(flags: &Flags, options: &Options) -> Result<u8, CommandError> {
    let mut findings = Findings::default();
    let around = surroundings(flags);
    let config = settings::look(flags, &mut findings);
    let root = config.as_ref().map(|config| config.root.clone());
    let root = root.or_else(|| around.as_ref().ok().map(|around| around.project.clone()));
    let requirements = config.as_ref().and_then(|config| config.requirements_directory.clone());
    let storage = config.as_ref().map(|config| config.storage.clone());
    let programs = Programs::find(root.as_deref());
    program::look(&programs, &mut findings);
    if let Some(config) = config {
        configured(config, &mut findings);
    } else {
        for area in [Area::Storage, Area::Search] {
            findings.note(area, "not looked at, since the settings are wrong", None);
        }
    }
    let is_claude_here = around.as_ref().is_ok_and(|around| Client::ClaudeCode.is_present(around));
    match around {
        Ok(around) => {
            let known = Known { around: &around, programs: &programs, storage };
            clients::look(&known, options.with_token, &mut findings);
        }
        Err(failure) => {
            findings.warning(Area::Clients, "not looked at", &failure.message);
        }
    }
    if let Some(root) = root {
        git::look(&root, requirements.as_deref(), &programs, &mut findings);
        instructions::look(&root, is_claude_here, &mut findings);
    }
    let shown = if options.json {
        findings.as_json()?
    } else {
        findings.as_text(std::io::stdout().is_terminal())
    };
    print(&shown)?;
    Ok(if findings.has_problems() { REFUSED } else { OK })
}

/// What can be told only where the settings are right.
fn configured(mut config: Config, findings: &mut Findings) {
    permissions::look(&config, findings);
    search::look(&config, findings);
    // From here on nothing is to be kept of what is read.
    config.cache = None;
    "off".clone_into(&mut config.model);
    let store = storage::look(&config, findings);
    if let Some(other) = config.overlooked() {
        let next = format!("`reqlore doctor --storage {}` looks at that one", other.name());
        let message = format!("{other} is there too, and nothing reads it by default");
        findings.note(Area::Storage, message, Some(&next));
    }
    http::look(&config, store.as_ref(), findings);
}

/// A path as people know it.
fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// The whole path of this program.
fn own() -> Option<PathBuf> {
    std::env::current_exe().ok().and_then(|own| own.canonicalize().ok())
}
