//! Opens or creates a database.
//!
//! sled writes to every folder that it opens, even to one that it then reports as damaged. So our
//! own lock is taken and the files are checked before sled opens them.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use reqlore_domain::document::{Document, DocumentKind, DocumentMeta};
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_durable_fs as durable_fs;
use sled::Tree;

use crate::database::{
    COMMITS_KEY, DOCUMENTS, EPOCH_KEY, IMPORT_KEY, LINKS, META, REFERENCES, SledDatabase,
    TREE_NAMES, TreeBatch,
};
use crate::error::{
    INCOMPLETE, RESTORE_HINT, catch_sled_panic, folder_error, folder_refused, from_sled,
};
use crate::files::{self, DB, DatabaseFile, FolderState, SyncFn};
use crate::records::{DocumentRow, SCHEMA_VERSION, encode};
use crate::write;

/// Size of sled's page cache. The operating system caches the file too, so a larger cache would
/// only use memory.
const CACHE_BYTES: u64 = 16 << 20;
const OPEN_TIMEOUT: Duration = Duration::from_secs(60);
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// The tree that sled creates by itself.
const DEFAULT_TREE: &[u8] = b"__sled__default";
/// Key in [`META`] of the schema's version: one byte without a checksum, in every version.
pub(crate) const SCHEMA_KEY: &[u8] = b"schema";
/// Key in [`META`] of the [`DocumentMeta::FORMAT`] of the stored metadata.
pub(crate) const META_FORMAT_KEY: &[u8] = b"heads";
/// Format during a rebuild of the metadata. No version of Reqlore uses it.
const NO_FORMAT: u32 = 0;
/// A rebuild writes a transaction after this number of changes of trees.
const REBUILD_CHANGES: usize = 2000;

const ALREADY_OPEN: &str =
    "is already served by another process; stop that process, or name another folder";

