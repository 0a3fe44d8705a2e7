//! The places of clients' files and programs, for commands that work even with wrong settings.
//!
//! Only the root is taken from the settings; no configuration file is read.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use reqlore_client_config::{Platform, Surroundings};

use crate::config::{existing, named_root, variable};
use crate::exit::CommandError;
use crate::settings::{self, FILE_VARIABLE, Flags};

/// The name of this program, of its package and of its server.
pub(crate) const NAME: &str = "reqlore";
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(crate) fn surroundings(flags: &Flags) -> Result<Surroundings, CommandError> {
    let project = existing(&named_root(flags).unwrap_or_else(|| PathBuf::from(".")))?;
    let home = variable("HOME").or_else(|| variable("USERPROFILE")).map(PathBuf::from);
    let home = home.filter(|home| home.is_absolute()).ok_or_else(|| {
        CommandError::refused(
            "HOME is not set to a folder; set it, clients' files are found from it",
        )
    })?;
    let value = |name: &str| Some((name.to_owned(), variable(name)?));
    let platform = match std::env::consts::OS {
        "windows" => Platform::Windows,
        "macos" => Platform::MacOs,
        _ => Platform::Linux,
    };
    Ok(Surroundings {
        project,
        home,
        platform,
        path: std::env::split_paths(&variable("PATH").unwrap_or_default()).collect(),
        variables: Surroundings::VARIABLES.iter().copied().filter_map(value).collect(),
    })
}

pub(crate) fn is_program(path: &Path) -> bool {
    let found = std::fs::metadata(path);
    found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// The folders of `PATH` without relative ones, whose meaning the project decides.
pub(crate) fn path_folders() -> Vec<PathBuf> {
    let path = variable("PATH").unwrap_or_default();
    std::env::split_paths(&path).filter(|folder| folder.is_absolute()).collect()
}

/// The program that a shell would start by this name.
pub(crate) fn program_on_path(name: &str) -> Option<PathBuf> {
    path_folders().iter().map(|folder| folder.join(name)).find(|path| is_program(path))
}

/// The resolved path of this program.
pub(crate) fn own_program() -> Option<PathBuf> {
    std::env::current_exe().ok().and_then(|own| own.canonicalize().ok())
}

/// This program as a stdio server of `root`, independent of all settings outside of `arguments`.
pub(crate) fn isolated_server(own: &Path, arguments: &[String], root: &Path) -> Command {
    let mut command = Command::new(own);
    for variable in settings::all_settings().filter_map(|setting| setting.variable) {
        command.env_remove(variable);
    }
    command.env_remove(FILE_VARIABLE).env("REQLORE_CACHE", "off").args(arguments);
    command.args(["--storage", "fs", "--transport", "stdio", "--log", "warn", "--root"]).arg(root);
    command
}

/// The top folder of the repository around `folder`. A home folder that is a repository does not
/// count: it would contain every project.
pub(crate) fn repository_around(folder: &Path) -> Option<PathBuf> {
    let home = variable("HOME").and_then(|home| Path::new(&home).canonicalize().ok());
    let mut folders = folder.ancestors().take_while(|folder| home.as_deref() != Some(*folder));
    let is_top = |folder: &&Path| folder.join(".git").symlink_metadata().is_ok();
    folders.find(is_top).map(Path::to_owned)
}
