//! Opens or creates a database.
//!
//! sled writes to every folder that it opens, even to one that it then reports as damaged. So our
//! own lock is taken and the files are checked before sled opens them.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use reqlore_domain::audit_log::ChainHead;
use reqlore_domain::document::DocumentMeta;
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_durable_fs as durable_fs;
use reqlore_durable_fs::commit_counter::DatabaseId;
use reqlore_ordered_rows::Changes;
use reqlore_row_store::damage::KnownDamage;
use reqlore_row_store::error::{DATABASE_LABEL, damaged};
use reqlore_row_store::row::RowChange;
use reqlore_row_store::tables::STORE;
use reqlore_row_store::{METADATA_FORMAT, StoreRow};
use sled::{IVec, Tree};

use crate::commit_state::{CommitState, STATE_KEY, Totals};
use crate::database::{OpenDatabase, SledTree, lock};
use crate::error::{
    PUT_BACK_HINT, RESTORE_HINT, catch_sled_panic, damaged_folder, database_unavailable,
    folder_error, folder_refused, from_sled, name_folder,
};
use crate::files::{self, DB, DatabaseFile, FolderState, SyncFn};

/// Size of sled's page cache. The operating system caches the file too, so a larger cache would
/// only use memory.
const CACHE_BYTES: u64 = 16 << 20;
/// How long sled may take to recover its log, and to read [`PROGRESS_ROWS`].
const OPEN_TIMEOUT: Duration = Duration::from_secs(if cfg!(test) { 10 } else { 60 });
const PROGRESS_ROWS: u64 = 4096;
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// The tree that sled creates by itself.
const DEFAULT_TREE: &[u8] = b"__sled__default";
/// The tree of everything. Every version has one of this name, with its [`FORMAT`].
const TREE_NAME: &str = "meta";
/// The keys and values of the tree (hundreds) and the metadata in them.
pub(crate) const FORMAT: u32 = 600 + DocumentMeta::FORMAT;
/// Key of the [`FORMAT`]: digits without a checksum, in every version.
pub(crate) const FORMAT_KEY: &[u8] = b"schema";
const COUNTER_FILE: &str = "file acknowledged";
/// The damage that only the totals show.
pub(crate) const INCOMPLETE: &str = "rows are missing or changed";
const ALREADY_OPEN: &str =
    "is already served by another process; stop that process, or name another folder";

/// Opens or creates a database.
pub(crate) fn open_database(
    folder: &Path,
    sync: SyncFn,
    copy_timeout: Duration,
) -> StoreResult<OpenDatabase> {
    let created =
        create_folder(folder).map_err(|error| folder_error(folder, "make the folder", error))?;
    let OpenedDatabase { database, is_new, state, loss } =
        open_unchecked(folder, sync, copy_timeout, false)?;
    if let Some(loss) = loss {
        let reason = format!(
            "{loss}; {PUT_BACK_HINT}, or accept the loss with `reqlore check --accept-loss`"
        );
        return Err(folder_refused(folder, &reason));
    }
    catch_sled_panic(|| database.initialize(folder, is_new, state.is_unfinished, &created))
        .map_err(|error| name_folder(folder, error))?;
    // sled creates files at every start, readable by all users.
    files::make_private(folder)?;
    Ok(database)
}

/// A database whose rows are as they were written, and which may lack commits.
pub(crate) struct OpenedDatabase {
    pub(crate) database: OpenDatabase,
    is_new: bool,
    pub(crate) state: FolderState,
    /// Why it may lack commits.
    pub(crate) loss: Option<String>,
}

