//! The files of a database: checks before opening, and their identity while they are open.
//!
//! This process must not open SQLite's files itself: on Unix, closing such a descriptor would drop
//! SQLite's locks. So all functions here use paths, except for the side file.

use std::fmt::Debug;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_durable_fs as durable_fs;
use reqlore_durable_fs::commit_counter::CounterFile;

use crate::commit_count::CommitCount;
use crate::commit_count::sibling_path;
use crate::error::{BUSY_TIMEOUT, DATABASE_NAME, RESTORE_HINT, io_error, refused, unavailable};
use crate::schema::{Schema, WHOLE_SCHEMA};
use crate::settings::BUSY_PAUSE;

/// Size of SQLite's header, which is the minimum size of a database.
const HEADER_BYTES: u64 = 100;

/// Checks that the files of an open database are still its own.
pub trait FileGuard: Debug + Send + Sync {
    /// Called before each read, and before and after the commit of each write.
    fn check(&self, is_write: bool) -> StoreResult<()>;
}

#[derive(Debug)]
pub(crate) struct DatabaseFile {
    /// The path as the user wrote it, for messages while opening.
    pub(crate) shown_path: String,
    pub(crate) path: PathBuf,
    pub(crate) wal_path: PathBuf,
    shm_path: PathBuf,
    commits_path: PathBuf,
    /// Identities of the files when they were opened.
    opened_identities: OnceLock<[Option<FileIdentity>; FILES]>,
    /// Not set while the database is read-only.
    commits: OnceLock<CounterFile>,
    pub(crate) schema: &'static Schema,
    /// Replaces the comparison of identities, if its calls run on the threads of callers.
    pub(crate) guard: Option<Arc<dyn FileGuard>>,
}

/// Number of files of an open database.
const FILES: usize = 4;

/// Creates an empty file that only its owner may read, for a database that SQLite then fills. A
/// killed process may have left a partial one.
pub(crate) fn create_empty(path: &Path) -> io::Result<()> {
    // SQLite would create the file readable by all users.
    durable_fs::private_open_options().write(true).create(true).truncate(true).open(path).map(drop)
}

/// Device and inode.
type FileIdentity = (u64, u64);

