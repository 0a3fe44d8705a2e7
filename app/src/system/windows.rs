//! Calls of Windows.

use std::fs::Metadata;
use std::io;
use std::path::Path;

/// The variables with the folder of temporary files and with the name of the user.
pub(crate) const TEMPORARY_VARIABLE: &str = "TEMP";
pub(crate) const LOGIN_VARIABLES: &[&str] = &["USERNAME"];
/// Separates folders in a variable, as in PATH.
pub(crate) const PATH_SEPARATOR: char = ';';
/// The variables with the folders that Windows has for each user.
pub(crate) const PROFILE_VARIABLE: Option<&str> = Some("USERPROFILE");
pub(crate) const LOCAL_DATA_VARIABLE: Option<&str> = Some("LOCALAPPDATA");

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
