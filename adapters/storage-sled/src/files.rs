//! The files of a database: ownership, access rights, and the commit counter.
//!
//! sled takes over files with the names that it uses, overwrites unreadable ones, and follows
//! symbolic links. So `db` is ours only with the file `acknowledged` or with the marker of an
//! unfinished creation, and a folder with symbolic links is refused.
//!
//! sled's flush is not a sync: on Linux it only starts to write the pages of `db`. A truncated `db`
//! opens without an error, with older data. So the file `acknowledged` holds the number of
//! acknowledged transactions and the identity of the database ([`CommitCounter`]). It is written
//! after each sync of `db`: it may lag behind `db` and is never ahead of it.

use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use reqlore_domain::ports::documents::StoreResult;
use reqlore_durable_fs as durable_fs;
use reqlore_durable_fs::commit_counter::{CommitCounter, CounterFile, IssuedNumbers};

use crate::error::{PUT_BACK_HINT, folder_error, folder_refused};

pub(crate) const DB: &str = "db";
pub(crate) const ACKNOWLEDGED: &str = "acknowledged";
/// Exists while a database is being created.
pub(crate) const CREATION_MARKER: &str = "reqlore.unfinished";
/// Files and folders that sled creates.
const CONF: &str = "conf";
const BLOBS: &str = "blobs";
const SNAPSHOT: &str = "snap.";
const UNFINISHED_SNAPSHOT: &str = ".generating";

/// Syncs `db`. Tests replace it to count syncs and to make them fail.
pub(crate) type SyncFn = Box<dyn Fn(&File) -> io::Result<()> + Send + std::marker::Sync>;

/// State of an existing database, found without opening it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatabaseState {
    /// A process has it open.
    InUse,
    /// No process has it open, and its files look complete.
    Closed,
    /// Its creation was not finished.
    Unfinished,
}

/// Inspects a database without opening it, because sled writes to every folder that it opens.
/// Fails where opening would fail, except for damage that only sled can detect.
pub(crate) fn inspect_folder(folder: &Path) -> StoreResult<DatabaseState> {
    let folder_file =
        File::open(folder).map_err(|error| folder_error(folder, "open the folder", error))?;
    // A shared lock, so that inspections do not exclude each other.
    match folder_file.try_lock_shared() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(DatabaseState::InUse),
        Err(TryLockError::Error(error)) => {
            return Err(folder_error(folder, "lock the folder", error));
        }
    }
    // Released at once, because an inspection must not keep a server from starting.
    drop(folder_file);
    let state = check_files(folder, &list_names(folder)?, false)?;
    Ok(if state.is_unfinished { DatabaseState::Unfinished } else { DatabaseState::Closed })
}

/// State of the files before sled opens them.
#[derive(Debug, Clone)]
pub(crate) struct FolderState {
    /// The content of the file `acknowledged`, `None` if the creation was not finished.
    pub(crate) counter: Option<(CommitCounter, IssuedNumbers)>,
    /// The database is new, or its creation was not finished.
    pub(crate) is_unfinished: bool,
}

/// Prepares a folder for sled. Changes nothing in a folder that is not ours. With `accepts_loss`,
/// the commit counter may be missing.
pub(crate) fn prepare_folder(folder: &Path, accepts_loss: bool) -> StoreResult<FolderState> {
    let names = list_names(folder)?;
    let state = check_files(folder, &names, accepts_loss)?;
    if state.is_unfinished {
        begin_creation(folder).map_err(|error| folder_error(folder, "write to it", error))?;
    }
    for name in &names {
        // A killed process leaves the snapshot that it was writing, and sled can't open a folder
        // with it. `db` holds the same data.
        if name.starts_with(SNAPSHOT) && name.ends_with(UNFINISHED_SNAPSHOT) {
            tracing::warn!("removing {name}, an unfinished snapshot of a killed process");
            let removed = std::fs::remove_file(folder.join(name));
            removed.map_err(|error| folder_error(folder, &format!("remove {name}"), error))?;
        }
    }
    // Before sled opens the files, because that may take long or fail.
    make_private(folder)?;
    Ok(state)
}

/// Returns the names in a folder. Refuses a folder with symbolic links.
fn list_names(folder: &Path) -> StoreResult<Vec<String>> {
    let mut names = Vec::new();
    let entries =
        read_entries(folder).map_err(|error| folder_error(folder, "list the folder", error))?;
    for (name, is_symlink) in entries {
        if is_symlink {
            let reason =
                format!("holds the symbolic link {name}; remove it, or name another folder");
            return Err(folder_refused(folder, &reason));
        }
        names.push(name);
    }
    Ok(names)
}

/// Returns the names in a folder, and whether each is a symbolic link.
fn read_entries(folder: &Path) -> io::Result<Vec<(String, bool)>> {
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        entries.push((name, entry.file_type()?.is_symlink()));
    }
    Ok(entries)
}

