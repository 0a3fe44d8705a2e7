//! Storage arguments: `fs[:DIR]`, `sqlite[:FILE]`, `sled[:DIR]`.

use std::fmt;
use std::path::{Component, Path, PathBuf};

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
/// Suffixes of the files that SQLite keeps next to a database.
const SQLITE_FILE_SUFFIXES: [&str; 3] = ["-wal", "-shm", "-journal"];

impl StorageSpec {
    /// Parses a setting or an argument. A relative path is relative to `base`; without a path the
    /// default below the root is used.
    pub(crate) fn parse(text: &str, root: &Path, base: &Path) -> Result<Self, CommandError> {
        let (name, path) = text.split_once(':').unwrap_or((text, ""));
        // Links are resolved so that one place has one name, by which caches find it again.
        let resolve = |default: &str| {
            let path = if path.is_empty() { root.join(default) } else { base.join(path) };
            resolve_links(&path.components().collect::<PathBuf>())
        };
        Ok(match name {
            "fs" => Self::Fs(resolve(".")),
            "sqlite" if SQLITE_FILE_SUFFIXES.iter().any(|suffix| text.ends_with(suffix)) => {
                return Err(CommandError::usage_error(format!(
                    "storage: {text:?} is reserved for a file that SQLite keeps next to a \
                     database; choose another name"
                )));
            }
            "sqlite" => Self::Sqlite(resolve(&format!("{LOCAL}/reqlore.db"))),
            "sled" => Self::Sled(resolve(&format!("{LOCAL}/sled"))),
            other => {
                return Err(CommandError::usage_error(format!(
                    "storage: {other:?} is not built into this version; use fs[:DIR], \
                     sqlite[:FILE] or sled[:DIR]"
                )));
            }
        })
    }

    /// Parses the value of a project's own file, which must not choose a path outside the project.
    pub(crate) fn parse_project_value(
        text: &str,
        root: &Path,
        source: &str,
    ) -> Result<Self, CommandError> {
        let (_, path) = text.split_once(':').unwrap_or_default();
        let mut parts = Path::new(path).components();
        let is_inside = parts.all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        let storage = Self::parse(text, root, root)?;
        // A symbolic link could also lead out of the project.
        if is_inside && storage.path().starts_with(root) {
            return Ok(storage);
        }
        Err(CommandError::usage_error(format!(
            "storage: {text:?} ({source}) must be inside the project; use --storage or \
             REQLORE_STORAGE, or pass the file with --config"
        )))
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

    #[test]
    fn storage_in_project_file_outside_project_is_refused() {
        let of = |text| StorageSpec::parse_project_value(text, Path::new("/nowhere/p"), "file");
        assert!(of("sqlite:data/x.db").is_ok());
        for outside in ["sqlite:/tmp/x.db", "sled:../x", "fs:/", "sqlite:a/../../x"] {
            let failure = of(outside).err();
            assert!(failure.is_some_and(|f| f.message.contains("inside the project")), "{outside}");
        }
    }
}
