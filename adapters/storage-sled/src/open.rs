//! Opens or creates a database.
//!
//! sled writes to every folder that it opens, even to one that it then reports as damaged. So our
//! own lock is taken and the files are checked before sled opens them.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use reqlore_domain::document::DocumentMeta;
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_durable_fs as durable_fs;
use reqlore_durable_fs::commit_counter::DatabaseId;
use sled::{IVec, Tree};

use crate::database::{
    COMMITS_KEY, EPOCH_KEY, IMPORT_KEY, META, SledDatabase, TOTALS_KEY, TREE_NAMES, TreeBatch,
    WriteStop, lock,
};
use crate::error::{
    INCOMPLETE, RESTORE_HINT, catch_sled_panic, damaged_database, database_unavailable,
    folder_error, folder_refused, from_sled,
};
use crate::files::{self, DB, DatabaseFile, FolderState, SyncFn};
use crate::loss::CommitLoss;
use crate::records::{decode, encode};
use crate::row_totals::RowTotals;

/// Size of sled's page cache. The operating system caches the file too, so a larger cache would
/// only use memory.
const CACHE_BYTES: u64 = 16 << 20;
/// How long sled may take to recover its log, and to read [`PROGRESS_ROWS`].
const OPEN_TIMEOUT: Duration = Duration::from_secs(if cfg!(test) { 10 } else { 60 });
const PROGRESS_ROWS: u64 = 4096;
/// Maximum number of damages that a search returns.
const MAX_DAMAGES: usize = 100;
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// The tree that sled creates by itself.
const DEFAULT_TREE: &[u8] = b"__sled__default";
/// The trees (hundreds) and the metadata in them.
pub(crate) const FORMAT: u32 = 400 + DocumentMeta::FORMAT;
/// Key in [`META`] of the [`FORMAT`]: digits without a checksum, in every version.
pub(crate) const FORMAT_KEY: &[u8] = b"schema";
/// Key in [`META`] of the [`DatabaseId`].
pub(crate) const DATABASE_ID_KEY: &[u8] = b"store";
const ALREADY_OPEN: &str =
    "is already served by another process; stop that process, or name another folder";

/// Opens or creates a database.
pub(crate) fn open_database(folder: &Path, sync: SyncFn) -> StoreResult<SledDatabase> {
    let created =
        create_folder(folder).map_err(|error| folder_error(folder, "make the folder", error))?;
    let OpenedDatabase { database, is_new, state, loss } = open_unchecked(folder, sync, false)?;
    if let Some(loss) = loss {
        return Err(loss.into_error(folder));
    }
    catch_sled_panic(|| database.initialize(folder, is_new, state, &created))
        .map_err(|error| name_folder(folder, error))?;
    // sled creates files at every start, readable by all users.
    files::make_private(folder)?;
    Ok(database)
}

/// A database whose rows are as they were written, and which may lack commits.
pub(crate) struct OpenedDatabase {
    pub(crate) database: SledDatabase,
    is_new: bool,
    pub(crate) state: FolderState,
    pub(crate) loss: Option<CommitLoss>,
}

/// Opens the files in a folder and checks all rows. The commit counter may be missing if
/// `accepts_loss` is true.
pub(crate) fn open_unchecked(
    folder: &Path,
    sync: SyncFn,
    accepts_loss: bool,
) -> StoreResult<OpenedDatabase> {
    // Before the folder is inspected, so that two processes can't both prepare it.
    let lock = durable_fs::try_lock_dir(folder);
    let Some(lock) = lock.map_err(|error| folder_error(folder, "lock the folder", error))? else {
        return Err(folder_refused(folder, ALREADY_OPEN));
    };
    if durable_fs::is_network_fs(folder).unwrap_or_default() {
        let reason = "is on a network file system, where locks and syncs are not reliable; name a \
                      folder on a local disk";
        return Err(folder_refused(folder, reason));
    }
    let state = files::prepare_folder(folder, accepts_loss)?;
    let OpenedTrees { trees, totals } = open_trees(folder)?;
    let database_id = identify(&trees, state).map_err(|error| name_folder(folder, error))?;
    let file = DatabaseFile::open(folder, sync);
    let database = SledDatabase {
        trees,
        file: file.map_err(|error| folder_error(folder, "open its files", error))?,
        database_id,
        writer_id: random_writer_id().map_err(|error| name_folder(folder, error))?,
        gate: Arc::default(),
        copy_lock: Arc::default(),
        is_incomplete: AtomicBool::new(false),
        write_stop: OnceLock::new(),
        totals: Mutex::new(totals),
        issued_numbers: Mutex::default(),
        commits: AtomicU64::new(0),
        epoch: AtomicU64::new(0),
        _lock: lock,
    };
    let checked = catch_sled_panic(|| database.check(folder, state));
    let (is_new, loss) = checked.map_err(|error| name_folder(folder, error))?;
    Ok(OpenedDatabase { database, is_new, state, loss })
}