pub(crate) fn open_database(folder: &Path, sync: SyncFn) -> StoreResult<SledDatabase> {
    let created =
        create_folder(folder).map_err(|error| folder_error(folder, "make the folder", error))?;
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
    let state = files::prepare_folder(folder)?;
    let trees = open_trees(folder)?;
    let file = DatabaseFile::open(folder, sync);
    let database = SledDatabase {
        trees,
        file: file.map_err(|error| folder_error(folder, "open its files", error))?,
        gate: Arc::default(),
        copy_lock: Arc::default(),
        is_incomplete: AtomicBool::new(false),
        is_write_disabled: AtomicBool::new(false),
        commits: AtomicU64::new(0),
        epoch: AtomicU64::new(0),
        _lock: lock,
    };
    catch_sled_panic(|| database.initialize(folder, state, &created))
        .map_err(|error| name_folder(folder, error))?;
    // sled creates files at every start, readable by all users.
    files::make_private(folder)?;
    Ok(database)
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

/// Opens sled on a separate thread, because it panics on some damage and hangs on other damage.
fn open_trees(folder: &Path) -> StoreResult<[Tree; TREE_NAMES.len()]> {
    let (sender, receiver) = channel();
    let config = sled::Config::new()
        .path(folder)
        .cache_capacity(CACHE_BYTES)
        .mode(sled::Mode::HighThroughput);
    let thread = std::thread::Builder::new().name("storage-sled-open".to_owned());
    // After a panic the dropped sender disconnects; after a timeout no receiver is left.
    let spawned = thread.spawn(move || drop(sender.send(open_sled(&config))));
    spawned.map_err(|error| folder_error(folder, "start a thread", error))?;
    let trees = match receiver.recv_timeout(OPEN_TIMEOUT) {
        Ok(Ok(Some(trees))) => trees,
        Ok(Ok(None)) => {
            let reason = "holds data of another program or of a newer reqlore; name another folder";
            return Err(folder_refused(folder, reason));
        }
        // sled reports its lock as an I/O error without a kind of its own.
        Ok(Err(sled::Error::Io(error))) if error.to_string().contains("acquire lock") => {
            return Err(folder_refused(folder, ALREADY_OPEN));
        }
        Ok(Err(sled::Error::Io(error))) => return Err(folder_error(folder, "open it", error)),
        Ok(Err(error)) => return Err(damaged_folder(folder, &error.to_string())),
        Err(RecvTimeoutError::Disconnected) => {
            return Err(damaged_folder(folder, "sled panicked"));
        }
        Err(RecvTimeoutError::Timeout) => {
            let cause = format!("it did not open within {} seconds", OPEN_TIMEOUT.as_secs());
            return Err(damaged_folder(folder, &cause));
        }
    };
    trees.try_into().map_err(|_| damaged_folder(folder, "a tree is missing"))
}

/// Returns `None` for a database with trees that this version does not know.
fn open_sled(config: &sled::Config) -> sled::Result<Option<Vec<Tree>>> {
    let db = config.open()?;
    for name in db.tree_names() {
        let is_known = TREE_NAMES.iter().any(|known| name == known.as_bytes());
        if !is_known && name != DEFAULT_TREE {
            return Ok(None);
        }
    }
    let mut trees = Vec::with_capacity(TREE_NAMES.len());
    for name in TREE_NAMES {
        trees.push(db.open_tree(name)?);
    }
    Ok(Some(trees))
}

fn damaged_folder(folder: &Path, cause: &str) -> StoreError {
    StoreError::Unreadable {
        place: folder.display().to_string(),
        reason: format!("is damaged ({cause}); {RESTORE_HINT}"),
    }
}

/// Names the folder in an error, because the operator sees it and no client does.
fn name_folder(folder: &Path, error: StoreError) -> StoreError {
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
    /// Creates the contents of a new database. Checks those of an existing one and upgrades them.
    fn initialize(
        &self,
        folder: &Path,
        state: FolderState,
        created: &[PathBuf],
    ) -> StoreResult<()> {
        let schema = self.get(META, SCHEMA_KEY)?;
        let schema = schema.map(|schema| schema.to_vec());
        if !matches!(schema.as_deref(), None | Some([1..=SCHEMA_VERSION])) {
            let reason = "was written by a newer reqlore; update reqlore, or name another folder";
            return Err(folder_refused(folder, reason));
        }
        let commits = self.meta_value(COMMITS_KEY)?.unwrap_or_default();
        if commits < state.acknowledged {
            let reason = format!("lacks changes that were acknowledged; {RESTORE_HINT}");
            return Err(folder_refused(folder, &reason));
        }
        self.commits.store(commits, Ordering::Relaxed);
        self.epoch.store(self.meta_value(EPOCH_KEY)?.unwrap_or_default(), Ordering::Relaxed);
        if self.get(META, IMPORT_KEY)?.is_some() {
            return Err(folder_refused(folder, INCOMPLETE));
        }
        if schema.is_none() {
            let mut batch = TreeBatch::default();
            batch.put(META, SCHEMA_KEY, &[SCHEMA_VERSION][..]);
            batch.put(META, META_FORMAT_KEY, encode(META_FORMAT_KEY, &DocumentMeta::FORMAT));
            self.write_batch(batch)?;
        } else if schema.as_deref() != Some(&[SCHEMA_VERSION]) {
            // Rows of the older schema are read as they are, so only its version changes.
            let mut batch = TreeBatch::default();
            batch.put(META, SCHEMA_KEY, &[SCHEMA_VERSION][..]);
            self.write_batch(batch)?;
            self.sync()?;
        }
        if self.meta_value(META_FORMAT_KEY)? != Some(DocumentMeta::FORMAT) {
            self.rebuild_metadata()?;
        }
        if state.is_unfinished {
            // The contents must be durable before the marker of the creation is removed.
            self.sync()?;
            let finished = files::finish_creation(folder, created);
            finished.map_err(|error| folder_error(folder, "sync it", error))?;
        }
        Ok(())
    }

    /// Derives metadata, links and references of all documents from their bodies, after another
    /// version of Reqlore wrote them.
    fn rebuild_metadata(&self) -> StoreResult<()> {
        // The valid format is written last, so an interrupted rebuild starts again.
        self.write_format(NO_FORMAT)?;
        // The keys of old links can't be derived from metadata of another format.
        self.tree(LINKS).clear().map_err(from_sled)?;
        for (_, project) in self.list_projects()? {
            for kind in DocumentKind::ALL {
                self.rebuild_kind(project.id, kind)?;
            }
        }
        self.write_format(DocumentMeta::FORMAT)?;
        self.sync()
    }

    fn write_format(&self, format: u32) -> StoreResult<()> {
        let mut batch = TreeBatch::default();
        batch.put(META, META_FORMAT_KEY, encode(META_FORMAT_KEY, &format));
        self.write_batch(batch)
    }

    fn rebuild_kind(&self, project: u32, kind: DocumentKind) -> StoreResult<()> {
        let mut batch = TreeBatch::default();
        for entry in self.document_entries(project, kind, None) {
            let (id, key, value) = entry?;
            // Damaged documents stay unchanged: their data may still be recovered.
            let Some(mut row) = DocumentRow::decode(&key, &value) else { continue };
            let Ok(body) = self.read_body(&key, &row, &id) else { continue };
            if let Some(old) = row.reference_key(project, &id) {
                batch.remove(REFERENCES, old);
            }
            let document = Document { id, body, version: row.version };
            let meta = DocumentMeta::from_document(&document, row.modified);
            row.set_meta(&meta);
            write::put_references(&mut batch, project, &row, &meta);
            let value = encode(&key, &row);
            batch.put(DOCUMENTS, key, value);
            if batch.len() >= REBUILD_CHANGES {
                self.write_batch(std::mem::take(&mut batch))?;
            }
        }
        self.write_batch(batch)
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
