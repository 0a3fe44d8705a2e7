//! `.reqlore/local/team.db`: creating it in one step, and checking that it belongs to this machine.
//!
//! A repository may bring a database along, or a log beside ours that SQLite would apply. So
//! `team.id` holds the inode and creation time of the database, its log and its index, and of
//! itself: no repository can contain such a file. The database exists as soon as `team.id` does;
//! a process killed before that leaves nothing that is read.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, Metadata};
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_sqlite_team::error::DatabaseError;
use reqlore_sqlite_team::team_database::{TeamConnection, TeamDatabase};

use super::migrate_0_1;
use super::private_file::{PrivateFile, local_folder};
use crate::error::not_written;
use crate::failpoint::{Step, reached};
use crate::layout::Root;
use crate::local::{self, LOCAL};
use crate::lock;

pub(super) const PLACE: &str = ".reqlore/local/team.db";
/// The database, its log and its index.
const FILES: [&str; 3] = ["team.db", "team.db-wal", "team.db-shm"];
const IDENTITIES: &str = "team.id";
const FORMAT: &str = "reqlore team 1";
/// The same two until they are complete.
const NEW_IDENTITIES: &str = "team.id.new";
const NEW_DATABASE: &str = "team.new";

/// The team data of a store, open.
#[derive(Debug)]
pub(crate) struct TeamFile {
    database: TeamDatabase,
    /// `None` for data of 0.1.0 that is only read.
    files: Option<Files>,
}

#[derive(Debug)]
struct Files {
    local: Dir,
    folder: PathBuf,
    identities: [String; 3],
}

impl TeamFile {
    /// Opens the database; `None` where none was created.
    pub(super) fn open(root: &Root, base: &Path, read_only: bool) -> StoreResult<Option<Self>> {
        let Some(local) = local_folder(root)? else { return Ok(None) };
        let Some(identities) = recorded(&local)? else {
            let database = PrivateFile::new(&local, FILES[0]);
            let is_there = local.symlink_metadata(FILES[0]).is_ok();
            return if is_there { Err(database.is_foreign()) } else { Ok(None) };
        };
        let files = Files { folder: base.join(LOCAL), local, identities };
        if !read_only {
            files.finish_creation()?;
            files.finish_migration();
        }
        files.check(FILES.len())?;
        let database = TeamDatabase::open(&files.folder.join(FILES[0]), PLACE, read_only)?;
        files.check(FILES.len())?;
        Ok(Some(Self { database, files: Some(files) }))
    }

    pub(super) fn in_memory(
        fill: impl FnOnce(&TeamConnection) -> Result<(), DatabaseError>,
    ) -> StoreResult<Self> {
        Ok(Self { database: TeamDatabase::in_memory(PLACE, fill)?, files: None })
    }

    pub(super) fn is_stored(&self) -> bool {
        self.files.is_some()
    }

    pub(super) fn read<T>(
        &self,
        read: impl FnOnce(&TeamConnection) -> Result<T, DatabaseError>,
    ) -> StoreResult<T> {
        self.check(1)?;
        self.database.read(read)
    }

    /// The same without waiting for another thread.
    pub(super) fn try_read<T>(
        &self,
        read: impl FnOnce(&TeamConnection) -> Result<T, DatabaseError>,
    ) -> Option<StoreResult<T>> {
        if let Err(error) = self.check(1) {
            return Some(Err(error));
        }
        self.database.try_read(read)
    }

    /// Writes in one synced transaction.
    pub(super) fn write<T>(
        &self,
        write: impl FnOnce(&TeamConnection) -> Result<T, DatabaseError>,
    ) -> StoreResult<T> {
        self.database.write(&|| self.check(FILES.len()), write)
    }

    pub(super) fn write_unsynced(
        &self,
        write: impl FnOnce(&TeamConnection) -> Result<(), DatabaseError>,
    ) -> StoreResult<()> {
        self.database.write_unsynced(&|| self.check(FILES.len()), write)
    }

    fn check(&self, count: usize) -> StoreResult<()> {
        self.files.as_ref().map_or(Ok(()), |files| files.check(count))
    }
}

