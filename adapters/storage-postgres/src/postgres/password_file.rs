//! Password files in the format of `.pgpass`, and other files that only their owner may read.

use std::fmt;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use tokio_postgres::Config;
use tokio_postgres::config::Host;

use super::system;

const MAX_FILE_BYTES: u64 = 1 << 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PasswordFile {
    path: PathBuf,
    is_required: bool,
}

impl fmt::Display for PasswordFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.display().fmt(formatter)
    }
}

impl PasswordFile {
    pub(crate) fn required(path: PathBuf) -> Self {
        Self { path, is_required: true }
    }

    pub(crate) fn optional(path: PathBuf) -> Self {
        Self { path, is_required: false }
    }

    /// Returns the password of the first line that matches. The error names the file.
    pub(crate) fn find_password(&self, target: &Config) -> Result<Option<String>, String> {
        if !self.is_required
            && self.path.metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound)
        {
            return Ok(None);
        }
        let text = read_private(&self.path)?;
        Ok(text.lines().find_map(|line| match_line(line, target)))
    }
}

/// Reads a file that holds a secret. Like libpq, rejects one that other users can read; the group
/// may read a file of root, which is how containers mount secrets.
pub(crate) fn read_private(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let failed = |error: std::io::Error| format!("{shown}: it can't be read: {error}");
    // A pipe would block.
    if !path.metadata().map_err(failed)?.is_file() {
        return Err(format!("{shown}: it is not a regular file; name another one"));
    }
    let file = File::open(path).map_err(failed)?;
    if system::is_readable_by_others(&file.metadata().map_err(failed)?) {
        return Err(format!("{shown}: other users can read it; run `chmod 600` on it"));
    }
    let mut text = String::new();
    file.take(MAX_FILE_BYTES).read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

/// The password of a line `host:port:database:user:password`, if the other fields match. A field
/// may be `*`; a backslash escapes a colon or a backslash.
fn match_line(line: &str, target: &Config) -> Option<String> {
    if line.starts_with('#') {
        return None;
    }
    let mut fields = vec![String::new()];
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            ':' if fields.len() < 5 => fields.push(String::new()),
            '\\' => fields.last_mut()?.extend(letters.next()),
            _ => fields.last_mut()?.push(letter),
        }
    }
    let [host, port, database, user, password] = fields.try_into().ok()?;
    let fits = |field: &str, value: Option<&str>| field == "*" || value == Some(field);
    let is_host = match target.get_hosts().first()? {
        Host::Tcp(name) => fits(&host, Some(name)),
        #[cfg(unix)]
        Host::Unix(folder) => host == "localhost" || fits(&host, folder.to_str()),
    };
    let actual_port = target.get_ports().first().map_or("5432".to_owned(), u16::to_string);
    let actual_user = target.get_user();
    let is_match = is_host
        && fits(&port, Some(&actual_port))
        && fits(&database, target.get_dbname().or(actual_user))
        && fits(&user, actual_user);
    is_match.then_some(password)
}
