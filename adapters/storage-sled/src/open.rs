//! Opening and making a database: what is refused, and what is durable before the first answer.
//!
//! The trap: sled writes to what it opens, even when it then says that it is damaged. So what can
//! be seen from outside is looked at first, under a lock of our own.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use reqlore_domain::document::DocumentMeta;
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_durable_fs as durable_fs;
use sled::Tree;

use crate::base::{Base, Batch, COMMITS, EPOCH, FILLING, META, NAMES};
use crate::disk::{DB, Disk, Sync, sync_folder};
use crate::error::{INCOMPLETE, RESTORE, failed, guarded, not_opened, of_sled};
use crate::folder;
use crate::gate::Gate;
use crate::heads::FORMAT;
use crate::values::{SCHEMA, decode, encode};

/// Sled's cache of pages. The system caches the file anyway: with 64 MiB nothing is read faster,
/// and 20 MiB more are taken.
const CACHE_BYTES: u64 = 16 << 20;
/// Sled gets so long to open.
const LIMIT: Duration = Duration::from_secs(60);
/// The tree that sled makes by itself.
const DEFAULT: &[u8] = b"__sled__default";
/// In [`META`]: the version of the schema, as one byte for ever.
pub(crate) const SCHEMA_KEY: &[u8] = b"schema";

const SERVED: &str = "is already served by another process; stop that one first, or name another \
     folder";

pub(crate) fn open(folder: &Path, sync: Sync, patience: Duration) -> StoreResult<Base> {
    let made = make(folder).map_err(|error| failed(folder, "make the folder", error))?;
    let lock = lock(folder)?;
    if durable_fs::is_network_fs(folder).unwrap_or_default() {
        let reason = "lies on a network file system, where locks and syncs can't be trusted; \
                      name a folder on a disk of this machine";
        return Err(not_opened(folder, reason));
    }
    let found = folder::prepare(folder)?;
    let trees = open_trees(folder)?;
    let disk = |error| failed(folder, "open its files", error);
    let path = std::path::absolute(folder).map_err(disk)?;
    let base = Base {
        trees,
        disk: Disk::open(&path, sync).map_err(disk)?,
        gate: Gate::new(patience),
        incomplete: AtomicBool::new(false),
        broken: AtomicBool::new(false),
        commits: AtomicU64::new(0),
        epoch: AtomicU64::new(0),
        _lock: lock,
    };
    let checked = guarded(|| {
        if !base.check(folder, found.was_complete)? {
            base.create()?;
        }
        base.bring_heads_up_to_date()?;
        if found.is_unfinished {
            base.finish(folder, &made)?;
        }
        // Sled makes files at every opening.
        folder::make_private(folder)
    });
    checked.map_err(|error| named(folder, error))?;
    Ok(base)
}

impl Base {
    /// Whether it was made before; refused is what can't be used.
    fn check(&self, folder: &Path, was_complete: bool) -> StoreResult<bool> {
        let refused = |reason: &str| Err(not_opened(folder, reason));
        let meta = self.tree(META);
        match meta.get(SCHEMA_KEY).map_err(of_sled)?.as_deref() {
            Some([SCHEMA]) => {}
            Some(_) => {
                return refused(
                    "was written by a newer version of Reqlore; start that version, or name \
                     another folder",
                );
            }
            None if was_complete => return refused(&cut_off()),
            None => return Ok(false),
        }
        let commits = meta.get(COMMITS).map_err(of_sled)?;
        let commits: u64 = commits.and_then(|value| decode(COMMITS, &value)).unwrap_or_default();
        if commits < self.disk.acknowledged() {
            return refused(&cut_off());
        }
        self.commits.store(commits, Ordering::Relaxed);
        let epoch = meta.get(EPOCH).map_err(of_sled)?;
        let epoch = epoch.and_then(|value| decode(EPOCH, &value)).unwrap_or_default();
        self.epoch.store(epoch, Ordering::Relaxed);
        if meta.get(FILLING).map_err(of_sled)?.is_some() {
            return refused(INCOMPLETE);
        }
        Ok(true)
    }

    fn create(&self) -> StoreResult<()> {
        let mut batch = Batch::default();
        batch.put(META, SCHEMA_KEY, &[SCHEMA][..]);
        batch.put(META, FORMAT, encode(FORMAT, &DocumentMeta::FORMAT));
        self.write(batch)
    }

