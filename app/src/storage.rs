//! The storage of documents, as settings and commands name it: `fs`, `sqlite:FILE`, `sled:DIR`.

use std::fmt;
use std::path::{Component, Path, PathBuf};

use crate::exit::CommandError;

/// A storage and its absolute path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Storage {
    Fs(PathBuf),
    Sqlite(PathBuf),
    Sled(PathBuf),
}

/// The folder of this machine's own files, below the root.
pub(crate) const LOCAL: &str = ".reqlore/local";
/// The files that SQLite creates and removes next to a database end so.
const DATABASE_COMPANIONS: [&str; 3] = ["-wal", "-shm", "-journal"];

impl Storage {
    /// Parses a setting or an argument. A relative path begins at `base`; without a path it is the
    /// default one below the root.
    pub(crate) fn read(text: &str, root: &Path, base: &Path) -> Result<Self, CommandError> {
        let (name, place) = text.split_once(':').unwrap_or((text, ""));
        let place = |usual: &str| {
            let place = if place.is_empty() { root.join(usual) } else { base.join(place) };
            resolved(&place.components().collect::<PathBuf>())
        };
        Ok(match name {
            // One name for one place, so that caches are found again.
            "fs" => Self::Fs(place(".")),
            "sqlite" if DATABASE_COMPANIONS.iter().any(|end| text.ends_with(end)) => {
                return Err(CommandError::usage(format!(
                    "storage: {text:?} has the name of a file that SQLite keeps next to a \
                     database; name another one"
                )));
            }
            "sqlite" => Self::Sqlite(place(&format!("{LOCAL}/reqlore.db"))),
            "sled" => Self::Sled(place(&format!("{LOCAL}/sled"))),
            other => {
                return Err(CommandError::usage(format!(
                    "storage: {other:?} is not built into this version; use fs[:DIR], \
                     sqlite[:FILE] or sled[:DIR]"
                )));
            }
        })
    }

    /// Parses the value of a project's own file: a cloned repository must not choose a path outside
    /// of itself.
    pub(crate) fn of_project(text: &str, root: &Path, source: &str) -> Result<Self, CommandError> {
        let place = Path::new(text.split_once(':').map_or("", |(_, place)| place));
        let stays = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
        let storage = Self::read(text, root, root)?;
        // A link on the way leads out as well.
        if place.components().all(stays) && storage.place().starts_with(root) {
            return Ok(storage);
        }
        Err(CommandError::usage(format!(
            "storage: {text:?} ({source}) must be inside the project; use --storage or \
             REQLORE_STORAGE, or name the file with --config"
        )))
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Fs(_) => "fs",
            Self::Sqlite(_) => "sqlite",
            Self::Sled(_) => "sled",
        }
    }

    pub(crate) fn place(&self) -> &Path {
        match self {
            Self::Fs(place) | Self::Sqlite(place) | Self::Sled(place) => place,
        }
    }

    /// True if it is in the folder that Git ignores.
    pub(crate) fn is_local(&self, root: &Path) -> bool {
        self.place().starts_with(root.join(LOCAL))
    }
}

/// The path without links, as far as it exists.
pub(crate) fn resolved(place: &Path) -> PathBuf {
    if let Ok(resolved) = place.canonicalize() {
        return resolved;
    }
    match (place.parent(), place.file_name()) {
        (Some(parent), Some(name)) => resolved(parent).join(name),
        _ => place.to_owned(),
    }
}

impl fmt::Display for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name(), self.place().display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storage_has_a_usual_place_and_may_carry_its_own() {
        let read = |text| match Storage::read(text, Path::new("/root/p"), Path::new("/nowhere")) {
            Ok(storage) => storage.to_string(),
            Err(failure) => failure.message,
        };
        assert_eq!(read("fs"), "fs:/root/p");
        assert_eq!(read("sqlite"), "sqlite:/root/p/.reqlore/local/reqlore.db");
        assert_eq!(read("sled:"), "sled:/root/p/.reqlore/local/sled");
        assert_eq!(read("sqlite:a/b.db"), "sqlite:/nowhere/a/b.db");
        assert!(read("sqlite:a.db-wal").contains("name another one"));
        assert!(read("redis").contains("use fs[:DIR], sqlite[:FILE] or sled[:DIR]"));
    }

    #[test]
    fn a_cloned_repository_chooses_no_place_outside_of_itself() {
        let of = |text| Storage::of_project(text, Path::new("/nowhere/p"), "file");
        assert!(of("sqlite:data/x.db").is_ok());
        for outside in ["sqlite:/tmp/x.db", "sled:../x", "fs:/", "sqlite:a/../../x"] {
            let failure = of(outside).err();
            assert!(failure.is_some_and(|f| f.message.contains("inside the project")), "{outside}");
        }
    }
}