/// Creates the folder. Returns the folders that must be synced before it survives a power cut.
fn create_folder(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let created = durable_fs::create_private_dirs(folder)?;
    if !created.is_empty() {
        return Ok(created);
    }
    // A killed process may have created the folder without syncing its parent.
    let folder = std::path::absolute(folder)?;
    Ok(folder.ancestors().take(2).map(Path::to_owned).collect())
}

/// The open trees and the totals of their rows.
struct OpenedTrees {
    trees: Vec<Tree>,
    totals: RowTotals,
}

enum OpenFailure {
    Sled(sled::Error),
    /// The database has another [`FORMAT`] than this version.
    OtherFormat(IVec),
    /// The database has trees that this version does not know.
    UnknownTrees,
    /// The keys of a tree are not in order.
    Disordered,
}

impl From<sled::Error> for OpenFailure {
    fn from(error: sled::Error) -> Self {
        Self::Sled(error)
    }
}

/// Opens sled and reads all rows on a separate thread, because sled panics on some damage and hangs
/// on other damage.
fn open_trees(folder: &Path) -> StoreResult<OpenedTrees> {
    let (sender, receiver) = channel();
    let config = sled::Config::new()
        .path(folder)
        .cache_capacity(CACHE_BYTES)
        .mode(sled::Mode::HighThroughput);
    let thread = std::thread::Builder::new().name("storage-sled-open".to_owned());
    // After a panic the dropped sender disconnects; after a timeout no receiver is left.
    let spawned = thread.spawn(move || {
        let opened = open_sled(&config, &sender);
        drop(sender.send(Some(opened)));
    });
    spawned.map_err(|error| folder_error(folder, "start a thread", error))?;
    loop {
        return match receiver.recv_timeout(OPEN_TIMEOUT) {
            // The thread made progress.
            Ok(None) => continue,
            Ok(Some(Ok(opened))) => Ok(opened),
            Ok(Some(Err(failure))) => Err(open_error(folder, failure)),
            Err(RecvTimeoutError::Disconnected) => Err(damaged_folder(folder, "sled panicked")),
            Err(RecvTimeoutError::Timeout) => {
                let cause = format!("it did not open within {} seconds", OPEN_TIMEOUT.as_secs());
                Err(damaged_folder(folder, &cause))
            }
        };
    }
}

fn open_error(folder: &Path, failure: OpenFailure) -> StoreError {
    match failure {
        OpenFailure::OtherFormat(found) => {
            let place = folder.display().to_string();
            StoreError::other_format(&place, found.escape_ascii(), FORMAT)
        }
        OpenFailure::UnknownTrees => {
            folder_refused(folder, "holds data of another program; name another folder")
        }
        // sled reports its lock as an I/O error without a kind of its own.
        OpenFailure::Sled(sled::Error::Io(error)) if error.to_string().contains("acquire lock") => {
            folder_refused(folder, ALREADY_OPEN)
        }
        OpenFailure::Sled(sled::Error::Io(error)) => folder_error(folder, "open it", error),
        OpenFailure::Sled(error) => damaged_folder(folder, &error.to_string()),
        OpenFailure::Disordered => damaged_folder(folder, "its keys are out of order"),
    }
}

/// Sends `None` from time to time.
fn open_sled(
    config: &sled::Config,
    progress: &Sender<Option<Result<OpenedTrees, OpenFailure>>>,
) -> Result<OpenedTrees, OpenFailure> {
    let db = config.open()?;
    let stored = db.tree_names();
    // First, because another format may have other trees.
    if stored.iter().any(|name| name == TREE_NAMES[META].as_bytes())
        && let Some(found) = db.open_tree(TREE_NAMES[META])?.get(FORMAT_KEY)?
        && found != FORMAT.to_string().as_bytes()
    {
        return Err(OpenFailure::OtherFormat(found));
    }
    for name in &stored {
        let is_known = TREE_NAMES.iter().any(|known| name == known.as_bytes());
        if !is_known && name != DEFAULT_TREE {
            return Err(OpenFailure::UnknownTrees);
        }
    }
    let mut trees = Vec::with_capacity(TREE_NAMES.len());
    for name in TREE_NAMES {
        trees.push(db.open_tree(name)?);
    }
    let totals = read_totals(&trees, || drop(progress.send(None)))?;
    Ok(OpenedTrees { trees, totals })
}

/// Reads all rows. Calls `progress` from time to time.
fn read_totals(trees: &[Tree], progress: impl Fn()) -> Result<RowTotals, OpenFailure> {
    let (mut totals, mut count) = (RowTotals::default(), 0_u64);
    for (number, tree) in trees.iter().enumerate() {
        let mut last = None;
        for row in tree {
            let (key, value) = row?;
            totals.add(number, &key, &value);
            // Pages that link to each other in a circle would never end.
            if last.is_some_and(|last| last >= key) {
                return Err(OpenFailure::Disordered);
            }
            last = Some(key);
            count += 1;
            if count.is_multiple_of(PROGRESS_ROWS) {
                progress();
            }
        }
    }
    Ok(totals)
}