    /// Ends the making. A change that was acknowledged needs the folders to last as well.
    fn finish(&self, folder: &Path, made: &[PathBuf]) -> StoreResult<()> {
        let unsynced = |error| failed(folder, "sync it", error);
        self.flush()?;
        sync_all(folder, made).map_err(unsynced)?;
        self.settle()?;
        let commits = self.commits.load(Ordering::Relaxed);
        self.disk.acknowledge_durably(commits).map_err(unsynced)?;
        folder::unmark(folder)
    }
}

fn cut_off() -> String {
    format!("lacks changes that were acknowledged; its files were cut off or are older. {RESTORE}")
}

/// Messages of an opening name the folder.
fn named(folder: &Path, error: StoreError) -> StoreError {
    let place = folder.display().to_string();
    match error {
        StoreError::Unavailable { reason, source, .. } => {
            StoreError::Unavailable { place, reason, source }
        }
        StoreError::Unreadable { reason, .. } => StoreError::Unreadable { place, reason },
        other => other,
    }
}

/// Makes the folder, and tells which folders must be synced for it to last.
fn make(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let created = durable_fs::create_private_dirs(folder)?;
    if !created.is_empty() {
        return Ok(created);
    }
    // A process that was killed may have created it without syncing its parent.
    let folder = std::path::absolute(folder)?;
    Ok(folder.ancestors().take(2).map(Path::to_owned).collect())
}

fn lock(folder: &Path) -> StoreResult<File> {
    let lock = durable_fs::try_lock_dir(folder);
    let lock = lock.map_err(|error| failed(folder, "lock the folder", error))?;
    lock.ok_or_else(|| not_opened(folder, SERVED))
}

/// Opens sled where a panic and a hang do no harm.
fn open_trees(folder: &Path) -> StoreResult<[Tree; NAMES.len()]> {
    let (tell, told) = channel();
    let config = sled::Config::new()
        .path(folder)
        .cache_capacity(CACHE_BYTES)
        .mode(sled::Mode::HighThroughput);
    let open = move || -> sled::Result<Option<Vec<Tree>>> {
        let db = config.open()?;
        let is_known = |name: &sled::IVec| {
            *name == DEFAULT || NAMES.iter().any(|known| *name == known.as_bytes())
        };
        if !db.tree_names().iter().all(is_known) {
            return Ok(None);
        }
        NAMES.iter().map(|name| db.open_tree(name)).collect::<sled::Result<_>>().map(Some)
    };
    let thread = std::thread::Builder::new().name("storage-sled-open".to_owned());
    // Nobody may be listening any more. A panic drops the sender, and so is told.
    let spawned = thread.spawn(move || drop(tell.send(open())));
    spawned.map_err(|error| failed(folder, "start a thread", error))?;
    let damaged = |what: &str| {
        let place = folder.display().to_string();
        StoreError::Unreadable { place, reason: format!("is damaged ({what}). {RESTORE}") }
    };
    let trees = match told.recv_timeout(LIMIT) {
        Ok(Ok(Some(trees))) => trees,
        Ok(Ok(None)) => {
            let reason = "holds data of another program, or of a newer version of Reqlore; name \
                          another folder";
            return Err(not_opened(folder, reason));
        }
        Ok(Err(sled::Error::Io(error))) if error.to_string().contains("acquire lock") => {
            return Err(not_opened(folder, SERVED));
        }
        Ok(Err(sled::Error::Io(error))) => return Err(failed(folder, "open it", error)),
        Ok(Err(error)) => return Err(damaged(&error.to_string())),
        Err(RecvTimeoutError::Disconnected) => return Err(damaged("sled panicked")),
        Err(RecvTimeoutError::Timeout) => {
            let seconds = LIMIT.as_secs();
            return Err(damaged(&format!("it did not open within {seconds} seconds")));
        }
    };
    trees.try_into().map_err(|_| damaged("a tree is missing"))
}

fn sync_all(folder: &Path, made: &[PathBuf]) -> io::Result<()> {
    for file in [DB, "conf"] {
        File::open(folder.join(file))?.sync_all()?;
    }
    sync_folder(&folder.join("blobs"))?;
    made.iter().try_for_each(|folder| sync_folder(folder))
}

/// Waits until sled has let go of its file, which it does a while after it was dropped.
pub(crate) fn wait_until_free(folder: &Path) -> StoreResult<()> {
    let failed = |error| failed(folder, "close it", error);
    let file = File::open(folder.join(DB)).map_err(failed)?;
    let end = Instant::now() + Duration::from_secs(10);
    while file.try_lock().is_err() {
        if Instant::now() > end {
            return Err(failed(io::ErrorKind::TimedOut.into()));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
