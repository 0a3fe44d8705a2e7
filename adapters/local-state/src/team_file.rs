//! `team.db`: creating it in one step, and checking that it belongs to this machine.
//!
//! A repository may bring a database along, or a log beside ours that SQLite would apply. So
//! `team.id` holds the inode and creation time of the database, its log and its index, and of
//! itself: no repository can contain such a file. The database exists as soon as `team.id` does;
//! a process killed before that leaves nothing that is read.

use std::fs::Metadata;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cap_std::fs::Dir;
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_sqlite_team::error::DatabaseError;
use reqlore_sqlite_team::team_database::{FileGuard, TeamConnection, TeamDatabase};

use crate::error::not_written;
use crate::migrate_0_1;
use crate::private_file::{PrivateFile, local_folder, writable_local_folder};
use crate::{LOCAL, file_identity, lock_folder};

/// The database, as messages name it.
pub const PLACE: &str = ".reqlore/local/team.db";
/// The database, its log and its index.
const FILES: [&str; 3] = ["team.db", "team.db-wal", "team.db-shm"];
const IDENTITIES: &str = "team.id";
const FORMAT: &str = "reqlore team 1";
/// The same two until they are complete.
const NEW_IDENTITIES: &str = "team.id.new";
const NEW_DATABASE: &str = "team.new";

/// How to create the database.
#[derive(Debug, Clone, Copy)]
pub struct Creation {
    /// The longest wait for a lock of another process.
    pub lock_timeout: Duration,
    /// Called after each step; its error stops the creation there.
    pub checkpoint: fn(CreationStep) -> io::Result<()>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreationStep {
    /// The database is written and has no name yet.
    Staged,
    /// Processes of 0.1.0 can't write team data any more.
    OldStopped,
    /// The database exists.
    Identified,
    Named,
    /// One of the old files has another name.
    OldRenamed,
}

impl Creation {
    pub(crate) fn reached(&self, step: CreationStep) -> StoreResult<()> {
        (self.checkpoint)(step).map_err(|error| not_written(PLACE, "write it", error))
    }
}

/// True if there is a database. As cheap as possible: every commit asks.
pub fn exists(base: &Path) -> bool {
    base.join(LOCAL).join(IDENTITIES).symlink_metadata().is_ok()
}

/// True if the data of 0.1.0 was not moved into a database yet.
pub fn must_migrate(base: &Path) -> bool {
    !exists(base) && migrate_0_1::has_data(base)
}

/// Opens the database of a project, whose handle `root` and path `base` are; `None` where there is
/// none. Data of 0.1.0 is read into memory, without changing anything.
pub fn open(
    root: &Dir,
    base: &Path,
    read_only: bool,
    lock_timeout: Duration,
) -> StoreResult<Option<TeamDatabase>> {
    let Some(local) = local_folder(root)? else { return Ok(None) };
    let Some(identities) = recorded(&local)? else {
        if local.symlink_metadata(FILES[0]).is_ok() {
            return Err(PrivateFile::new(&local, FILES[0]).is_foreign());
        }
        return migrate_0_1::has_data(base).then(|| migrate_0_1::read(&local)).transpose();
    };
    let files = TeamFiles { folder: base.join(LOCAL), local, identities };
    if !read_only {
        files.finish_creation(lock_timeout)?;
        files.finish_migration(lock_timeout);
    }
    let path = files.folder.join(FILES[0]);
    TeamDatabase::open(&path, PLACE, read_only, Box::new(files)).map(Some)
}

/// Creates the database, with the data of 0.1.0 if there is any, unless there is one by now.
/// `is_root_locked` says that the caller holds the lock of the project's folder.
pub fn create(
    root: &Dir,
    base: &Path,
    is_root_locked: bool,
    creation: &Creation,
) -> StoreResult<()> {
    let local = writable_local_folder(root)?;
    let timeout = creation.lock_timeout;
    let _root_lock = if !is_root_locked && must_migrate(base) {
        Some(lock_folder(root, "the project's folder", "it", timeout)?)
    } else {
        None
    };
    let _lock = lock_folder(&local, LOCAL, "the team data", timeout)?;
    if exists(base) { Ok(()) } else { migrate_0_1::migrate(&local, base, creation) }
}

/// The files of a database that was created here.
#[derive(Debug)]
struct TeamFiles {
    local: Dir,
    folder: PathBuf,
    identities: [String; 3],
}

impl FileGuard for TeamFiles {
    fn check(&self, is_write: bool) -> StoreResult<()> {
        let count = if is_write { FILES.len() } else { 1 };
        for (name, identity) in FILES.iter().zip(&self.identities).take(count) {
            let file = PrivateFile::new(&self.local, name);
            let found = inspect(&self.folder, name);
            let Some(found) = found.map_err(|error| file.fail("inspect it", error))? else {
                return Err(file.refused(
                    "is missing; put it back, or restore a backup after you moved \
                     .reqlore/local/team.* away",
                ));
            };
            file.check(&found)?;
            if file_identity(&found) != *identity {
                return Err(file.is_foreign());
            }
        }
        Ok(())
    }
}

impl TeamFiles {
    /// Gives the database its name, if a process was killed before it could.
    fn finish_creation(&self, lock_timeout: Duration) -> StoreResult<()> {
        if self.local.symlink_metadata(FILES[0]).is_ok() {
            return Ok(());
        }
        let _lock = lock_folder(&self.local, LOCAL, "the team data", lock_timeout)?;
        match inspect(&self.folder, NEW_DATABASE) {
            Ok(Some(new)) if file_identity(&new) == self.identities[0] => {
                PrivateFile::new(&self.local, NEW_DATABASE).rename(FILES[0])
            }
            _ => Ok(()),
        }
    }

