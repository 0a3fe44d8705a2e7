//! The programs of PostgreSQL, and the user who runs them.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const MISSING: &str = "PostgreSQL is not installed; these tests need its server: \
    `apt-get install postgresql` or `brew install postgresql`, \
    or name the folder with initdb and pg_ctl in REQLORE_POSTGRES_BIN";

/// Folders of packages, where PostgreSQL is not on the PATH. A star is a version.
const PACKAGES: [(&str, &str); 4] = [
    ("/usr/lib/postgresql", "bin"),
    ("/usr/pgsql", "bin"),
    ("/opt/homebrew/opt", "bin"),
    ("/usr/local/opt", "bin"),
];

/// The folder of the server's programs.
#[expect(clippy::disallowed_methods, reason = "a developer names the programs")]
pub(crate) fn programs() -> PathBuf {
    if let Some(folder) = std::env::var_os("REQLORE_POSTGRES_BIN") {
        let folder = PathBuf::from(folder);
        assert!(has_server(&folder), "REQLORE_POSTGRES_BIN: initdb is not in {}", folder.display());
        return folder;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .find(|folder| has_server(folder))
        .or_else(newest_package)
        .expect(MISSING)
}

fn has_server(folder: &Path) -> bool {
    folder.join("initdb").is_file() && folder.join("pg_ctl").is_file()
}

fn newest_package() -> Option<PathBuf> {
    let mut found = Vec::new();
    for (root, programs) in PACKAGES {
        for entry in fs::read_dir(root).into_iter().flatten().flatten() {
            let folder = entry.path().join(programs);
            if has_server(&folder) {
                let digits = |one: char| !one.is_ascii_digit();
                let name = entry.file_name().to_string_lossy().into_owned();
                found.push((name.trim_matches(digits).parse::<u32>().unwrap_or(0), folder));
            }
        }
    }
    found.sort();
    found.pop().map(|(_, folder)| folder)
}

/// User and group without rights on Linux, in case no package has created `postgres`.
const UNPRIVILEGED_ID: u32 = 65_534;

/// User and group that run the server: it refuses to run as root.
fn server_account(folder: &Path) -> Option<(u32, u32)> {
    if fs::metadata(folder).unwrap().uid() != 0 {
        return None;
    }
    let accounts = fs::read_to_string("/etc/passwd").unwrap();
    for line in accounts.lines() {
        let fields = line.split(':').collect::<Vec<_>>();
        if let ["postgres", _, user, group, ..] = fields[..] {
            return Some((user.parse().unwrap(), group.parse().unwrap()));
        }
    }
    Some((UNPRIVILEGED_ID, UNPRIVILEGED_ID))
}

/// A folder of a cluster. Its owner is the user of this process.
pub(crate) struct ServerPlace {
    pub(crate) programs: PathBuf,
    pub(crate) folder: PathBuf,
    account: Option<(u32, u32)>,
}

impl ServerPlace {
    pub(crate) fn create() -> Self {
        let programs = programs();
        let folder = tempfile::Builder::new().prefix("reqlore-postgres-").tempdir().unwrap().keep();
        let account = server_account(&folder);
        let place = Self { programs, folder, account };
        fs::create_dir(place.folder.join("users")).unwrap();
        fs::create_dir(place.server_folder()).unwrap();
        if account.is_some() {
            // Lets the other user pass, not list.
            set_mode(&place.folder, 0o711);
        }
        place.hand_over(&place.server_folder());
        place
    }

    /// The folder that belongs to the user of the server.
    pub(crate) fn server_folder(&self) -> PathBuf {
        self.folder.join("server")
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.server_folder().join("data")
    }

    /// Writes a file that only the server can read.
    pub(crate) fn write_private(&self, path: &Path, text: &str) {
        fs::write(path, text).unwrap();
        set_mode(path, 0o600);
        self.hand_over(path);
    }

    /// Makes the user of the server the owner.
    pub(crate) fn hand_over(&self, path: &Path) {
        if let Some((user, group)) = self.account {
            chown(path, Some(user), Some(group)).unwrap();
        }
    }

    /// Runs a program as the user of the server, without its output. `Err` is what it printed.
    pub(crate) fn run<A: AsRef<OsStr>>(
        &self,
        program: &str,
        arguments: &[A],
    ) -> Result<(), String> {
        // pg_ctl leaves its output to the server, so a pipe would not end.
        let output = self.folder.join("output");
        let file = fs::File::create(&output).unwrap();
        let mut command = Command::new(self.programs.join(program));
        command
            .args(arguments)
            .current_dir(self.server_folder())
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file);
        if let Some((user, group)) = self.account {
            command.uid(user).gid(group);
        }
        let status = command.status().unwrap();
        if status.success() {
            return Ok(());
        }
        Err(format!("{program}: {}", fs::read_to_string(output).unwrap()))
    }
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}
