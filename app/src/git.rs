//! Runs Git without letting the project's repository start a program, and asks it for the user's
//! name.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use reqlore_probe::{CommandOutput, ProbeError};

use crate::client_environment::{is_program, path_folders, repository_around};
use crate::config::variable;

const MAX_NAME_CHARS: usize = 100;
const GIT_TIMEOUT: Duration = Duration::from_secs(10);
/// A repository's configuration may name programs; these settings keep Git from starting them.
const SAFE_OPTIONS: [&str; 9] = [
    "--no-pager",
    "-c",
    "core.quotePath=false",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "safe.bareRepository=explicit",
];
const SAFE_ENVIRONMENT: [(&str, &str); 5] = [
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ALLOW_PROTOCOL", ""),
    ("LC_ALL", "C"),
];
/// Set inside a hook; they name another repository than the project's.
const HOOK_VARIABLES: [&str; 5] =
    ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX"];

/// The Git program of this machine, run in the project's folder.
#[derive(Debug)]
pub(crate) struct GitCommand {
    program: PathBuf,
    path: OsString,
    root: PathBuf,
}

impl GitCommand {
    /// Searches `PATH` for Git. Folders inside the project's repository are skipped: a cloned
    /// repository may contain a program called `git`.
    pub(crate) fn find(root: &Path) -> Option<Self> {
        let repository = repository_around(root).unwrap_or_else(|| root.to_owned());
        let is_safe = |path: &Path| {
            let is_outside = |path: &Path| !path.starts_with(&repository);
            is_outside(path) && path.canonicalize().is_ok_and(|path| is_outside(&path))
        };
        let folders: Vec<PathBuf> =
            path_folders().into_iter().filter(|folder| is_safe(folder)).collect();
        let mut programs = folders.iter().map(|folder| folder.join("git"));
        let program = programs.find(|program| is_program(program) && is_safe(program))?;
        let path = std::env::join_paths(&folders).ok()?;
        Some(Self { program, path, root: root.to_owned() })
    }

    pub(crate) fn run_git(&self, arguments: &[&str]) -> Result<CommandOutput, ProbeError> {
        let mut command = Command::new(&self.program);
        command.args(SAFE_OPTIONS).args(arguments).current_dir(&self.root);
        command.envs(SAFE_ENVIRONMENT).env("PATH", &self.path);
        for variable in HOOK_VARIABLES {
            command.env_remove(variable);
        }
        let output = reqlore_probe::run_command(command, GIT_TIMEOUT).map_err(|error| {
            ProbeError { message: format!("git {}", error.message), next: error.next }
        })?;
        if output.code.is_none() {
            return Err(ProbeError {
                message: format!("git did not end by itself within {GIT_TIMEOUT:?}"),
                next: "run `git status` in the project, and fix what it waits for".to_owned(),
            });
        }
        Ok(output)
    }
}

/// The name of the local user: the author that Git would use, else the login, else `local`.
pub(crate) fn user_name(root: &Path) -> String {
    let configured = || {
        let output = GitCommand::find(root)?.run_git(&["config", "--get", "user.name"]).ok()?;
        valid_name(&output.text)
    };
    let login = || valid_name(&variable("USER").or_else(|| variable("LOGNAME"))?);
    let author = variable("GIT_AUTHOR_NAME").and_then(|name| valid_name(&name));
    author.or_else(configured).or_else(login).unwrap_or_else(|| "local".to_owned())
}

/// Names appear in lists, files and logs, so they are one line of bounded length.
fn valid_name(name: &str) -> Option<String> {
    let name = name.trim();
    let is_valid = (1..=MAX_NAME_CHARS).contains(&name.chars().count());
    (is_valid && !name.contains(char::is_control)).then(|| name.to_owned())
}