/// Refuses files of other programs, and a database that lost its `db`.
fn check_files(folder: &Path, names: &[String], accepts_loss: bool) -> StoreResult<FolderState> {
    let is_marked = names.iter().any(|name| name == CREATION_MARKER);
    let db_length = match std::fs::metadata(folder.join(DB)) {
        Ok(db) => db.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        Err(error) => return Err(folder_error(folder, "inspect its file db", error)),
    };
    let counter = CommitCounter::read_with_numbers(&folder.join(ACKNOWLEDGED))
        .map_err(|error| folder_error(folder, &format!("read its file {ACKNOWLEDGED}"), error))?;
    if db_length == 0 {
        // Even a damaged counter shows that there was a database.
        if file_length(folder, ACKNOWLEDGED) > 0 {
            let reason = format!("lacks its file db, or the file is empty; {PUT_BACK_HINT}");
            return Err(folder_refused(folder, &reason));
        }
        if !is_marked && names.iter().any(|name| name != DB) {
            let reason = "contains other files but no database; name an empty folder, or put the \
                          missing files of its database back";
            return Err(folder_refused(folder, reason));
        }
    } else if counter.is_none() && !is_marked && !accepts_loss {
        let reason = format!(
            "its file db is not known to be Reqlore's ({ACKNOWLEDGED} is missing or damaged); name \
             another folder, {PUT_BACK_HINT}, or accept the loss with `reqlore check --accept-loss`"
        );
        return Err(folder_refused(folder, &reason));
    } else if !is_marked && file_length(folder, CONF) == 0 {
        // sled would write a new one with its own defaults.
        let reason = format!("lacks its file conf, or the file is empty; {PUT_BACK_HINT}");
        return Err(folder_refused(folder, &reason));
    }
    let is_unfinished = is_marked || db_length == 0;
    Ok(FolderState { counter, is_unfinished })
}

/// Returns 0 for a missing file.
fn file_length(folder: &Path, name: &str) -> u64 {
    std::fs::metadata(folder.join(name)).map_or(0, |file| file.len())
}

/// Makes the marker durable before sled opens the folder; otherwise a power cut could leave a `db`
/// of unknown origin. Creates `db` and `blobs` too, because sled would make them readable by all
/// users.
fn begin_creation(folder: &Path) -> io::Result<()> {
    let mut options = open_options();
    options.write(true).create(true).truncate(false);
    options.open(folder.join(CREATION_MARKER))?.sync_all()?;
    options.open(folder.join(DB))?;
    durable_fs::create_private_dirs(&folder.join(BLOBS))?;
    durable_fs::sync_dir(folder)
}

/// Ends the creation after `db` is synced. Syncs the `created` folders first: no commit may be
/// acknowledged before they are durable.
pub(crate) fn finish_creation(folder: &Path, created: &[PathBuf]) -> io::Result<()> {
    for file in [CONF, ACKNOWLEDGED, BLOBS] {
        File::open(folder.join(file))?.sync_all()?;
    }
    for dir in created {
        match durable_fs::sync_dir(dir) {
            // A folder above the database may be closed to this user.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                tracing::warn!(%error, "cannot sync a parent folder of the database");
            }
            synced => synced?,
        }
    }
    std::fs::remove_file(folder.join(CREATION_MARKER))
}

/// Makes the files of a database accessible to their owner only.
pub(crate) fn make_private(folder: &Path) -> StoreResult<()> {
    for name in list_names(folder)? {
        if ![DB, CONF, ACKNOWLEDGED, BLOBS].contains(&&*name) && !name.starts_with(SNAPSHOT) {
            continue;
        }
        match durable_fs::make_private(&folder.join(&name)) {
            // sled removes a snapshot after it wrote a newer one.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                tracing::warn!(%error, name, "another user owns a file of the database");
            }
            result => result.map_err(|error| {
                folder_error(folder, &format!("set the permissions of {name}"), error)
            })?,
        }
    }
    Ok(())
}

/// Options to read a file without following a symbolic link.
fn open_options() -> OpenOptions {
    let mut options = durable_fs::private_open_options();
    options.read(true);
    options
}

/// The open `db` and its commit counter.
pub(crate) struct DatabaseFile {
    path: PathBuf,
    db: File,
    pub(crate) counter: CounterFile,
    sync: SyncFn,
}

impl DatabaseFile {
    pub(crate) fn open(folder: &Path, sync: SyncFn) -> io::Result<Self> {
        let path = std::path::absolute(folder)?.join(DB);
        let db = open_options().open(&path)?;
        let counter = CounterFile::open(&folder.join(ACKNOWLEDGED))?;
        Ok(Self { path, db, counter, sync })
    }

    /// Returns false if `db` was removed, replaced or emptied, which sled itself never does.
    pub(crate) fn is_in_place(&self) -> bool {
        self.db.metadata().is_ok_and(|open| open.len() > 0)
            && durable_fs::is_same_file(&self.db, &self.path).unwrap_or_default()
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        self.sync_large_pages()?;
        (self.sync)(&self.db)
    }

    /// sled moves a page above 128 KiB, such as one with many long keys, to a file of its own, and
    /// does not sync it.
    fn sync_large_pages(&self) -> io::Result<()> {
        let folder = self.path.with_file_name(BLOBS);
        let mut has_pages = false;
        for entry in std::fs::read_dir(&folder)? {
            has_pages = true;
            match File::open(entry?.path()) {
                Ok(page) => page.sync_all()?,
                // sled removed it, because a newer page replaced it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        if has_pages { durable_fs::sync_dir(&folder) } else { Ok(()) }
    }
}

impl fmt::Debug for DatabaseFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatabaseFile").field("path", &self.path).finish_non_exhaustive()
    }
}
