//! Creates `team.db` atomically and rejects one that was copied from elsewhere.
//!
//! A repository may contain a database, or a log that SQLite would apply to ours. So `team.id`
//! holds the identities (inode and creation time) of the database, its log, its index and itself: a
//! repository can't contain a valid one. The database exists as soon as `team.id` does. Files of a
//! process that was killed before that are never read.

use std::fs::Metadata;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cap_std::fs::Dir;
use reqlore_domain::ports::accepted_loss::{AcceptedLoss, nothing_to_accept};
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_durable_fs::commit_counter::{CommitCounter, CounterFile, IssuedNumbers};
use reqlore_durable_fs::{has_hard_links, open_to_sync, unique_path_id};
use reqlore_storage_sqlite::RESTORE_HINT;
use reqlore_storage_sqlite::team::{FileGuard, TeamDatabase, accept_team_loss};

use crate::error::not_written;
use crate::private_file::{PrivateFile, local_folder, writable_local_folder};
use crate::{LOCAL_STATE_DIR, format_file_id, lock_folder};

pub const DISPLAY_PATH: &str = ".reqlore/local/team.db";
/// The database, its log and its index.
const DATABASE_FILES: [&str; 3] = ["team.db", "team.db-wal", "team.db-shm"];
const IDENTITY_FILE: &str = "team.id";
/// The side file with the number of commits.
const COMMITS_FILE: &str = "team.db-commits";
const FORMAT: &str = "reqlore team 1";
// The names until the files are complete.
const TEMP_IDENTITY_FILE: &str = "team.id.new";
const TEMP_COMMITS_FILE: &str = "team.db-commits.new";
const TEMP_DATABASE: &str = "team.new";

/// The next steps after a loss of commits.
const LOSS_HINT: &str = "put the lost files back, restore a backup with `reqlore restore`, or \
                         accept the loss with `reqlore check --accept-loss`";

/// The next steps after the loss of the database itself.
const MOVE_HINT: &str = "put it back; or restore a backup into an empty folder on the same disk \
                         with `reqlore restore`, and move its .reqlore/local/team.* here";

#[derive(Debug, Clone, Copy)]
pub struct CreationOptions {
    /// The longest wait for the lock of another process.
    pub lock_timeout: Duration,
    /// Called after each step; an error aborts the creation.
    pub checkpoint: fn(CreationStep) -> io::Result<()>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreationStep {
    /// The database is on disk under its temporary name.
    DatabaseWritten,
    /// `team.id` is in place: from here on the database exists.
    IdentitiesWritten,
    DatabaseNamed,
}

impl CreationOptions {
    pub(crate) fn pass_checkpoint(&self, step: CreationStep) -> StoreResult<()> {
        (self.checkpoint)(step).map_err(|error| not_written(DISPLAY_PATH, "write it", error))
    }
}

/// True if the database exists. Every commit calls this, so it only looks up a name.
pub fn exists(base: &Path) -> bool {
    base.join(LOCAL_STATE_DIR).join(IDENTITY_FILE).symlink_metadata().is_ok()
}

/// Opens the database of the project with the handle `root` and the path `base`; `None` if there is
/// none.
pub fn open(
    root: &Dir,
    base: &Path,
    read_only: bool,
    lock_timeout: Duration,
) -> StoreResult<Option<TeamDatabase>> {
    let Some(local) = local_folder(root)? else { return Ok(None) };
    let Some(identities) = read_identities(&local)? else {
        if local.symlink_metadata(DATABASE_FILES[0]).is_ok() {
            // A database without `team.id` was not created here.
            return Err(PrivateFile::new(&local, DATABASE_FILES[0]).foreign_identity());
        }
        return Ok(None);
    };
    let files =
        TeamFiles { folder: base.join(LOCAL_STATE_DIR), local, identities, is_incomplete: false };
    // An inspection must not finish the work of a killed process.
    if !read_only {
        files.finish_creation(lock_timeout)?;
    }
    let path = files.folder.join(DATABASE_FILES[0]);
    TeamDatabase::open(&path, DISPLAY_PATH, read_only, Arc::new(files)).map(Some)
}

/// Creates the database. Does nothing if another process was first.
pub fn create(root: &Dir, base: &Path, options: &CreationOptions) -> StoreResult<()> {
    let local = writable_local_folder(root)?;
    let _lock = lock_folder(&local, LOCAL_STATE_DIR, "the team data", options.lock_timeout)?;
    // Another process may have created it while this one waited for the lock.
    if exists(base) { Ok(()) } else { write_database(&local, base, options) }
}

/// The files of a database with the identities that `team.id` holds.
#[derive(Debug)]
struct TeamFiles {
    local: Dir,
    folder: PathBuf,
    identities: [String; 3],
    /// Log and index may be missing, because their loss is being accepted.
    is_incomplete: bool,
}

impl FileGuard for TeamFiles {
    fn check(&self, is_write: bool) -> StoreResult<()> {
        // Every request reads, so a read checks only the database itself.
        let count = if is_write && !self.is_incomplete { DATABASE_FILES.len() } else { 1 };
        for (name, identity) in DATABASE_FILES.iter().zip(&self.identities).take(count) {
            let file = PrivateFile::new(&self.local, name);
            let Some(found) = self.find(&file)? else {
                // Its content is needed, but that of the index is derived from the log.
                let hint = if *name == DATABASE_FILES[0] { MOVE_HINT } else { LOSS_HINT };
                return Err(file.refused(&format!("is missing; {hint}")));
            };
            found.check(&file)?;
            // SQLite would begin a new database.
            if *name == DATABASE_FILES[0] && found.metadata.len() == 0 {
                return Err(file.refused(&format!("is empty; {MOVE_HINT}")));
            }
            if found.identity != *identity {
                return Err(file.foreign_identity());
            }
        }
        Ok(())
    }
}

/// Creates the counter of a database, or replaces that of a lost one.
fn create_counter(local: &Dir, folder: &Path, counter: CommitCounter) -> StoreResult<()> {
    let temp = PrivateFile::new(local, TEMP_COMMITS_FILE);
    temp.remove()?;
    temp.create(|_| Ok(Vec::new()))?;
    let path = folder.join(TEMP_COMMITS_FILE);
    let written = CounterFile::fill(&path, counter, &IssuedNumbers::default());
    written.map_err(|error| temp.not_written("write it", error))?;
    temp.rename(COMMITS_FILE)
}

impl TeamFiles {
    /// Inspects a file by its path; `None` if it is missing.
    fn find(&self, file: &PrivateFile<'_>) -> StoreResult<Option<FoundFile>> {
        let path = self.folder.join(file.name);
        let metadata = match path.symlink_metadata() {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(file.failed("inspect it", error)),
        };
        let origin = unique_path_id(&path, &metadata);
        let origin = origin.map_err(|error| file.failed("inspect it", error))?;
        let identity = format_file_id(origin);
        let has_hard_links = has_hard_links(&path, &metadata);
        Ok(Some(FoundFile { metadata, has_hard_links, identity }))
    }

