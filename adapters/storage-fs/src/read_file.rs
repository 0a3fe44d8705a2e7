//! Reading one file: regular, bounded, and whole.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use cap_std::fs::Dir;
use reqlore_domain::document;
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_domain::timestamp::Timestamp;
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

use crate::error::{failed, refused};
use crate::failpoint::{FailPoint, hit_failpoint};
use crate::layout::FileLocation;
use crate::system;

/// The largest file that is read.
const MAX_BYTES: u64 = document::MAX_BYTES as u64;
/// A save in place truncates first; what looks torn is read again so often, so far apart.
const RETRIES: (u32, Duration) = (3, Duration::from_millis(50));
/// Below this age a file's times can't be trusted to show the next change.
const MIN_RELIABLE_AGE: Duration = Duration::from_secs(2);

/// A file's bytes and what `stat` said before they were read.
pub(crate) struct FileContent {
    pub(crate) bytes: Bytes,
    pub(crate) metadata: Metadata,
    /// Nobody wrote while they were read.
    pub(crate) is_stable: bool,
    /// The next change will show in what `stat` says.
    pub(crate) is_stamp_reliable: bool,
    /// It looks as if somebody were still writing.
    pub(crate) is_partial: bool,
}

/// Reads a file; what looks like a save in place that is not finished is read again.
pub(crate) fn read_complete(place: &FileLocation) -> StoreResult<Option<FileContent>> {
    let mut tries = 0;
    loop {
        let content = read_once(place)?;
        if tries == RETRIES.0 || content.as_ref().is_none_or(|content| !content.is_partial) {
            return Ok(content);
        }
        tries += 1;
        std::thread::sleep(RETRIES.1);
    }
}

/// Reads many; what is torn is read again, all of it after one pause.
pub(crate) fn retry_partial<T, R>(
    asked: &[T],
    mut all: Vec<R>,
    read: impl Fn(&T) -> R,
    is_torn: impl Fn(&R) -> bool,
) -> Vec<R> {
    for _ in 0..RETRIES.0 {
        let torn: Vec<usize> = (0..all.len()).filter(|at| is_torn(&all[*at])).collect();
        if torn.is_empty() {
            break;
        }
        std::thread::sleep(RETRIES.1);
        for at in torn {
            all[at] = read(&asked[at]);
        }
    }
    all
}

/// Reads a file without waiting for anybody.
pub(crate) fn read_once(place: &FileLocation) -> StoreResult<Option<FileContent>> {
    read_up_to(place, MAX_BYTES)
}

/// The same of at most so many bytes.
pub(crate) fn read_up_to(place: &FileLocation, most: u64) -> StoreResult<Option<FileContent>> {
    let content = read_bounded(&place.dir, &place.name, &place.display_path, most)?;
    Ok(content.map(|mut content| {
        let looks_torn = content.bytes.is_empty() || std::str::from_utf8(&content.bytes).is_err();
        content.is_partial = looks_torn && !content.is_stamp_reliable;
        content
    }))
}

/// A regular file's bytes; `shown` is what messages call it.
pub(crate) fn read_file(dir: &Dir, name: &str, shown: &str) -> StoreResult<Option<FileContent>> {
    read_bounded(dir, name, shown, MAX_BYTES)
}

fn read_bounded(dir: &Dir, name: &str, shown: &str, most: u64) -> StoreResult<Option<FileContent>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let fail = |error: io::Error| failed(shown, "read it", error);
    let mut file = match rustix::fs::openat(dir, name, flags, Mode::empty()) {
        Ok(fd) => File::from(fd),
        // A name that no file system can hold names nothing.
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NAMETOOLONG) => return Ok(None),
        Err(rustix::io::Errno::LOOP) => {
            return Err(refused(
                shown,
                "is a symbolic link; put a regular file there. It was not followed",
            ));
        }
        Err(error) => return Err(fail(error.into())),
    };
    hit_failpoint(FailPoint::FileOpened).map_err(fail)?;
    let now = ClockTime::now();
    let metadata = file.metadata().map_err(fail)?;
    if !metadata.is_file() {
        return Err(refused(shown, "is no regular file; put one there or remove it"));
    }
    if metadata.len() > most {
        return Err(too_large(shown));
    }
    let size = usize::try_from(metadata.len()).unwrap_or_default();
    let mut bytes = Vec::with_capacity(size + 1);
    // To the end, because some file systems report an old size.
    let limit = most + 1;
    let length = file.by_ref().take(limit).read_to_end(&mut bytes).map_err(fail)?;
    if length as u64 == limit {
        return Err(too_large(shown));
    }
    let after = file.metadata().map_err(fail)?;
    let stamp = FileStamp::from_metadata(&metadata);
    let (steady, settled) = (FileStamp::from_metadata(&after) == stamp, stamp.is_reliable_at(now));
    Ok(Some(FileContent {
        bytes: bytes.into(),
        metadata,
        is_stable: steady,
        is_stamp_reliable: settled,
        is_partial: false,
    }))
}

fn too_large(place: &str) -> StoreError {
    StoreError::Unreadable {
        place: place.to_owned(),
        reason: format!("larger than {} MiB; split it into smaller files", MAX_BYTES >> 20),
    }
}

/// What `stat` says about a file's identity and content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct FileStamp {
    device: u64,
    inode: u64,
    size: u64,
    /// It has other names too.
    has_hard_links: bool,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileStamp {
    pub(crate) fn from_metadata(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            has_hard_links: metadata.nlink() > 1,
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    pub(crate) fn from_stat(stat: &rustix::fs::Stat) -> Self {
        let nanoseconds = |part| i64::try_from(part).unwrap_or_default();
        Self {
            device: system::device(stat),
            inode: stat.st_ino,
            size: stat.st_size.unsigned_abs(),
            has_hard_links: stat.st_nlink > 1,
            modified: (stat.st_mtime, nanoseconds(stat.st_mtime_nsec)),
            changed: (stat.st_ctime, nanoseconds(stat.st_ctime_nsec)),
        }
    }

    /// When the bytes were last changed, by the file's own word.
    pub(crate) fn modified_at(&self) -> Timestamp {
        Timestamp::new(self.modified.0, u32::try_from(self.modified.1).unwrap_or_default())
    }

    /// Can the file be written by a name in another folder?
    pub(crate) fn has_hard_links(&self) -> bool {
        self.has_hard_links
    }

    /// Was the file last changed so long before that its times will show the next change? `now` is
    /// from before the stamp was taken: reading may take long, and what is written in the meantime
    /// can look the same.
    pub(crate) fn is_reliable_at(&self, now: ClockTime) -> bool {
        // The other time may be set to any, also to one that is still to come.
        now.0.saturating_sub(self.changed.0.unsigned_abs()) > MIN_RELIABLE_AGE.as_secs()
    }
}

/// The time on this machine's clock, in seconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClockTime(u64);

impl ClockTime {
    pub(crate) fn now() -> Self {
        #[expect(clippy::disallowed_methods, reason = "the age of a file on this machine's clock")]
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Self(now.map_or(0, |now| now.as_secs()))
    }
}
