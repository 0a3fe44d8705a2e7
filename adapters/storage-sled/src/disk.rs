//! What we do to the disk ourselves, because sled's flush is no sync: on Linux it only asks for the
//! file's pages to be written, and a power cut takes them back.
//!
//! The trap: a shorter `db` opens like one whose end was torn by a crash, silently older. So the
//! file `acknowledged` counts what was acknowledged. It is written after the sync and, but for the
//! first time, not synced itself: it may lag behind and never lies ahead.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, Stat, fstat, stat};

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
        let options = options.write(true).create(true).truncate(false).mode(0o600);
        let acknowledged = options.open(folder.join(ACKNOWLEDGED))?;
        Ok(Self { path, db, acknowledged, sync })
    }

    /// Whether the database file is still the one that was opened.
    pub(crate) fn is_in_place(&self) -> bool {
        // Somebody who empties it takes everything with it; sled itself never does.
        let identity = |stat: Stat| (stat.st_dev, stat.st_ino, stat.st_size > 0);
        let held = fstat(&self.db).map(identity);
        held.is_ok_and(|(_, _, full)| full) && stat(&self.path).map(identity) == held
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
    let mut options = File::options();
    options.read(true).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
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

/// File systems of other machines: locks and syncs there don't hold what they promise. The SQLite
/// storage has the same list.
#[cfg(target_os = "linux")]
const NETWORK: [u64; 12] = [
    0x6969,      // nfs
    0x517b,      // smb
    0xff53_4d42, // cifs
    0xfe53_4d42, // smb2
    0x0102_1997, // 9p
    0x5346_414f, // afs
    0x6b41_4653, // kafs
    0x7375_7245, // coda
    0x564c,      // ncp
    0x00c3_6400, // ceph
    0x0bd0_0bd0, // lustre
    0x786f_4256, // vboxsf
];

#[cfg(target_os = "linux")]
pub(crate) fn is_remote(folder: &File) -> bool {
    let Ok(system) = rustix::fs::fstatfs(folder) else { return false };
    // The kernel's word is signed or not, and 32 bits of it count.
    let kind = u64::try_from(system.f_type & 0xffff_ffff).unwrap_or_default();
    NETWORK.contains(&kind)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn is_remote(_: &File) -> bool {
    false
}

/// A parent that may be passed and not read can't be synced; that is no reason to refuse.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(folder) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            tracing::warn!(%error, "a folder above the database can't be synced");
            Ok(())
        }
        opened => opened?.sync_all(),
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_network_file_system_is_known() {
        let sqlite = include_str!("../../storage-sqlite/src/place.rs");
        let (_, list) = sqlite.split_once("const NETWORK").unwrap();
        let (list, _) = list.split_once("];").unwrap();
        let kinds = list.lines().filter_map(|line| line.trim().strip_prefix("0x"));
        let kind = |line: &str| {
            let digits = line.split(',').next().unwrap().replace('_', "");
            u64::from_str_radix(&digits, 16).unwrap()
        };
        assert_eq!(kinds.map(kind).collect::<Vec<_>>(), NETWORK);
        assert!(!is_remote(&File::open("/").unwrap()));
    }
}