    /// Renames a new database, if a process was killed before it did.
    fn finish_creation(&self, lock_timeout: Duration) -> StoreResult<()> {
        // Usually it was renamed, and then no lock is needed.
        if self.local.symlink_metadata(DATABASE_FILES[0]).is_ok() {
            return Ok(());
        }
        let _lock = lock_folder(&self.local, LOCAL_STATE_DIR, "the team data", lock_timeout)?;
        let temp = PrivateFile::new(&self.local, TEMP_DATABASE);
        match self.find(&temp) {
            // Only the file that `team.id` names is ours.
            Ok(Some(new)) if new.identity == self.identities[0] => temp.rename(DATABASE_FILES[0]),
            _ => Ok(()),
        }
    }

    /// Returns the log or the index that is missing. An empty one without the right identity, which
    /// a killed acceptance left, has no content either.
    fn missing_sidecars(&self) -> StoreResult<Vec<&'static str>> {
        let mut missing = Vec::new();
        for (name, identity) in DATABASE_FILES.iter().zip(&self.identities).skip(1) {
            let file = PrivateFile::new(&self.local, name);
            match self.find(&file)? {
                Some(found) if found.identity == *identity => found.check(&file)?,
                Some(found) if found.metadata.len() > 0 => return Err(file.foreign_identity()),
                _ => missing.push(*name),
            }
        }
        Ok(missing)
    }

    /// Creates the missing files, and writes the identities of all of them.
    fn renew_identities(&self) -> StoreResult<()> {
        let mut identities = vec![self.identities[0].clone()];
        for name in &DATABASE_FILES[1..] {
            let file = PrivateFile::new(&self.local, name);
            identities.push(match self.find(&file)? {
                Some(found) => {
                    found.check(&file)?;
                    found.identity
                }
                None => file.create(|_| Ok(Vec::new()))?,
            });
        }
        write_identities(&self.local, &identities)
    }
}