impl DatabaseFile {
    pub(crate) fn new(
        path: PathBuf,
        shown_path: String,
        schema: &'static Schema,
        guard: Option<Arc<dyn FileGuard>>,
    ) -> Self {
        Self {
            shown_path,
            wal_path: sibling_path(&path, "-wal"),
            shm_path: sibling_path(&path, "-shm"),
            commits_path: sibling_path(&path, "-commits"),
            path,
            opened_identities: OnceLock::new(),
            commits: OnceLock::new(),
            schema,
            guard,
        }
    }

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
        let database = Self::new(path, shown_path, &WHOLE_SCHEMA, None);
        database.check_file_types()?;
        database.check_file()?;
        Ok(database)
    }

    /// Refuses links, pipes and devices. Callers resolved the path, so a link here is dangling, and
    /// SQLite would create a file at its target.
    fn check_file_types(&self) -> StoreResult<()> {
        let mut paths: Vec<PathBuf> = self.files().map(|(path, _)| path.to_owned()).into();
        // Another program may have used the database without a log.
        paths.push(sibling_path(&self.path, "-journal"));
        let Some(path) = durable_fs::find_special_file(paths) else { return Ok(()) };
        let name = path.file_name().unwrap_or_default().display();
        let reason =
            format!("{name} is a link, a pipe or a device; remove it, or name another file");
        Err(refused(&self.shown_path, reason))
    }

    fn check_file(&self) -> StoreResult<()> {
        match fs::metadata(&self.path) {
            Ok(metadata) if !metadata.is_file() => {
                Err(refused(&self.shown_path, "is not a regular file; name another file"))
            }
            // The log is found by name, so two names have two logs.
            Ok(metadata) if durable_fs::has_hard_links(&self.path, &metadata) => {
                let reason = "has a second name (a hard link) and could lose commits; remove the \
                              other name";
                Err(refused(&self.shown_path, reason))
            }
            // SQLite would make a new database of it.
            Ok(metadata) if metadata.len() == 0 => {
                let reason = format!(
                    "is an empty file, not a database; put the database back, or {RESTORE_HINT}"
                );
                Err(refused(&self.shown_path, reason))
            }
            // SQLite treats a file of one byte as empty and would overwrite it.
            Ok(metadata) if metadata.len() < HEADER_BYTES => {
                Err(refused(&self.shown_path, "is not an SQLite database; name another file"))
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(io_error(&self.shown_path, "inspect it", error))
            }
            _ => Ok(()),
        }
    }

    /// Refuses to create a database where one was lost.
    pub(crate) fn check_never_used(&self) -> StoreResult<()> {
        let recorded = self.read_commits()?;
        let is_recorded = fs::symlink_metadata(&self.commits_path).is_ok();
        let left = match recorded.map_or(1, |count| count.counter.commits) {
            1.. if is_recorded => &self.commits_path,
            // SQLite would discard the log.
            _ if self.has_pending_log() => &self.wal_path,
            // Only an open database has one.
            _ if self.has_shared_memory() => &self.shm_path,
            // An interrupted creation left no commit.
            _ => return Ok(()),
        };
        let left = left.file_name().unwrap_or_default().display();
        let reason =
            format!("is missing, but {left} is not; put the database back, or {RESTORE_HINT}");
        Err(refused(&self.shown_path, reason))
    }

    /// Creates the empty log, which every database has from its creation on, and locks it until the
    /// result is dropped, so that one process creates the database. SQLite itself locks only the
    /// other files.
    pub(crate) fn lock_creation(&self) -> StoreResult<fs::File> {
        let start = Instant::now();
        let mut options = durable_fs::private_open_options();
        let log = options.write(true).create(true).open(&self.wal_path);
        let log = log.map_err(|error| io_error(&self.shown_path, "create it", error))?;
        while !durable_fs::try_lock(&log)
            .map_err(|error| io_error(&self.shown_path, "lock its -wal file", error))?
        {
            if start.elapsed() > BUSY_TIMEOUT {
                let reason = format!(
                    "Another process kept creating {}. Nothing was written; try again.",
                    self.shown_path
                );
                return Err(StoreError::Busy { reason });
            }
            std::thread::sleep(BUSY_PAUSE);
        }
        Ok(log)
    }

    /// Reads the side file; `None` if it is missing or damaged.
    pub(crate) fn read_commits(&self) -> StoreResult<Option<CommitCount>> {
        CommitCount::read_file(&self.commits_path).map_err(|error| self.commits_error(error))
    }

    /// Creates or replaces the side file. The caller syncs the folder.
    pub(crate) fn replace_commits(&self, count: &CommitCount) -> StoreResult<()> {
        count.replace_file(&self.commits_path).map_err(|error| self.commits_error(error))
    }

    /// Opens the side file for [`Self::record_commit`].
    pub(crate) fn open_commits(&self) -> StoreResult<()> {
        let opened =
            CounterFile::open(&self.commits_path).map_err(|error| self.commits_error(error))?;
        let _ = self.commits.set(opened);
        Ok(())
    }

    fn commits_error(&self, error: io::Error) -> StoreError {
        io_error(&self.shown_path, "use its -commits file", error)
    }

    /// Records a durable commit in the side file.
    pub(crate) fn record_commit(&self, count: &CommitCount) {
        if let Some(file) = self.commits.get()
            && let Err(error) = count.write_file(file)
        {
            // The commit is durable, and the side file may lag behind.
            tracing::warn!(%error, "the number of commits was not recorded");
        }
    }

    /// Syncs the side file.
    pub(crate) fn sync_commits(&self) {
        if let Some(commits) = self.commits.get()
            && let Err(error) = commits.sync()
        {
            tracing::warn!(%error, "the number of commits was not synced");
        }
    }

    /// The name without the folder, which clients must not see.
    pub(crate) fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().display().to_string()
    }

    /// Names the path in an error of the row store, for an operator.
    pub(crate) fn name_path(&self, error: StoreError) -> StoreError {
        match error {
            StoreError::Refused { reason, .. } => refused(&self.shown_path, reason),
            StoreError::Unreadable { reason, .. } => {
                StoreError::Unreadable { subject: self.shown_path.clone(), reason }
            }
            error => error,
        }
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

    /// Makes the names in the database's folder durable.
    pub(crate) fn sync_folder(&self) -> StoreResult<()> {
        durable_fs::sync_dir(self.folder())
            .map_err(|error| io_error(&self.shown_path, "sync its folder", error))
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
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

    /// Like [`Self::check_identity`], including the files that receive the writes.
    pub(crate) fn check_all_identities(&self) -> StoreResult<()> {
        self.check_first_files(FILES)
    }

    fn check_first_files(&self, count: usize) -> StoreResult<()> {
        if let Some(guard) = &self.guard {
            return guard.check(count > 1);
        }
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

    /// Returns the paths of the files with their minimum sizes in bytes.
    fn files(&self) -> [(&Path, u64); FILES] {
        // SQLite may empty its log, but only another program empties the database.
        [(&self.path, 1), (&self.wal_path, 0), (&self.shm_path, 0), (&self.commits_path, 1)]
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
    if metadata.len() < min_size {
        return None;
    }
    durable_fs::file_id(path, &metadata).ok()
}

#[derive(Debug, Clone)]
pub struct SqliteConfig {
    /// The database. Its log is in the same folder.
    pub file: PathBuf,
}
