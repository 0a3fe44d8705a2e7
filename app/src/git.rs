//! The environment of Git, and the user's name in it.

use std::path::Path;

use reqlore_git_runner::{GitEnvironment, GitRunner};

use crate::client_environment::{path_folders, programs_on_path};
use crate::config::paths::env_variable;
use crate::system::LOGIN_VARIABLES;

const MAX_NAME_CHARS: usize = 100;

pub(crate) fn git_environment() -> GitEnvironment {
    let mut variables = Vec::new();
    for name in GitEnvironment::VARIABLES {
        if let Some(value) = env_variable(name) {
            variables.push(((*name).to_owned(), value));
        }
    }
    GitEnvironment { programs: programs_on_path("git"), path: path_folders(), variables }
}

/// The name of the local user: the author that Git would use, else the login, else `local`.
pub(crate) fn user_name(root: &Path) -> String {
    let author = env_variable("GIT_AUTHOR_NAME").and_then(|name| valid_name(&name));
    let name = author.or_else(|| configured_name(root)).or_else(login_name);
    name.unwrap_or_else(|| "local".to_owned())
}

fn configured_name(root: &Path) -> Option<String> {
    let git = GitRunner::find(root, &git_environment())?;
    valid_name(&git.query(&["config", "--get", "user.name"], Vec::new()).ok()?.text())
}

fn login_name() -> Option<String> {
    valid_name(&LOGIN_VARIABLES.iter().find_map(|name| env_variable(name))?)
}

/// Rejects names with line breaks or over [`MAX_NAME_CHARS`]: names appear in files and logs.
fn valid_name(name: &str) -> Option<String> {
    let name = name.trim();
    let is_valid = (1..=MAX_NAME_CHARS).contains(&name.chars().count());
    (is_valid && !name.contains(char::is_control)).then(|| name.to_owned())
}
