//! The files of a database: which are ours, who may read them, and how many commits they hold.
//!
//! sled takes over files with the names that it uses, overwrites what it can't read, and follows
//! symbolic links. So `db` is ours only if the count next to it says so, or the marker of an
//! unfinished creation, and the folder must not hold links.
//!
//! sled's flush is not a sync: on Linux it only starts writing the pages of `db`. And a `db` that
//! was cut short opens like one that a crash tore, silently older. So the file `acknowledged` holds
//! the number of acknowledged transactions. It is written after each sync of `db` and itself synced
//! only at the creation: it may lag behind and is never ahead.

use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use reqlore_domain::ports::documents::StoreResult;
use reqlore_durable_fs as durable_fs;

use crate::error::{RESTORE_HINT, folder_error, folder_refused};

pub(crate) const DB: &str = "db";
pub(crate) const ACKNOWLEDGED: &str = "acknowledged";
/// Exists while a database is being created.
pub(crate) const CREATION_MARKER: &str = "reqlore.unfinished";
/// Files and folders that sled makes.
const CONF: &str = "conf";
const BLOBS: &str = "blobs";
const SNAPSHOT: &str = "snap.";
const UNFINISHED_SNAPSHOT: &str = ".generating";

/// How `db` is synced. Tests count syncs, and let them fail.
pub(crate) type SyncFn = Box<dyn Fn(&File) -> io::Result<()> + Send + std::marker::Sync>;

/// A database that exists, inspected without opening it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatabaseState {
    /// A process has it open.
    InUse,
    /// No process has it open, and its files look complete.
    Closed,
    /// Its creation was not finished.
    Unfinished,
}

/// Inspects a database without changing it: sled writes to every folder that it opens. Fails where
/// opening would fail, as far as that shows.
pub(crate) fn inspect_folder(folder: &Path) -> StoreResult<DatabaseState> {
    let opened =
        File::open(folder).map_err(|error| folder_error(folder, "open the folder", error))?;
    // A shared lock, so that inspections do not exclude each other.
    match opened.try_lock_shared() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(DatabaseState::InUse),
        Err(TryLockError::Error(error)) => {
            return Err(folder_error(folder, "lock the folder", error));
        }
    }
    drop(opened);
    let found = check_files(folder, &list_names(folder)?)?;
    Ok(if found.is_unfinished { DatabaseState::Unfinished } else { DatabaseState::Closed })
}

/// State of the files before sled sees them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FolderState {
    /// The least number of transactions that the database must hold.
    pub(crate) acknowledged: u64,
    /// The database is new, or its creation was not finished.
    pub(crate) is_unfinished: bool,
}

/// Prepares a folder for sled. Changes nothing in a folder that is not ours.
pub(crate) fn prepare_folder(folder: &Path) -> StoreResult<FolderState> {
    let names = list_names(folder)?;
    let found = check_files(folder, &names)?;
    if found.is_unfinished {
        begin_creation(folder).map_err(|error| folder_error(folder, "write to it", error))?;
    }
    // A killed start leaves the snapshot that it was writing, and sled can't open a folder with it.
    // It holds nothing that `db` does not.
    let is_unfinished =
        |name: &&String| name.starts_with(SNAPSHOT) && name.ends_with(UNFINISHED_SNAPSHOT);
    for name in names.iter().filter(is_unfinished) {
        tracing::warn!("removing {name}, an unfinished snapshot of a killed process");
        let removed = std::fs::remove_file(folder.join(name));
        removed.map_err(|error| folder_error(folder, &format!("remove {name}"), error))?;
    }
    // Before sled opens the files: opening may take long, and it may be refused.
    make_private(folder)?;
    Ok(found)
}

/// The names in a folder without symbolic links.
fn list_names(folder: &Path) -> StoreResult<Vec<String>> {
    let unlisted = |error| folder_error(folder, "list the folder", error);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unlisted)? {
        let entry = entry.map_err(unlisted)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type().map_err(unlisted)?.is_symlink() {
            let reason = format!(
                "holds a symbolic link, {name}, which may lead anywhere; it was not followed. \
                 Remove it, or name another folder"
            );
            return Err(folder_refused(folder, &reason));
        }
        names.push(name);
    }
    Ok(names)
}