/// Opens the files in a folder and checks all rows. The commit counter may be missing if
/// `accepts_loss` is true.
pub(crate) fn open_unchecked(
    folder: &Path,
    sync: SyncFn,
    copy_timeout: Duration,
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
    let (tree, totals) = open_tree(folder)?;
    let file = DatabaseFile::open(folder, sync);
    let mut database = OpenDatabase {
        tree: Some(SledTree(tree)),
        file: file.map_err(|error| folder_error(folder, "open its files", error))?,
        state: Mutex::default(),
        commit_lock: Arc::default(),
        copy_lock: Arc::default(),
        copy_timeout,
        damage: Arc::new(KnownDamage::new(DATABASE_LABEL.to_owned(), RESTORE_HINT)),
        undo: OnceLock::new(),
        _lock: lock,
    };
    let checked = catch_sled_panic(|| database.check(totals, &state));
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

pub(crate) enum OpenFailure {
    Sled(sled::Error),
    /// The database has another [`FORMAT`] than this version.
    OtherFormat(IVec),
    /// The database has trees of another program.
    UnknownTrees,
    /// The keys are not in order.
    Disordered,
}

impl From<sled::Error> for OpenFailure {
    fn from(error: sled::Error) -> Self {
        Self::Sled(error)
    }
}

/// Opens sled and reads all rows on a separate thread, because sled panics on some damage and hangs
/// on other damage.
fn open_tree(folder: &Path) -> StoreResult<(Tree, Totals)> {
    let (sender, receiver) = channel();
    let config = sled::Config::new()
        .path(folder)
        .cache_capacity(CACHE_BYTES)
        // sled's flush thread reads the current write buffer without pinning its epoch, so a
        // concurrent commit can free it. Every commit flushes, while no other thread uses the tree.
        .flush_every_ms(None)
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
            let subject = folder.display().to_string();
            StoreError::other_format(&subject, found.escape_ascii(), FORMAT)
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
    progress: &Sender<Option<Result<(Tree, Totals), OpenFailure>>>,
) -> Result<(Tree, Totals), OpenFailure> {
    let db = config.open()?;
    let stored = db.tree_names();
    // First, because another format may have other trees.
    if stored.iter().any(|name| name == TREE_NAME.as_bytes())
        && let Some(found) = db.open_tree(TREE_NAME)?.get(FORMAT_KEY)?
        && found != FORMAT.to_string().as_bytes()
    {
        return Err(OpenFailure::OtherFormat(found));
    }
    if stored.iter().any(|name| name != TREE_NAME.as_bytes() && name != DEFAULT_TREE) {
        return Err(OpenFailure::UnknownTrees);
    }
    let tree = db.open_tree(TREE_NAME)?;
    let totals = read_totals(&tree, || drop(progress.send(None)))?;
    Ok((tree, totals))
}

/// Reads everything. Calls `progress` from time to time.
pub(crate) fn read_totals(tree: &Tree, progress: impl Fn()) -> Result<Totals, OpenFailure> {
    let (mut totals, mut count, mut last) = (Totals::default(), 0_u64, None);
    for row in tree {
        let (key, value) = row?;
        totals.add(&key, &value);
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
    Ok(totals)
}

impl OpenDatabase {
    /// Checks the contents and reads the state. Returns true for a new database.
    fn check(
        &mut self,
        totals: Totals,
        folder: &FolderState,
    ) -> StoreResult<(bool, Option<String>)> {
        let tree = &self.tree().0;
        let is_new = tree.get(FORMAT_KEY).map_err(from_sled)?.is_none();
        let state = match tree.get(STATE_KEY).map_err(from_sled)? {
            Some(value) => {
                CommitState::decode(&value).ok_or_else(|| damaged("its state is unreadable"))?
            }
            None => new_state(folder)?,
        };
        if !is_new && state.totals != totals {
            return Err(damaged(INCOMPLETE));
        }
        let loss = match &folder.counter {
            None if folder.is_unfinished => None,
            counter => {
                let counter = counter.as_ref().map(|(counter, _)| *counter);
                state.counter().find_loss(counter, COUNTER_FILE)
            }
        };
        if is_new && loss.is_none() && !folder.is_unfinished {
            return Err(damaged("it has no format"));
        }
        self.state = Mutex::new(state);
        Ok((is_new, loss))
    }

    /// Creates the contents of a new database.
    fn initialize(
        &self,
        folder: &Path,
        is_new: bool,
        is_unfinished: bool,
        created: &[PathBuf],
    ) -> StoreResult<()> {
        let state = lock(&self.state).clone();
        let mut changes = Changes::default();
        if is_new {
            let row = StoreRow {
                state: StoreRow::COMPLETE.to_owned(),
                store_id: state.database_id,
                epoch: 0,
                newest_audit: ChainHead::default(),
                metadata_format: METADATA_FORMAT,
            };
            changes.add(self.tree(), &STORE, &[RowChange::Insert(row.encode())])?;
            changes.set(FORMAT_KEY.to_vec(), None, Some(FORMAT.to_string().as_bytes().into()));
        }
        if is_unfinished {
            // The contents must be durable before the marker of the creation is removed.
            self.commit(changes, state, true)?;
            let finished = files::finish_creation(folder, created);
            finished.map_err(|error| folder_error(folder, "sync it", error))?;
        }
        Ok(())
    }
}

/// The state of a database without one.
fn new_state(folder: &FolderState) -> StoreResult<CommitState> {
    let database_id = match &folder.counter {
        Some((counter, _)) => counter.database_id,
        None => DatabaseId::random()
            .map_err(|error| database_unavailable("it has no identity", Some(error)))?,
    };
    Ok(CommitState { database_id: database_id.0, ..CommitState::default() })
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

/// How long a commit waits for the end of a copy.
pub(crate) const COPY_TIMEOUT: Duration = Duration::from_secs(5);
