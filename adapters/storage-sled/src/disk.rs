//! What we do to the disk ourselves, because sled's flush is no sync: on Linux it only asks for the
//! file's pages to be written, and a power cut takes them back.
//!
//! The trap: a shorter `db` opens like one whose end was torn by a crash, silently older. So the
//! file `acknowledged` counts what was acknowledged. It is written after the sync and, but for the
//! first time, not synced itself: it may lag behind and never lies ahead.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use reqlore_durable_fs as durable_fs;

pub(crate) const DB: &str = "db";
pub(crate) const ACKNOWLEDGED: &str = "acknowledged";

/// How the database file is made durable; tests count here, and let it fail.
pub(crate) type Sync = Box<dyn Fn(&File) -> io::Result<()> + Send + std::marker::Sync>;

pub(crate) struct Disk {
    path: PathBuf,
    db: File,
    acknowledged: File,
    sync: Sync,
}

impl Disk {
    pub(crate) fn open(folder: &Path, sync: Sync) -> io::Result<Self> {
        let path = folder.join(DB);
        let db = options().open(&path)?;
        let mut options = options();
        let options = options.write(true).create(true).truncate(false);
        let acknowledged = options.open(folder.join(ACKNOWLEDGED))?;
        Ok(Self { path, db, acknowledged, sync })
    }

    /// Whether the database file is still the one that was opened.
    pub(crate) fn is_in_place(&self) -> bool {
        // Somebody who empties it takes everything with it; sled itself never does.
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

    /// The same, and it lasts.
    pub(crate) fn acknowledge_durably(&self, commits: u64) -> io::Result<()> {
        self.acknowledge(commits)?;
        self.acknowledged.sync_all()
    }

    /// How many commits were acknowledged, at least; while it is being made there is no count.
    pub(crate) fn acknowledged(&self) -> u64 {
        count_in(&self.acknowledged).unwrap_or_default()
    }
}

/// To read what is no link.
pub(crate) fn options() -> OpenOptions {
    let mut options = durable_fs::private_file();
    options.read(true);
    options
}

/// The count of this folder, if there is a whole one.
pub(crate) fn count(folder: &Path) -> io::Result<Option<u64>> {
    match options().open(folder.join(ACKNOWLEDGED)) {
        Ok(file) => Ok(count_in(&file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn count_in(file: &File) -> Option<u64> {
    let mut bytes = [0; 12];
    file.read_exact_at(&mut bytes, 0).ok()?;
    let (count, check) = bytes.split_first_chunk()?;
    (crc32fast::hash(count).to_be_bytes() == check).then(|| u64::from_be_bytes(*count))
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disk").field("path", &self.path).finish_non_exhaustive()
    }
}

/// A parent that may be passed and not read can't be synced; that is no reason to refuse.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    match durable_fs::sync_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            tracing::warn!(%error, "a folder above the database can't be synced");
            Ok(())
        }
        synced => synced,
    }
}
