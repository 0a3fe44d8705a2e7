//! Calls of Windows.

use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};

use crate::config::paths::{env_variable, resolve_links};

/// The variables with the folder of temporary files and with the name of the user.
pub(crate) const TEMPORARY_VARIABLE: &str = "TEMP";
pub(crate) const LOGIN_VARIABLES: &[&str] = &["USERNAME"];
/// Separates folders in a variable, as in PATH.
pub(crate) const PATH_SEPARATOR: char = ';';

/// Windows has no such limits.
pub(crate) fn keep_running_at_file_size_limit() {}

pub(crate) fn raise_open_file_limit() {}

pub(crate) fn open_file_limit() -> usize {
    usize::MAX
}

/// Unknown: lines are whole, unless COLUMNS is set.
pub(crate) fn terminal_size() -> Option<(usize, usize)> {
    None
}

/// The transport itself ends when the console is closed.
#[expect(clippy::unnecessary_wraps, reason = "registering a signal fails on Unix")]
pub(crate) fn terminal_closed() -> io::Result<impl Future<Output = ()>> {
    Ok(std::future::pending())
}

pub(crate) fn is_executable(path: &Path, _: &Metadata) -> bool {
    const EXTENSIONS: [&str; 4] = ["exe", "com", "cmd", "bat"];
    path.extension()
        .is_some_and(|end| EXTENSIONS.iter().any(|known| end.eq_ignore_ascii_case(known)))
}

/// The name of a program's file. Scripts are not searched.
pub(crate) fn program_file(name: &str) -> String {
    if name.contains('.') { name.to_owned() } else { format!("{name}.exe") }
}

pub(crate) fn profile_folder() -> Option<PathBuf> {
    env_variable("USERPROFILE").map(PathBuf::from)
}

pub(crate) fn local_data_folder() -> Option<PathBuf> {
    env_variable("LOCALAPPDATA").map(PathBuf::from)
}

/// Rejects a database that other users of the machine may read: new files get the rights of their
/// folder, and only those of the user's profile are known.
pub(crate) fn check_private_place(file: &Path) -> Result<(), String> {
    let Some(profile) = profile_folder() else {
        return Err("USERPROFILE is not set; set it, or use --transport stdio".to_owned());
    };
    if resolve_links(file).starts_with(resolve_links(&profile)) {
        return Ok(());
    }
    Err(format!(
        "{} is outside of {}, so other users may read it; move it there, or use --transport stdio",
        file.display(),
        profile.display()
    ))
}
