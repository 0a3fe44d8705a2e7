//! Calls of Windows.

use std::fs::Metadata;
use std::io;
use std::os::windows::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// The variables with the folder of temporary files and with the name of the user.
pub(crate) const TEMPORARY_VARIABLE: &str = "TEMP";
pub(crate) const LOGIN_VARIABLES: &[&str] = &["USERNAME"];
/// Separates folders in a variable, as in PATH.
pub(crate) const PATH_SEPARATOR: char = ';';
/// The variables with the folders that Windows has for each user.
pub(crate) const PROFILE_VARIABLE: Option<&str> = Some("USERPROFILE");
pub(crate) const LOCAL_DATA_VARIABLE: Option<&str> = Some("LOCALAPPDATA");

pub(crate) const DEFAULT_EDITOR: &str = "notepad";
/// Programs that open a file in the user's browser, and their first arguments.
pub(crate) const BROWSER_OPENERS: &[&str] = &["rundll32"];
pub(crate) const OPENER_ARGUMENTS: &[&str] = &["url.dll,FileProtocolHandler"];

/// The command of a variable with `path` as its last argument. Through the shell, because the
/// variable may have arguments or name a script.
pub(crate) fn user_command(line: &str, path: &Path) -> Command {
    let mut command = Command::new("cmd");
    // It removes the outer quotes.
    command.args(["/S", "/C"]).raw_arg(format!("\"{line} \"{}\"\"", path.display()));
    // Programs in the project's folder are not trusted.
    command.env("NoDefaultCurrentDirectoryInExePath", "1");
    command
}

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