/// Refuses files that are not ours, and a database that lost its `db`.
fn check_files(folder: &Path, names: &[String]) -> StoreResult<FolderState> {
    let is_marked = names.iter().any(|name| name == CREATION_MARKER);
    let db_length = match std::fs::metadata(folder.join(DB)) {
        Ok(db) => db.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        Err(error) => return Err(folder_error(folder, "inspect its file db", error)),
    };
    let unread = |error| folder_error(folder, &format!("read its file {ACKNOWLEDGED}"), error);
    let acknowledged = read_acknowledged(folder).map_err(unread)?;
    if db_length == 0 {
        // Also a damaged count shows that there was a database.
        let count = std::fs::metadata(folder.join(ACKNOWLEDGED));
        if count.is_ok_and(|count| count.len() > 0) {
            let reason = format!("lacks its file db, or that is empty. {RESTORE_HINT}");
            return Err(folder_refused(folder, &reason));
        }
        if !is_marked && names.iter().any(|name| name != DB) {
            return Err(folder_refused(folder, "holds other files; name a folder of its own"));
        }
    } else if acknowledged.is_none() && !is_marked {
        let reason = format!(
            "holds a file db that is not known to be Reqlore's: the file {ACKNOWLEDGED} that goes \
             with it is missing or damaged. Nothing was touched; name another folder, or restore \
             a backup into a new one with `reqlore restore`"
        );
        return Err(folder_refused(folder, &reason));
    }
    let is_unfinished = is_marked || db_length == 0;
    Ok(FolderState { acknowledged: acknowledged.unwrap_or_default(), is_unfinished })
}

fn read_acknowledged(folder: &Path) -> io::Result<Option<u64>> {
    let file = match open_options().open(folder.join(ACKNOWLEDGED)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = [0; 12];
    // A file that is too short holds no count.
    if file.read_exact_at(&mut bytes, 0).is_err() {
        return Ok(None);
    }
    let count = bytes
        .split_first_chunk()
        .filter(|(count, check)| crc32fast::hash(*count).to_be_bytes() == **check);
    Ok(count.map(|(count, _)| u64::from_be_bytes(*count)))
}

/// Makes the marker durable before sled sees the folder, or a power cut could leave a `db` of
/// unknown origin. Makes `db` and `blobs` too, because sled would make
/// them readable for all.
fn begin_creation(folder: &Path) -> io::Result<()> {
    let mut options = open_options();
    options.write(true).create(true).truncate(false);
    options.open(folder.join(CREATION_MARKER))?.sync_all()?;
    options.open(folder.join(DB))?;
    durable_fs::create_private_dirs(&folder.join(BLOBS))?;
    durable_fs::sync_dir(folder)
}

/// Ends the creation once `db` is synced. Nothing is acknowledged before `created` folders are
/// durable too.
pub(crate) fn finish_creation(folder: &Path, created: &[PathBuf]) -> io::Result<()> {
    for file in [CONF, ACKNOWLEDGED, BLOBS] {
        File::open(folder.join(file))?.sync_all()?;
    }
    for dir in created {
        match durable_fs::sync_dir(dir) {
            // A folder above the database may be closed to this user.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                tracing::warn!(%error, "a folder above the database can't be synced");
            }
            synced => synced?,
        }
    }
    std::fs::remove_file(folder.join(CREATION_MARKER))
}

/// Takes all access to the files of a database from users that do not own them.
pub(crate) fn make_private(folder: &Path) -> StoreResult<()> {
    for name in list_names(folder)? {
        if ![DB, CONF, ACKNOWLEDGED, BLOBS].contains(&&*name) && !name.starts_with(SNAPSHOT) {
            continue;
        }
        match durable_fs::make_private(&folder.join(&name)) {
            // sled removes a snapshot once there is a newer one.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                tracing::warn!(%error, name, "a file of the database is another user's");
            }
            set => {
                set.map_err(|error| {
                    folder_error(folder, &format!("set the rights of {name}"), error)
                })?;
            }
        }
    }
    Ok(())
}

/// Options to read a file that is not a symbolic link.
fn open_options() -> OpenOptions {
    let mut options = durable_fs::private_file();
    options.read(true);
    options
}

/// The open `db` and the count of acknowledged transactions.
pub(crate) struct DatabaseFile {
    path: PathBuf,
    db: File,
    acknowledged: File,
    sync: SyncFn,
}

impl DatabaseFile {
    pub(crate) fn open(folder: &Path, sync: SyncFn) -> io::Result<Self> {
        let path = std::path::absolute(folder)?.join(DB);
        let db = open_options().open(&path)?;
        let mut options = open_options();
        options.write(true).create(true).truncate(false);
        let acknowledged = options.open(folder.join(ACKNOWLEDGED))?;
        Ok(Self { path, db, acknowledged, sync })
    }

    /// Returns false if `db` was removed, replaced or emptied. sled itself never empties it.
    pub(crate) fn is_in_place(&self) -> bool {
        let (Ok(held), Ok(found)) = (self.db.metadata(), std::fs::metadata(&self.path)) else {
            return false;
        };
        held.len() > 0 && durable_fs::file_id(&held) == durable_fs::file_id(&found)
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        (self.sync)(&self.db)
    }

    pub(crate) fn acknowledge(&self, commits: u64) -> io::Result<()> {
        let count = commits.to_be_bytes();
        let check = crc32fast::hash(&count).to_be_bytes();
        self.acknowledged.write_all_at(&[&count[..], &check].concat(), 0)
    }
}

impl fmt::Debug for DatabaseFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatabaseFile").field("path", &self.path).finish_non_exhaustive()
    }
}
