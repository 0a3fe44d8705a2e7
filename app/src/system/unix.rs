//! Calls of Linux and macOS.

use std::fs::Metadata;
use std::io;
use std::path::Path;
use std::process::Command;

use rustix::process::{Resource, Rlimit};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

/// The variables with the folder of temporary files and with the name of the user.
pub(crate) const TEMPORARY_VARIABLE: &str = "TMPDIR";
pub(crate) const LOGIN_VARIABLES: &[&str] = &["USER", "LOGNAME"];
/// Separates folders in a variable, as in PATH.
pub(crate) const PATH_SEPARATOR: char = ':';
/// The variables with the folders that Windows has for each user.
pub(crate) const PROFILE_VARIABLE: Option<&str> = None;
pub(crate) const LOCAL_DATA_VARIABLE: Option<&str> = None;

pub(crate) const DEFAULT_EDITOR: &str = "vi";
/// Programs that open a file in the user's browser, and their first arguments.
pub(crate) const BROWSER_OPENERS: &[&str] = &["xdg-open", "open"];
pub(crate) const OPENER_ARGUMENTS: &[&str] = &[];

/// The signal of a write beyond the file size limit, on Linux (x86, ARM) and macOS.
const SIGXFSZ: i32 = 25;

/// The command of a variable with `path` as its last argument. Through the shell, as in Git,
/// because the variable may have arguments.
pub(crate) fn user_command(line: &str, path: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{line} \"$@\""), "sh"]).arg(path);
    command
}

/// Makes a write beyond the limit of `ulimit -f` an error. Without a handler it ends the process.
pub(crate) fn keep_running_at_file_size_limit() {
    let Ok(runtime) = Builder::new_current_thread().enable_all().build() else { return };
    let _guard = runtime.enter();
    // The handler stays for the life of the process, also after the stream is dropped.
    let installed = signal(SignalKind::from_raw(SIGXFSZ));
    // Without it, only this rare case is worse.
    drop(installed);
}

/// Raises the soft limit of open files to the hard limit. The usual soft limit of 1,024 exists for
/// programs that use `select`.
pub(crate) fn raise_open_file_limit() {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    // Some systems reject their own maximum. Then fewer search indexes are open.
    let _ = rustix::process::setrlimit(Resource::Nofile, raised);
}

/// The current limit of open files of this process.
pub(crate) fn open_file_limit() -> usize {
    let limit = rustix::process::getrlimit(Resource::Nofile).current;
    limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
}

/// Columns and rows of the terminal on standard output.
pub(crate) fn terminal_size() -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok().filter(|size| size.ws_col > 0);
    size.map(|size| (usize::from(size.ws_col), usize::from(size.ws_row)))
}

/// Resolves when the terminal is closed. Must be called inside a Tokio runtime.
pub(crate) fn terminal_closed() -> io::Result<impl Future<Output = ()>> {
    let mut hang_up = signal(SignalKind::hangup())?;
    Ok(async move {
        hang_up.recv().await;
    })
}

pub(crate) fn is_executable(_: &Path, metadata: &Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    metadata.permissions().mode() & 0o111 != 0
}

/// The name of a program's file.
pub(crate) fn program_file(name: &str) -> String {
    name.to_owned()
}