    /// The old files are not read any more, so this may fail.
    fn finish_migration(&self, lock_timeout: Duration) {
        if !migrate_0_1::is_unfinished(&self.local) {
            return;
        }
        let creation = Creation { lock_timeout, checkpoint: |_| Ok(()) };
        let finished = lock_folder(&self.local, LOCAL, "the team data", lock_timeout)
            .and_then(|_lock| migrate_0_1::finish(&self.local, &creation));
        if let Err(error) = finished {
            tracing::warn!(%error, "the team files of 0.1.0 were not renamed");
        }
    }
}

/// Creates the database. The caller holds the lock of the folder. `before` runs when all rows are
/// on disk, right before the database begins to exist.
pub(crate) fn write_database(
    local: &Dir,
    base: &Path,
    creation: &Creation,
    fill: impl FnOnce(&TeamConnection) -> Result<(), DatabaseError>,
    before: impl FnOnce() -> StoreResult<()>,
) -> StoreResult<()> {
    let private = |name| PrivateFile::new(local, name);
    if local.symlink_metadata(FILES[0]).is_ok() {
        return Err(private(FILES[0]).is_foreign());
    }
    for name in ["team.new-wal", "team.new-shm", "team.new-journal", NEW_DATABASE, NEW_IDENTITIES] {
        private(name).remove()?;
    }
    let database = private(NEW_DATABASE).create(|_| Ok(Vec::new()))?;
    TeamDatabase::create(&base.join(LOCAL).join(NEW_DATABASE), PLACE, fill)?;
    let synced = local.open(NEW_DATABASE).and_then(|opened| opened.sync_all());
    synced.map_err(|error| private(NEW_DATABASE).not_written("write it", error))?;
    creation.reached(CreationStep::Staged)?;
    let mut identities = vec![file_identity(&database)];
    for name in &FILES[1..] {
        // An empty one was left by a killed process.
        if local.symlink_metadata(name).is_ok_and(|found| found.is_file() && found.len() == 0) {
            private(name).remove()?;
        }
        identities.push(file_identity(&private(name).create(|_| Ok(Vec::new()))?));
    }
    before()?;
    creation.reached(CreationStep::OldStopped)?;
    private(NEW_IDENTITIES).create(|own| {
        Ok(format!("{FORMAT}\n{}\n{}\n", file_identity(own), identities.join("\n")).into())
    })?;
    private(NEW_IDENTITIES).rename(IDENTITIES)?;
    creation.reached(CreationStep::Identified)?;
    private(NEW_DATABASE).rename(FILES[0])?;
    creation.reached(CreationStep::Named)
}

/// The identities of the files, as `team.id` holds them.
fn recorded(local: &Dir) -> StoreResult<Option<[String; 3]>> {
    let file = PrivateFile::new(local, IDENTITIES);
    let Some((opened, metadata)) = file.open()? else { return Ok(None) };
    let mut text = String::new();
    let read = opened.take(1024).read_to_string(&mut text);
    read.map_err(|error| file.fail("read it", error))?;
    let mut lines = text.lines().map(str::to_owned);
    if lines.next().as_deref() != Some(FORMAT) {
        let reason = "can't be read by this version; update Reqlore, or restore a backup";
        return Err(StoreError::Unreadable { place: file.shown(), reason: reason.to_owned() });
    }
    match [lines.next(), lines.next(), lines.next(), lines.next()] {
        [Some(own), Some(database), Some(log), Some(index)] if own == file_identity(&metadata) => {
            Ok(Some([database, log, index]))
        }
        _ => Err(file.is_foreign()),
    }
}

/// A file's metadata by its path, without opening it.
fn inspect(folder: &Path, name: &str) -> io::Result<Option<Metadata>> {
    match std::fs::symlink_metadata(folder.join(name)) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
