//! Locations of clients' files and programs, for commands that work with invalid settings too.
//!
//! Of the settings only the root is used. No configuration file is read.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use reqlore_client_config::{ClientEnvironment, Platform};

use crate::config::paths::env_variable;
use crate::config::project_folder;
use crate::exit::{CommandError, Result};
use crate::settings::{self, FILE_VARIABLE, SettingFlags};
use crate::system::{BROWSER_OPENERS, OPENER_ARGUMENTS, is_executable, program_file, user_command};

/// The name of this program, of its package and of its server.
pub(crate) const NAME: &str = "reqlore";
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(crate) fn client_environment(flags: &SettingFlags) -> Result<ClientEnvironment> {
    let project = project_folder(flags)?;
    // Windows has USERPROFILE instead of HOME.
    let home = env_variable("HOME").or_else(|| env_variable("USERPROFILE")).unwrap_or_default();
    let home = PathBuf::from(home);
    if !home.is_absolute() {
        return Err(CommandError::failure(
            "HOME is not set to a folder; set it, because clients' files are located from it",
        ));
    }
    let platform = match std::env::consts::OS {
        "windows" => Platform::Windows,
        "macos" => Platform::MacOs,
        _ => Platform::Linux,
    };
    let mut variables = Vec::new();
    for name in ClientEnvironment::VARIABLES {
        if let Some(value) = env_variable(name) {
            variables.push(((*name).to_owned(), value));
        }
    }
    let path = std::env::split_paths(&env_variable("PATH").unwrap_or_default()).collect();
    Ok(ClientEnvironment { project, home, platform, path, variables })
}

pub(crate) fn is_program(path: &Path) -> bool {
    match std::fs::metadata(path) {
        Ok(metadata) => metadata.is_file() && is_executable(path, &metadata),
        Err(_) => false,
    }
}

/// The folders of `PATH` without relative ones, whose meaning the project decides.
pub(crate) fn path_folders() -> Vec<PathBuf> {
    let path = env_variable("PATH").unwrap_or_default();
    // The working directory is the project, which could contain a program of any name.
    std::env::split_paths(&path).filter(|folder| folder.is_absolute()).collect()
}

/// The program that a shell would start by this name.
pub(crate) fn program_on_path(name: &str) -> Option<PathBuf> {
    programs_on_path(name).into_iter().next()
}

/// The programs of this name in the order of `PATH`.
pub(crate) fn programs_on_path(name: &str) -> Vec<PathBuf> {
    let file = program_file(name);
    let mut programs: Vec<PathBuf> = path_folders().iter().map(|path| path.join(&file)).collect();
    programs.retain(|path| is_program(path));
    programs
}

/// The resolved path of this program.
pub(crate) fn own_program() -> Option<PathBuf> {
    // Resolved, so that it can be compared with a link on PATH.
    dunce::canonicalize(std::env::current_exe().ok()?).ok()
}

/// This program as a stdio server of `root`, which reads no settings except `arguments`.
pub(crate) fn isolated_server(program: &Path, arguments: &[String], root: &Path) -> Command {
    let mut command = Command::new(program);
    for variable in settings::all_settings().filter_map(|setting| setting.variable) {
        command.env_remove(variable);
    }
    // The caches of the user's servers stay untouched.
    command.env_remove(FILE_VARIABLE).env("REQLORE_CACHE", "off").args(arguments);
    command.args(["--storage", "fs", "--transport", "stdio", "--log", "warn"]);
    command.arg("--root").arg(root);
    command
}

/// Runs a command as clients run their hooks. The input must fit in the buffer of a pipe.
pub(crate) fn run_in_shell(command: &str, folder: &Path, input: &str) -> io::Result<Output> {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", command]).current_dir(folder);
    shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = shell.spawn()?;
    if let Some(mut stdin) = running.stdin.take() {
        // A hook may end without reading its input.
        let _ = stdin.write_all(input.as_bytes());
    }
    running.wait_with_output()
}

/// Opens a file in the user's browser; `on_failure` runs if the browser fails later. Returns false
/// if there is no browser.
pub(crate) fn open_in_browser(path: &Path, on_failure: impl FnOnce() + Send + 'static) -> bool {
    let mut command = match env_variable("BROWSER") {
        Some(browser) => user_command(&browser, path),
        None => match BROWSER_OPENERS.iter().find_map(|name| program_on_path(name)) {
            Some(program) => {
                let mut command = Command::new(program);
                command.args(OPENER_ARGUMENTS).arg(path);
                command
            }
            None => return false,
        },
    };
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut browser) = command.spawn() else { return false };
    // Some browsers run until the user closes them.
    std::thread::spawn(move || {
        if !browser.wait().is_ok_and(|status| status.success()) {
            on_failure();
        }
    });
    true
}
