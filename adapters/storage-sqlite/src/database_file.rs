//! The files of a database: checks before opening, and their identity while they are open.
//!
//! This process must not open the files itself: closing such a descriptor would drop SQLite's
//! locks. So all functions here use paths.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use reqlore_domain::ports::documents::StoreResult;
use reqlore_durable_fs as durable_fs;
use reqlore_sqlite_team::error::{RESTORE_HINT, refused, unavailable};

use crate::error::{DATABASE_NAME, io_error};

/// Size of SQLite's header, which is the minimum size of a database.
const HEADER_BYTES: u64 = 100;

#[derive(Debug)]
pub(crate) struct DatabaseFile {
    /// The path as the user wrote it, for messages while opening.
    pub(crate) shown_path: String,
    pub(crate) path: PathBuf,
    wal_path: PathBuf,
    shm_path: PathBuf,
    /// Identities of the three files when they were opened.
    opened_identities: OnceLock<[Option<FileIdentity>; 3]>,
}

/// Device and inode.
type FileIdentity = (u64, u64);

/// Returns the path of a file next to the database.
pub(crate) fn sibling_path(file: &Path, suffix: &str) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

impl DatabaseFile {
    /// Creates a missing folder. Refuses files and folders that cannot hold a database.
    pub(crate) fn prepare(path: &Path) -> StoreResult<Self> {
        let shown_path = path.display().to_string();
        let path =
            std::path::absolute(path).map_err(|error| io_error(&shown_path, "find it", error))?;
        let Some(folder) = path.parent() else {
            return Err(refused(&shown_path, "is not a file; name one"));
        };
        // First, because the check of the file system needs an existing folder.
        create_folder(folder).map_err(|error| io_error(&shown_path, "create its folder", error))?;
        let is_network = durable_fs::is_network_fs(folder)
            .map_err(|error| io_error(&shown_path, "inspect its file system", error))?;
        if is_network {
            let reason = "is on a network file system, where locks are not reliable; put it on a \
                          local disk";
            return Err(refused(&shown_path, reason));
        }
        let database = Self {
            shown_path,
            wal_path: sibling_path(&path, "-wal"),
            shm_path: sibling_path(&path, "-shm"),
            path,
            opened_identities: OnceLock::new(),
        };
        database.check_links()?;
        database.check_file()?;
        Ok(database)
    }

    /// Refuses symbolic links. Callers resolved the path, so a link here is dangling, and SQLite
    /// would create a file at its target.
    fn check_links(&self) -> StoreResult<()> {
        for (path, _) in self.files() {
            match fs::symlink_metadata(path) {
                Ok(metadata) if metadata.is_symlink() => {
                    let name = path.file_name().unwrap_or_default().display();
                    let reason =
                        format!("{name} is a symbolic link; remove it, or name another file");
                    return Err(refused(&self.shown_path, reason));
                }
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(io_error(&self.shown_path, "inspect it", error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn check_file(&self) -> StoreResult<()> {
        let is_empty = match fs::metadata(&self.path) {
            Ok(metadata) if !metadata.is_file() => {
                return Err(refused(&self.shown_path, "is not a regular file; name another file"));
            }
            // The log is found by name, so two names have two logs.
            Ok(metadata) if durable_fs::has_hard_links(&metadata) => {
                let reason = "has a second name (a hard link) and could lose commits; remove the \
                              other name";
                return Err(refused(&self.shown_path, reason));
            }
            // SQLite treats a file of one byte as empty and would overwrite it.
            Ok(metadata) if (1..HEADER_BYTES).contains(&metadata.len()) => {
                let reason = "is not an SQLite database; name another file";
                return Err(refused(&self.shown_path, reason));
            }
            Ok(metadata) => metadata.len() == 0,
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => return Err(io_error(&self.shown_path, "inspect it", error)),
        };
        // SQLite would discard the log of a missing or empty database.
        if is_empty && self.has_pending_log() {
            let reason = format!(
                "is missing or empty, but its -wal file is not; put the database back, or \
                 {RESTORE_HINT}"
            );
            return Err(refused(&self.shown_path, reason));
        }
        Ok(())
    }

    pub(crate) fn exists(&self) -> bool {
        fs::metadata(&self.path).is_ok()
    }

    /// True if the log may contain commits that are not in the database file yet.
    pub(crate) fn has_pending_log(&self) -> bool {
        fs::metadata(&self.wal_path).is_ok_and(|metadata| metadata.len() > 0)
    }

    pub(crate) fn has_log(&self) -> bool {
        fs::metadata(&self.wal_path).is_ok()
    }

    pub(crate) fn has_shared_memory(&self) -> bool {
        fs::metadata(&self.shm_path).is_ok()
    }

    /// Makes the file accessible to its owner only. SQLite creates its other files with the same
    /// mode.
    pub(crate) fn make_private(&self) -> StoreResult<()> {
        durable_fs::make_private(&self.path)
            .map_err(|error| io_error(&self.shown_path, "set its permissions", error))
    }

    /// Makes the names in the database's folder durable.
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

    /// Fails if the database was deleted or replaced, because its content would be stale.
    pub(crate) fn check_identity(&self) -> StoreResult<()> {
        self.check_first_files(1)
    }

    /// Like [`Self::check_identity`], including the log, which receives the writes.
    pub(crate) fn check_all_identities(&self) -> StoreResult<()> {
        self.check_first_files(3)
    }

    fn check_first_files(&self, count: usize) -> StoreResult<()> {
        let opened = self.opened_identities.get().into_iter().flatten();
        for ((path, min_size), opened) in self.files().into_iter().zip(opened).take(count) {
            // A file that did not exist at the start has nothing to compare with.
            if opened.is_some() && *opened != file_identity(path, min_size) {
                let reason = "its file was deleted, emptied, moved or replaced while it was open; \
                              put it back, or restart the server";
                return Err(unavailable(DATABASE_NAME, reason));
            }
        }
        Ok(())
    }

    /// Returns the paths of the three files with their minimum sizes in bytes.
    fn files(&self) -> [(&Path, u64); 3] {
        // SQLite may empty its log, but only another program empties the database.
        [(&self.path, 1), (&self.wal_path, 0), (&self.shm_path, 0)]
    }
}

/// Creates a folder and its parents so that they survive a power cut.
fn create_folder(folder: &Path) -> io::Result<()> {
    for dir in durable_fs::create_private_dirs(folder)? {
        durable_fs::sync_dir(&dir)?;
    }
    Ok(())
}

fn file_identity(path: &Path, min_size: u64) -> Option<FileIdentity> {
    let metadata = fs::metadata(path).ok()?;
    (metadata.len() >= min_size).then(|| durable_fs::file_id(&metadata))
}
