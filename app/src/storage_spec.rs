//! Storage arguments: `fs[:DIR]`, `sqlite[:FILE]`, `sled[:DIR]`, `postgres://HOST/NAME`.

use std::fmt;
use std::path::{Path, PathBuf};

use reqlore_domain::identity::redact_echo;
use reqlore_domain::unreplaced_variable::check_replaced;
use reqlore_durable_fs::find_special_file;
use reqlore_storage_postgres::PostgresConfig;

use crate::config;
use crate::config::paths::{check_path, is_inside, resolve_links};
use crate::exit::{CommandError, Result};

/// A storage and its absolute path, or the URL of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StorageSpec {
    Fs(PathBuf),
    Sqlite(PathBuf),
    Sled(PathBuf),
    Postgres(Box<PostgresConfig>),
}

/// The local state directory, below the root.
pub(crate) const LOCAL: &str = ".reqlore/local";
/// Suffixes of the files next to a database.
const SQLITE_FILE_SUFFIXES: [&str; 4] = ["-wal", "-shm", "-journal", "-commits"];

impl StorageSpec {
    /// Parses an argument, which other users of the machine can read. A relative path is relative
    /// to `base`; without a path the default below the root is used.
    pub(crate) fn parse(text: &str, root: &Path, base: &Path) -> Result<Self> {
        let storage = Self::parse_private(text, root, base)?;
        if storage.has_password() {
            return Err(CommandError::usage_error(
                "storage: other users can read a password on the command line; remove it from the \
                 URL and set PGPASSWORD, or PGPASSFILE to the path of a password file",
            ));
        }
        Ok(storage)
    }

    /// Like [`Self::parse`], for a text that only this user can read.
    pub(crate) fn parse_private(text: &str, root: &Path, base: &Path) -> Result<Self> {
        if PostgresConfig::is_url(text) {
            check_replaced(text)
                .map_err(|error| CommandError::usage_error(format!("storage: {error}")))?;
            return match PostgresConfig::parse(text, &config::paths::password_sources()) {
                Ok(database) => Ok(Self::Postgres(Box::new(database))),
                Err(error) => Err(CommandError::usage_error(format!("storage: {error}"))),
            };
        }
        let (name, path) = text.split_once(':').unwrap_or((text, ""));
        check_path("storage", path)?;
        let default = match name {
            "sqlite" => format!("{LOCAL}/reqlore.db"),
            "sled" => format!("{LOCAL}/sled"),
            _ => String::new(),
        };
        let full_path = if path.is_empty() { root.join(&default) } else { base.join(path) };
        // A cloned repository may contain a link instead of the folder.
        if path.is_empty() && !default.is_empty() && !is_inside(&full_path, root) {
            return Err(CommandError::usage_error(format!(
                "storage: a link at {default} points outside the project; remove it, or pass \
                 {name}:PATH"
            )));
        }
        // Links are resolved so that one file has one path, by which caches find it again.
        let full_path = resolve_links(&full_path.components().collect::<PathBuf>());
        let storage = match name {
            "fs" => Self::Fs(full_path),
            "sqlite" if SQLITE_FILE_SUFFIXES.iter().any(|suffix| text.ends_with(suffix)) => {
                return Err(CommandError::usage_error(format!(
                    "storage: {text:?} is reserved for a file next to a database; choose another \
                     name"
                )));
            }
            "sqlite" => Self::Sqlite(full_path),
            "sled" => Self::Sled(full_path),
            other => {
                let other = redact_echo(other);
                return Err(CommandError::usage_error(format!(
                    "storage: {other:?} is not built into this version; use fs[:DIR], \
                     sqlite[:FILE], sled[:DIR] or postgres://HOST/NAME"
                )));
            }
        };
        storage.require_supported()
    }

    /// Rejects a storage that this operating system does not have.
    pub(crate) fn require_supported(self) -> Result<Self> {
        if cfg!(unix) || !matches!(self, Self::Sled(_)) {
            return Ok(self);
        }
        let problem = "storage: sled needs Linux or macOS; pass --storage sqlite";
        Err(CommandError::usage_error(problem))
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Fs(_) => "fs",
            Self::Sqlite(_) => "sqlite",
            Self::Sled(_) => "sled",
            Self::Postgres(_) => "postgres",
        }
    }

    /// `None` for a database server.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::Fs(path) | Self::Sqlite(path) | Self::Sled(path) => Some(path),
            Self::Postgres(_) => None,
        }
    }

    /// True if its URL contains a password.
    pub(crate) fn has_password(&self) -> bool {
        matches!(self, Self::Postgres(database) if database.has_url_password())
    }

    /// True if the setting names no path.
    pub(crate) fn is_default(&self, root: &Path) -> bool {
        Self::parse(self.name(), root, root).is_ok_and(|default| default == *self)
    }

    /// Rejects links, pipes and devices in the folder of a sled database. The other storages check
    /// their files themselves.
    pub(crate) fn check_file_types(&self) -> Result<()> {
        let Self::Sled(folder) = self else { return Ok(()) };
        let mut files = vec![folder.clone()];
        // A missing folder is created, and any other problem is reported by sled.
        if let Ok(metadata) = folder.metadata()
            && metadata.is_dir()
            && let Ok(entries) = folder.read_dir()
        {
            files.extend(entries.flatten().map(|entry| entry.path()));
        }
        let Some(file) = find_special_file(files) else { return Ok(()) };
        Err(CommandError::failure(format!(
            "storage sled: {} is a link, a pipe or a device; remove it, or pass another path",
            file.display()
        )))
    }

    /// True if it is in the local state directory, which Git ignores.
    pub(crate) fn is_local(&self, root: &Path) -> bool {
        self.path().is_some_and(|path| path.starts_with(root.join(LOCAL)))
    }
}

impl fmt::Display for StorageSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Postgres(database) => database.fmt(f),
            Self::Fs(path) | Self::Sqlite(path) | Self::Sled(path) => {
                write!(f, "{}:{}", self.name(), path.display())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storage_path_default_and_explicit_are_parsed() {
        let read =
            |text| match StorageSpec::parse(text, Path::new("/root/p"), Path::new("/nowhere")) {
                Ok(storage) => storage.to_string(),
                Err(failure) => failure.message,
            };
        assert_eq!(read("fs"), "fs:/root/p");
        assert_eq!(read("sqlite"), "sqlite:/root/p/.reqlore/local/reqlore.db");
        assert_eq!(read("sled:"), "sled:/root/p/.reqlore/local/sled");
        assert_eq!(read("sqlite:a/b.db"), "sqlite:/nowhere/a/b.db");
        assert!(read("sqlite:a.db-wal").contains("choose another name"));
        assert!(read("redis").contains("use fs[:DIR], sqlite[:FILE], sled[:DIR] or postgres://"));
        assert_eq!(read("postgresql://u@db/n?sslmode=require"), "postgres://u@db:5432/n");
        assert!(read("postgres://u:s3cret@db/n").contains("set PGPASSWORD"));
        assert!(!read("postgres://u:s3cret@db/n").contains("s3cret"));
    }
}
