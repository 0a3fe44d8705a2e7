//! The database's files: their folder, their file system, and their identity since they were
//! opened.
//!
//! This process must never open the files by itself: closing such a descriptor drops SQLite's
//! locks. Everything here goes by path.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use reqlore_domain::ports::documents::StoreResult;
use reqlore_durable_fs as durable_fs;
use reqlore_sqlite_team::error::{RESTORE, refused, unavailable};

use crate::error::{DATABASE_NAME, io_error};

/// The size of SQLite's header in bytes; no database is smaller.
const HEADER_BYTES: u64 = 100;

#[derive(Debug)]
pub(crate) struct DatabaseFile {
    /// The path as it was given, for messages of opening.
    pub(crate) shown_path: String,
    pub(crate) path: PathBuf,
    wal_path: PathBuf,
    shm_path: PathBuf,
    /// Of the three files, when they were opened.
    opened_identities: OnceLock<[Option<FileIdentity>; 3]>,
}

/// Device and inode.
type FileIdentity = (u64, u64);

/// The path of a file next to the database.
pub(crate) fn sibling_path(file: &Path, suffix: &str) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

impl DatabaseFile {
    /// Creates a missing folder, and refuses what can't hold a database.
    pub(crate) fn prepare(given: &Path) -> StoreResult<Self> {
        let shown = given.display().to_string();
        let fail = |doing| move |error| io_error(&given.display().to_string(), doing, error);
        let file = std::path::absolute(given).map_err(fail("find it"))?;
        let Some(folder) = file.parent() else {
            return Err(refused(&shown, "is not a file; name one"));
        };
        let created = durable_fs::create_private_dirs(folder)
            .and_then(|created| created.iter().try_for_each(|dir| durable_fs::sync_dir(dir)));
        created.map_err(fail("create its folder"))?;
        let is_network = durable_fs::is_network_fs(folder);
        if is_network.map_err(fail("inspect its file system"))? {
            return Err(refused(
                &shown,
                "lies on a network file system, where a database can't be locked; put it on a \
                 disk of this machine",
            ));
        }
        let (wal, shm) = (sibling_path(&file, "-wal"), sibling_path(&file, "-shm"));
        let place = Self {
            shown_path: shown,
            wal_path: wal,
            shm_path: shm,
            path: file,
            opened_identities: OnceLock::new(),
        };
        place.check_links()?;
        place.check_file()?;
        Ok(place)
    }

    /// Refuses symbolic links. Callers have resolved the path, so a link here is dangling, and
    /// SQLite would create a file at its target.
    fn check_links(&self) -> StoreResult<()> {
        for (path, _) in self.files() {
            match fs::symlink_metadata(path) {
                Ok(found) if found.is_symlink() => {
                    let reason = format!(
                        "is not used, because {} is a symbolic link; it was not followed. Remove \
                         it, or name another file",
                        path.file_name().unwrap_or_default().display()
                    );
                    return Err(refused(&self.shown_path, reason));
                }
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(io_error(&self.shown_path, "look at it", error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn check_file(&self) -> StoreResult<()> {
        let is_empty = match fs::metadata(&self.path) {
            Ok(found) if !found.is_file() => {
                return Err(refused(&self.shown_path, "is no regular file; name another one"));
            }
            Ok(found) if durable_fs::has_hard_links(&found) => {
                let reason = "has a second name (a hard link); its log goes by the name, so by two \
                              names it would lose commits. Remove the other name";
                return Err(refused(&self.shown_path, reason));
            }
            // SQLite takes a file of a byte for an empty one.
            Ok(found) if (1..HEADER_BYTES).contains(&found.len()) => {
                let reason = "is not an SQLite database; it was not touched. Name another file";
                return Err(refused(&self.shown_path, reason));
            }
            Ok(found) => found.len() == 0,
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => return Err(io_error(&self.shown_path, "look at it", error)),
        };
        // SQLite would discard the log of a missing or empty database.
        if is_empty && self.has_pending_log() {
            let reason = format!(
                "is missing or empty, and the -wal file beside it is not; put the database back, \
                 or {RESTORE}"
            );
            return Err(refused(&self.shown_path, reason));
        }
        Ok(())
    }

    pub(crate) fn exists(&self) -> bool {
        fs::metadata(&self.path).is_ok()
    }

    /// True if the log holds commits that may not be in the database itself yet.
    pub(crate) fn has_pending_log(&self) -> bool {
        fs::metadata(&self.wal_path).is_ok_and(|found| found.len() > 0)
    }

    pub(crate) fn has_log(&self) -> bool {
        fs::metadata(&self.wal_path).is_ok()
    }

    pub(crate) fn has_shared_memory(&self) -> bool {
        fs::metadata(&self.shm_path).is_ok()
    }

    /// Only the owner may read it. SQLite gives the files next to it the same mode.
    pub(crate) fn make_private(&self) -> StoreResult<()> {
        let set = durable_fs::make_private(&self.path);
        set.map_err(|error| io_error(&self.shown_path, "set its rights", error))
    }

    /// Makes the names in its folder durable.
    pub(crate) fn sync_folder(&self) -> StoreResult<()> {
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        durable_fs::sync_dir(folder)
            .map_err(|error| io_error(&self.shown_path, "sync its folder", error))
    }

    /// Records the identity of the files for later checks.
    pub(crate) fn record_identity(&self) {
        let _ = self
            .opened_identities
            .set(self.files().map(|(path, min_size)| file_identity(path, min_size)));
    }

    /// Fails if the database was deleted or replaced: its content would be stale.
    pub(crate) fn check_identity(&self) -> StoreResult<()> {
        self.check_first_files(1)
    }

    /// The same for the log too, through which writes go.
    pub(crate) fn check_all_identities(&self) -> StoreResult<()> {
        self.check_first_files(3)
    }

    fn check_first_files(&self, count: usize) -> StoreResult<()> {
        let opened = self.opened_identities.get().into_iter().flatten();
        for ((path, min_size), opened) in self.files().into_iter().zip(opened).take(count) {
            if opened.is_some() && *opened != file_identity(path, min_size) {
                return Err(unavailable(
                    DATABASE_NAME,
                    "its file was deleted, emptied, moved or replaced while it was open. Nothing \
                     was written; put it back, or start reqlore again to use what is there now",
                ));
            }
        }
        Ok(())
    }

    /// Each with its minimum size in bytes.
    fn files(&self) -> [(&Path, u64); 3] {
        [(&self.path, 1), (&self.wal_path, 0), (&self.shm_path, 0)]
    }
}

fn file_identity(path: &Path, min_size: u64) -> Option<FileIdentity> {
    let found = fs::metadata(path).ok()?;
    (found.len() >= min_size).then(|| durable_fs::file_id(&found))
}