/// Creates the database. The caller holds the lock of the folder.
fn write_database(local: &Dir, base: &Path, options: &CreationOptions) -> StoreResult<()> {
    let database = PrivateFile::new(local, DATABASE_FILES[0]);
    let temp_database = PrivateFile::new(local, TEMP_DATABASE);
    // Without `team.id` it came from elsewhere.
    if local.symlink_metadata(database.name).is_ok() {
        return Err(database.foreign_identity());
    }
    // Remains of a killed process. SQLite would apply an old log to the new database.
    for name in ["team.new-wal", "team.new-shm", "team.new-journal"] {
        PrivateFile::new(local, name).remove()?;
    }
    temp_database.remove()?;
    // SQLite would create the file readable by all users.
    let identity = temp_database.create(|_| Ok(Vec::new()))?;
    let path = base.join(LOCAL_STATE_DIR).join(TEMP_DATABASE);
    let counter = TeamDatabase::create(&path, DISPLAY_PATH)?;
    // `team.id` must not be on disk before the rows are.
    let synced = open_to_sync(&path).and_then(|opened| opened.sync_all());
    synced.map_err(|error| temp_database.not_written("write it", error))?;
    options.pass_checkpoint(CreationStep::DatabaseWritten)?;
    let mut identities = vec![identity];
    // SQLite reuses existing files, so the identities stay valid.
    for name in &DATABASE_FILES[1..] {
        let sidecar = PrivateFile::new(local, name);
        // A killed process may have left an empty file. A log with content had a database.
        if local.symlink_metadata(name).is_ok_and(|stat| stat.is_file() && stat.len() == 0) {
            sidecar.remove()?;
        }
        if local.symlink_metadata(name).is_ok() {
            return Err(sidecar.refused(&format!("has no team.db and team.id; {MOVE_HINT}")));
        }
        identities.push(sidecar.create(|_| Ok(Vec::new()))?);
    }
    create_counter(local, &base.join(LOCAL_STATE_DIR), counter)?;
    // The commit point: readers use the database from here on.
    write_identities(local, &identities)?;
    options.pass_checkpoint(CreationStep::IdentitiesWritten)?;
    temp_database.rename(database.name)?;
    options.pass_checkpoint(CreationStep::DatabaseNamed)
}

/// Writes `team.id` with the identities of the other files.
fn write_identities(local: &Dir, identities: &[String]) -> StoreResult<()> {
    let temp = PrivateFile::new(local, TEMP_IDENTITY_FILE);
    temp.remove()?;
    temp.create(|own| Ok(format!("{FORMAT}\n{own}\n{}\n", identities.join("\n")).into()))?;
    temp.rename(IDENTITY_FILE)
}

/// Accepts that the database lost commits: revokes all tokens, because a revocation may be lost,
/// and makes the remaining files the valid ones. No process may have it open.
pub fn accept_loss(
    root: &Dir,
    base: &Path,
    lock_timeout: Duration,
    context: WriteContext,
) -> StoreResult<AcceptedLoss> {
    let nothing = || nothing_to_accept(DISPLAY_PATH);
    let local = local_folder(root)?.ok_or_else(nothing)?;
    let _lock = lock_folder(&local, LOCAL_STATE_DIR, "the team data", lock_timeout)?;
    let identities = read_identities(&local)?.ok_or_else(nothing)?;
    let folder = base.join(LOCAL_STATE_DIR);
    let files = Arc::new(TeamFiles { folder, local, identities, is_incomplete: true });
    let recreate = || {
        let missing = files.missing_sidecars()?;
        if missing.is_empty() {
            return Ok(None);
        }
        // Until the last step there is no counter, so a killed process leaves a refused database.
        PrivateFile::new(&files.local, COMMITS_FILE).remove()?;
        files.renew_identities()?;
        Ok(Some(format!("{} was missing", missing.join(" and "))))
    };
    let path = files.folder.join(DATABASE_FILES[0]);
    let guard = Arc::<TeamFiles>::clone(&files);
    let accepted = accept_team_loss(&path, DISPLAY_PATH, guard, recreate, context)?;
    // Created again, because it must belong to the owner of the folder.
    let file = PrivateFile::new(&files.local, COMMITS_FILE);
    let counter = CommitCounter::read(&files.folder.join(COMMITS_FILE));
    if let Some(counter) = counter.map_err(|error| file.failed("read it", error))? {
        create_counter(&files.local, &files.folder, counter)?;
    }
    Ok(accepted)
}

/// Reads the identities in `team.id`; `None` without that file.
fn read_identities(local: &Dir) -> StoreResult<Option<[String; 3]>> {
    let file = PrivateFile::new(local, IDENTITY_FILE);
    let Some(opened) = file.open()? else { return Ok(None) };
    let mut bytes = Vec::new();
    // Our file is shorter, and a foreign one must not fill the memory.
    let read = opened.file.take(1024).read_to_end(&mut bytes);
    read.map_err(|error| file.failed("read it", error))?;
    let text = String::from_utf8_lossy(&bytes);
    let mut lines = text.lines().map(str::to_owned);
    if lines.next().as_deref() != Some(FORMAT) {
        let reason = format!("can't be read by this version; update Reqlore, or {RESTORE_HINT}");
        return Err(StoreError::Unreadable { subject: file.display_path(), reason });
    }
    match [lines.next(), lines.next(), lines.next(), lines.next()] {
        [Some(own), Some(database), Some(log), Some(index)] if own == opened.identity => {
            Ok(Some([database, log, index]))
        }
        _ => Err(file.foreign_identity()),
    }
}

struct FoundFile {
    metadata: Metadata,
    has_hard_links: bool,
    identity: String,
}

impl FoundFile {
    fn check(&self, file: &PrivateFile<'_>) -> StoreResult<()> {
        file.check(&self.metadata, self.has_hard_links)
    }
}
