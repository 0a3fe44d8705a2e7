//! Starts a server to ask who it is, so that nothing comes of it.
//!
//! The trap: a server that starts makes its storage, brings it up to date, or can't have it since a
//! client's server has it. So it gets an empty folder as its project, and what the entry says of
//! settings is judged by reading it, not by serving with it. And npm takes a package from whichever
//! folder above has one, also from a shared one for what is temporary. So nothing is above.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use reqlore_probe::{Hello, NoAnswer, command};
use tempfile::TempDir;

use super::programs::Programs;
use crate::settings::{self, FILE_VARIABLE};

/// As long as `npx` may take to fetch what is not there yet.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Where it starts: nobody but the machine's administrator puts anything there.
const PLACE: &str = "/";
/// A server that serves nothing; `fs` makes nothing before it is asked to.
const ARGUMENTS: [&str; 8] =
    ["serve", "--storage", "fs", "--transport", "stdio", "--log", "error", "--root"];

/// A program that is Reqlore, after the words that lead to it.
pub(super) fn ours(
    programs: &Programs,
    program: &Path,
    before: &[String],
) -> Result<Hello, NoAnswer> {
    let folder = empty()?;
    let mut command = made(programs, program);
    for variable in settings::all().filter_map(|setting| setting.variable) {
        command.env_remove(variable);
    }
    command.env_remove(FILE_VARIABLE);
    command.args(before).args(ARGUMENTS).arg(folder.path()).env("REQLORE_CACHE", "off");
    command::hello(command, TIMEOUT)
}

/// Any other program that a person told a client to start, as it was written.
pub(super) fn theirs(
    programs: &Programs,
    program: &Path,
    arguments: &[String],
    variables: &[(String, String)],
) -> Result<Hello, NoAnswer> {
    let folder = empty()?;
    let mut command = made(programs, program);
    command.args(arguments).envs(variables.iter().map(|(name, value)| (name, value)));
    // For a wrapper that leads to a server of ours.
    command.env("REQLORE_STORAGE", "fs").env("REQLORE_TRANSPORT", "stdio");
    command.env("REQLORE_ROOT", folder.path()).env("REQLORE_CACHE", "off");
    command::hello(command, TIMEOUT)
}

fn made(programs: &Programs, program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("PATH", programs.path()).current_dir(PLACE);
    command
}

fn empty() -> Result<TempDir, NoAnswer> {
    let folder = tempfile::Builder::new().prefix("reqlore-doctor-").tempdir();
    folder.map_err(|error| NoAnswer {
        message: format!("was not started: no temporary folder could be made ({error})"),
        next: "set TMPDIR to a folder that you may write to".to_owned(),
    })
}