impl Files {
    /// Checks that the first files are still those that were created. It does not open them.
    fn check(&self, count: usize) -> StoreResult<()> {
        for (name, identity) in FILES.iter().zip(&self.identities).take(count) {
            let file = PrivateFile::new(&self.local, name);
            let Some(found) =
                inspect(&self.folder, name).map_err(|e| file.fail("inspect it", e))?
            else {
                return Err(file.refused(
                    "is missing; put it back, or restore a backup after you moved \
                     .reqlore/local/team.* away",
                ));
            };
            file.check(&found)?;
            if local::identity(&found) != *identity {
                return Err(file.is_foreign());
            }
        }
        Ok(())
    }

    /// Gives the database its name, if a process was killed before it could.
    fn finish_creation(&self) -> StoreResult<()> {
        if self.local.symlink_metadata(FILES[0]).is_ok() {
            return Ok(());
        }
        let _lock = lock::hold(&self.local, LOCAL, "the team data")?;
        match inspect(&self.folder, NEW_DATABASE) {
            Ok(Some(new)) if local::identity(&new) == self.identities[0] => {
                PrivateFile::new(&self.local, NEW_DATABASE).rename(FILES[0])
            }
            _ => Ok(()),
        }
    }

    /// The old files are not read any more, so this may fail.
    fn finish_migration(&self) {
        if !migrate_0_1::is_unfinished(&self.local) {
            return;
        }
        let finished = lock::hold(&self.local, LOCAL, "the team data")
            .and_then(|_lock| migrate_0_1::finish(&self.local));
        if let Err(error) = finished {
            tracing::warn!(%error, "the team files of 0.1.0 were not renamed");
        }
    }
}

/// True if there is a database. As cheap as possible: every commit asks.
pub(super) fn exists(base: &Path) -> bool {
    base.join(LOCAL).join(IDENTITIES).symlink_metadata().is_ok()
}

/// Creates the database. The caller holds the lock of the folder. `before` runs when all rows are
/// on disk, right before the database begins to exist.
pub(super) fn create(
    local: &Dir,
    base: &Path,
    fill: impl FnOnce(&TeamConnection) -> Result<(), DatabaseError>,
    before: impl FnOnce() -> StoreResult<()>,
) -> StoreResult<()> {
    let folder = base.join(LOCAL);
    let private = |name| PrivateFile::new(local, name);
    if local.symlink_metadata(FILES[0]).is_ok() {
        return Err(private(FILES[0]).is_foreign());
    }
    for name in ["team.new-wal", "team.new-shm", "team.new-journal", NEW_DATABASE, NEW_IDENTITIES] {
        private(name).remove()?;
    }
    let database = private(NEW_DATABASE).create(|_| Ok(Vec::new()))?;
    TeamDatabase::create(&folder.join(NEW_DATABASE), PLACE, fill)?;
    let synced = local.open(NEW_DATABASE).and_then(|opened| opened.sync_all());
    synced.map_err(|error| private(NEW_DATABASE).not_written("write it", error))?;
    step(Step::TeamStaged)?;
    let mut identities = vec![local::identity(&database)];
    for name in &FILES[1..] {
        // An empty one was left by a killed process.
        if local.symlink_metadata(name).is_ok_and(|found| found.is_file() && found.len() == 0) {
            private(name).remove()?;
        }
        identities.push(local::identity(&private(name).create(|_| Ok(Vec::new()))?));
    }
    before()?;
    private(NEW_IDENTITIES).create(|own| {
        Ok(format!("{FORMAT}\n{}\n{}\n", local::identity(own), identities.join("\n")).into())
    })?;
    private(NEW_IDENTITIES).rename(IDENTITIES)?;
    step(Step::TeamIdentified)?;
    private(NEW_DATABASE).rename(FILES[0])?;
    step(Step::TeamCreated)
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
        [Some(own), Some(database), Some(log), Some(index)]
            if own == local::identity(&metadata) =>
        {
            Ok(Some([database, log, index]))
        }
        _ => Err(file.is_foreign()),
    }
}

/// A file's metadata by its path, without opening it.
fn inspect(folder: &Path, name: &str) -> io::Result<Option<Metadata>> {
    match std::fs::symlink_metadata(folder.join(name)) {
        Ok(found) => Ok(Some(Metadata::from_just_metadata(found))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) fn step(step: Step) -> StoreResult<()> {
    reached(step).map_err(|error| not_written(PLACE, "write it", error))
}