/// Returns the identity of a database. One without gets that of its counter or a new one.
fn identify(trees: &[Tree], state: FolderState) -> StoreResult<DatabaseId> {
    if let Some(value) = trees[META].get(DATABASE_ID_KEY).map_err(from_sled)? {
        return decode(DATABASE_ID_KEY, &value)
            .map(DatabaseId)
            .ok_or_else(|| damaged_database("its ID is unreadable"));
    }
    if let Some(counter) = state.counter {
        return Ok(counter.database_id);
    }
    DatabaseId::random().map_err(|error| database_unavailable("it has no identity", Some(error)))
}

fn random_writer_id() -> StoreResult<u64> {
    let id = DatabaseId::random()
        .map_err(|error| database_unavailable("its writer has no identity", Some(error)))?;
    Ok(id.0.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes)))
}

fn damaged_folder(folder: &Path, cause: &str) -> StoreError {
    StoreError::Unreadable {
        place: folder.display().to_string(),
        reason: format!("is damaged ({cause}); {RESTORE_HINT}"),
    }
}

/// Names the folder in an error, because the operator sees it and no client does.
pub(crate) fn name_folder(folder: &Path, error: StoreError) -> StoreError {
    let place = folder.display().to_string();
    match error {
        StoreError::Unavailable { reason, source, .. } => {
            StoreError::Unavailable { place, reason, source }
        }
        StoreError::Unreadable { reason, .. } => StoreError::Unreadable { place, reason },
        other => other,
    }
}

impl SledDatabase {
    /// Checks the contents. Returns true for a new database.
    fn check(&self, folder: &Path, state: FolderState) -> StoreResult<(bool, Option<CommitLoss>)> {
        let is_new = self.get(META, FORMAT_KEY)?.is_none();
        if !is_new && self.meta_value::<RowTotals>(TOTALS_KEY)? != Some(*lock(&self.totals)) {
            return Err(damaged_database("rows are missing or changed"));
        }
        let commits = self.meta_value(COMMITS_KEY)?.unwrap_or_default();
        self.commits.store(commits, Ordering::Relaxed);
        self.epoch.store(self.meta_value(EPOCH_KEY)?.unwrap_or_default(), Ordering::Relaxed);
        for (_, project) in self.list_projects()? {
            self.raise_issued_numbers(&project);
        }
        let loss = self.find_loss(state);
        if is_new && loss.is_none() && !state.is_unfinished {
            return Err(damaged_database("it has no format"));
        }
        if self.get(META, IMPORT_KEY)?.is_some() {
            return Err(folder_refused(folder, INCOMPLETE));
        }
        Ok((is_new, loss))
    }

    /// Creates the contents of a new database.
    fn initialize(
        &self,
        folder: &Path,
        is_new: bool,
        state: FolderState,
        created: &[PathBuf],
    ) -> StoreResult<()> {
        if is_new {
            let mut batch = TreeBatch::default();
            batch.put(META, FORMAT_KEY, FORMAT.to_string().as_bytes());
            batch.put(META, DATABASE_ID_KEY, encode(DATABASE_ID_KEY, &self.database_id.0));
            self.write_batch(batch)?;
        }
        if state.is_unfinished {
            // The contents must be durable before the marker of the creation is removed.
            self.sync()?;
            let finished = files::finish_creation(folder, created);
            finished.map_err(|error| folder_error(folder, "sync it", error))?;
        }
        Ok(())
    }

    /// Reads everything again. Returns at most [`MAX_DAMAGES`] texts.
    pub(crate) fn find_damage(self: &Arc<Self>) -> StoreResult<Vec<String>> {
        let mut damages = Vec::new();
        for record in self.archive_records()? {
            if let Err(error) = self.watch_damage(record) {
                damages.push(error.to_string());
            }
            if damages.len() == MAX_DAMAGES {
                return Ok(damages);
            }
        }
        if damages.is_empty() {
            damages = self.watch_damage(self.list_differences())?;
            damages.truncate(MAX_DAMAGES);
        }
        let read = read_totals(&self.trees, || {}).map_err(|failure| match failure {
            OpenFailure::Sled(error) => from_sled(error),
            _ => damaged_database("its keys are out of order"),
        });
        match self.watch_damage(read) {
            Err(error) if damages.is_empty() => damages.push(error.to_string()),
            Ok(totals) if damages.is_empty() && totals != *lock(&self.totals) => {
                let error = damaged_database("rows are missing or changed");
                self.stop_writes(WriteStop::Damaged, &error);
                damages.push(error.to_string());
            }
            _ => {}
        }
        Ok(damages)
    }
}

/// Waits until sled has closed its file, which happens some time after the last tree was dropped.
pub(crate) fn wait_until_closed(folder: &Path) -> StoreResult<()> {
    let file =
        File::open(folder.join(DB)).map_err(|error| folder_error(folder, "close it", error))?;
    let deadline = Instant::now() + CLOSE_TIMEOUT;
    // sled locks its file while it is open.
    while file.try_lock().is_err() {
        if Instant::now() > deadline {
            return Err(folder_error(folder, "close it", io::ErrorKind::TimedOut.into()));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
