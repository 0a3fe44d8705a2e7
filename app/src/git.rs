//! Runs Git so that a repository's configuration can't start a program; reads the user's name.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use reqlore_probe::{CommandOutput, ProbeError};

use crate::client_environment::{is_program, path_folders, repository_around};
use crate::config::env_variable;

const MAX_NAME_CHARS: usize = 100;
const GIT_TIMEOUT: Duration = Duration::from_secs(10);
/// Keep Git from starting programs that a repository's configuration names.
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
    // Git must not refresh the index.
    ("GIT_OPTIONAL_LOCKS", "0"),
    // A partial clone must not contact its remote.
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ALLOW_PROTOCOL", ""),
    // Messages are compared in English.
    ("LC_ALL", "C"),
];
/// Git sets them inside a hook; they may name another repository than the project's.
const HOOK_VARIABLES: [&str; 5] =
    ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX"];

/// The Git program on `PATH`, run in the project's folder.
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
        let mut folders = path_folders();
        folders.retain(|folder| is_outside(folder, &repository));
        // Git starts its helpers from PATH as well.
        let path = std::env::join_paths(&folders).ok()?;
        for folder in &folders {
            let program = folder.join("git");
            if is_program(&program) && is_outside(&program, &repository) {
                return Some(Self { program, path, root: root.to_owned() });
            }
        }
        None
    }

    pub(crate) fn run_git(&self, arguments: &[&str]) -> Result<CommandOutput, ProbeError> {
        let mut command = Command::new(&self.program);
        command.args(SAFE_OPTIONS).args(arguments).current_dir(&self.root);
        command.envs(SAFE_ENVIRONMENT).env("PATH", &self.path);
        for variable in HOOK_VARIABLES {
            command.env_remove(variable);
        }
        let output = match reqlore_probe::run_command(command, GIT_TIMEOUT) {
            Ok(output) => output,
            Err(ProbeError { message, next }) => {
                return Err(ProbeError { message: format!("git {message}"), next });
            }
        };
        if output.code.is_none() {
            return Err(ProbeError {
                message: format!("git did not exit within {GIT_TIMEOUT:?}"),
                next: "run `git status` in the project to see why it blocks".to_owned(),
            });
        }
        Ok(output)
    }
}

/// True if neither the path nor its link target is in `folder`.
fn is_outside(path: &Path, folder: &Path) -> bool {
    !path.starts_with(folder)
        && path.canonicalize().is_ok_and(|resolved| !resolved.starts_with(folder))
}

/// The name of the local user: the author that Git would use, else the login, else `local`.
pub(crate) fn user_name(root: &Path) -> String {
    let author = env_variable("GIT_AUTHOR_NAME").and_then(|name| valid_name(&name));
    let name = author.or_else(|| configured_name(root)).or_else(login_name);
    name.unwrap_or_else(|| "local".to_owned())
}

fn configured_name(root: &Path) -> Option<String> {
    let output = GitCommand::find(root)?.run_git(&["config", "--get", "user.name"]).ok()?;
    valid_name(&output.text)
}

fn login_name() -> Option<String> {
    valid_name(&env_variable("USER").or_else(|| env_variable("LOGNAME"))?)
}

/// Rejects names with line breaks or over [`MAX_NAME_CHARS`]: names appear in files and logs.
fn valid_name(name: &str) -> Option<String> {
    let name = name.trim();
    let is_valid = (1..=MAX_NAME_CHARS).contains(&name.chars().count());
    (is_valid && !name.contains(char::is_control)).then(|| name.to_owned())
}
