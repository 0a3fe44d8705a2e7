//! Storage arguments: `fs[:DIR]`, `sqlite[:FILE]`, `sled[:DIR]`.

use std::fmt;
use std::path::{Path, PathBuf};

use reqlore_domain::identity::redact_echo;
use reqlore_durable_fs::find_special_file;

use crate::config::{check_no_url, is_inside};
use crate::exit::CommandError;

/// A storage and its absolute path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StorageSpec {
    Fs(PathBuf),
    Sqlite(PathBuf),
    Sled(PathBuf),
}

/// The local state directory, below the root.
pub(crate) const LOCAL: &str = ".reqlore/local";
/// Suffixes of the files next to a database.
const SQLITE_FILE_SUFFIXES: [&str; 4] = ["-wal", "-shm", "-journal", "-commits"];

impl StorageSpec {
    /// Parses a setting or an argument. A relative path is relative to `base`; without a path the
    /// default below the root is used.
    pub(crate) fn parse(text: &str, root: &Path, base: &Path) -> Result<Self, CommandError> {
        let (name, path) = text.split_once(':').unwrap_or((text, ""));
        check_no_url("storage", path)?;
        let default = match name {
            "sqlite" => format!("{LOCAL}/reqlore.db"),
            "sled" => format!("{LOCAL}/sled"),
            _ => String::new(),
        };
        let place = if path.is_empty() { root.join(&default) } else { base.join(path) };
        // A cloned repository may contain a link instead of the folder.
        if path.is_empty() && !default.is_empty() && !is_inside(&place, root) {
            return Err(CommandError::usage_error(format!(
                "storage: a link at {default} points outside the project; remove it, or name the \
                 place as {name}:PATH"
            )));
        }
        // Links are resolved so that one place has one name, by which caches find it again.
        let place = resolve_links(&place.components().collect::<PathBuf>());
        Ok(match name {
            "fs" => Self::Fs(place),
            "sqlite" if SQLITE_FILE_SUFFIXES.iter().any(|suffix| text.ends_with(suffix)) => {
                return Err(CommandError::usage_error(format!(
                    "storage: {text:?} is reserved for a file next to a database; choose another \
                     name"
                )));
            }
            "sqlite" => Self::Sqlite(place),
            "sled" => Self::Sled(place),
            other => {
                let other = redact_echo(other);
                return Err(CommandError::usage_error(format!(
                    "storage: {other:?} is not built into this version; use fs[:DIR], \
                     sqlite[:FILE] or sled[:DIR]"
                )));
            }
        })
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Fs(_) => "fs",
            Self::Sqlite(_) => "sqlite",
            Self::Sled(_) => "sled",
        }
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Fs(place) | Self::Sqlite(place) | Self::Sled(place) => place,
        }
    }

    /// True if the setting names no path.
    pub(crate) fn is_default(&self, root: &Path) -> bool {
        Self::parse(self.name(), root, root).is_ok_and(|default| default == *self)
    }

    /// Rejects links, pipes and devices in the folder of a sled database. The other storages check
    /// their files themselves.
    pub(crate) fn check_file_types(&self) -> Result<(), CommandError> {
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
            "storage sled: {} is a link, a pipe or a device; remove it, or name another place",
            file.display()
        )))
    }

    /// True if it is in the local state directory, which Git ignores.
    pub(crate) fn is_local(&self, root: &Path) -> bool {
        self.path().starts_with(root.join(LOCAL))
    }
}

/// Resolves symbolic links in the existing part of a path.
pub(crate) fn resolve_links(place: &Path) -> PathBuf {
    if let Ok(resolved) = place.canonicalize() {
        return resolved;
    }
    match (place.parent(), place.file_name()) {
        (Some(parent), Some(name)) => resolve_links(parent).join(name),
        _ => place.to_owned(),
    }
}

impl fmt::Display for StorageSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name(), self.path().display())
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
        assert!(read("redis").contains("use fs[:DIR], sqlite[:FILE] or sled[:DIR]"));
    }
}
