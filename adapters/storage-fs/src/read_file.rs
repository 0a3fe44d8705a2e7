//! Reads one regular file of limited size, and detects a save that is not finished.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::time::Duration;

use bytes::Bytes;
use cap_std::fs::Dir;
use reqlore_domain::document;
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_durable_fs::folder::{FileAccess, OpenedFile, open_file};
use reqlore_local_state::error::{failed, refused};

use crate::failpoint::{FailPoint, hit_failpoint};
use crate::file_stamp::{ClockTime, FileStamp};
use crate::layout::FileLocation;
use crate::system::stamp_of_open;

const MAX_BYTES: u64 = document::MAX_DOCUMENT_BYTES as u64;
/// The number of times that a file that looks partially saved is read again.
const PARTIAL_RETRIES: u32 = 3;
const PARTIAL_PAUSE: Duration = Duration::from_millis(50);

/// A file's bytes and its metadata from before they were read.
pub(crate) struct FileContent {
    pub(crate) bytes: Bytes,
    pub(crate) metadata: Metadata,
    pub(crate) stamp: FileStamp,
    /// The file did not change while it was read.
    pub(crate) is_stable: bool,
    /// The next change of the file will change its stamp.
    pub(crate) is_stamp_reliable: bool,
    /// The file is new and empty or not UTF-8, as if another program were still writing it.
    pub(crate) is_partial: bool,
}

/// Reads a file. One that looks partially saved is read again a few times. An empty file that does
/// not change meanwhile is complete: programs that truncate before they write do both at once.
pub(crate) fn read_complete(location: &FileLocation) -> StoreResult<Option<FileContent>> {
    let mut tries = 0;
    let mut first_stamp = None;
    loop {
        let Some(mut content) = read_once(location)? else { return Ok(None) };
        if !content.is_partial {
            return Ok(Some(content));
        }
        let stamp = content.stamp;
        if tries == PARTIAL_RETRIES {
            let is_unchanged = *first_stamp.get_or_insert(stamp) == stamp;
            content.is_partial = !(content.bytes.is_empty() && is_unchanged);
            return Ok(Some(content));
        }
        first_stamp.get_or_insert(stamp);
        tries += 1;
        std::thread::sleep(PARTIAL_PAUSE);
    }
}

/// Reads the items with a partial result again, all of them after one pause. `results` are in the
/// order of `items`.
pub(crate) fn retry_partial<T, R>(
    items: &[T],
    mut results: Vec<R>,
    read: impl Fn(&T) -> R,
    is_partial: impl Fn(&R) -> bool,
) -> Vec<R> {
    for _ in 0..PARTIAL_RETRIES {
        let partial: Vec<usize> = (0..results.len()).filter(|i| is_partial(&results[*i])).collect();
        if partial.is_empty() {
            break;
        }
        std::thread::sleep(PARTIAL_PAUSE);
        for index in partial {
            results[index] = read(&items[index]);
        }
    }
    results
}

/// Reads a file without waiting for a save to finish; `None` if it is missing.
pub(crate) fn read_once(location: &FileLocation) -> StoreResult<Option<FileContent>> {
    read_up_to(location, MAX_BYTES)
}

/// Reads a file like [`read_once`]; fails if it is longer than `max_bytes`.
pub(crate) fn read_up_to(
    location: &FileLocation,
    max_bytes: u64,
) -> StoreResult<Option<FileContent>> {
    let FileLocation { dir, name, display_path } = location;
    let Some(mut content) = read_bounded(dir, name, display_path, max_bytes)? else {
        return Ok(None);
    };
    // An older file is not being saved; it really is empty or not UTF-8.
    content.is_partial = !content.is_stamp_reliable && looks_partial(&content.bytes);
    Ok(Some(content))
}

/// True for content that an editor leaves for a moment when it saves in place.
fn looks_partial(bytes: &[u8]) -> bool {
    // Editors truncate first, and a write may end in the middle of a character.
    bytes.is_empty() || std::str::from_utf8(bytes).is_err()
}

/// Reads a regular file; `None` if it is missing. Errors call it `display_path`.
pub(crate) fn read_file(
    dir: &Dir,
    name: &str,
    display_path: &str,
) -> StoreResult<Option<FileContent>> {
    read_bounded(dir, name, display_path, MAX_BYTES)
}

fn read_bounded(
    dir: &Dir,
    name: &str,
    display_path: &str,
    max_bytes: u64,
) -> StoreResult<Option<FileContent>> {
    let mut file = match open_file(dir, name, FileAccess::Read) {
        Ok(OpenedFile::File(file)) => file,
        Ok(OpenedFile::Missing) => return Ok(None),
        // It could lead out of the project.
        Ok(OpenedFile::Link) => {
            return Err(refused(
                display_path,
                "is a symbolic link; put a regular file there. It was not followed",
            ));
        }
        Err(error) => return Err(not_read(display_path, error)),
    };
    hit_failpoint(FailPoint::FileOpened).map_err(|error| not_read(display_path, error))?;
    // Before `metadata`, so that the stamp is at least as old as it seems.
    let now = ClockTime::now();
    let inspect = |file: &File| {
        let metadata = file.metadata()?;
        Ok((stamp_of_open(file, &metadata)?, metadata))
    };
    let (stamp, metadata) = inspect(&file).map_err(|error| not_read(display_path, error))?;
    if !metadata.is_file() {
        return Err(refused(display_path, "is not a regular file; put one there or remove it"));
    }
    if metadata.len() > max_bytes {
        return Err(too_large(display_path));
    }
    let size = usize::try_from(metadata.len()).unwrap_or_default();
    // One byte more, so that reading to the end needs no larger buffer.
    let mut bytes = Vec::with_capacity(size + 1);
    // Reads to the end, because some file systems report an old size.
    let limit = max_bytes + 1;
    let read = file.by_ref().take(limit).read_to_end(&mut bytes);
    let length = read.map_err(|error| not_read(display_path, error))?;
    if length as u64 == limit {
        return Err(too_large(display_path));
    }
    // A write during the read changes the stamp.
    let (after, _) = inspect(&file).map_err(|error| not_read(display_path, error))?;
    Ok(Some(FileContent {
        bytes: bytes.into(),
        is_stable: after == stamp,
        is_stamp_reliable: stamp.is_reliable_at(now),
        is_partial: false,
        stamp,
        metadata,
    }))
}

fn not_read(display_path: &str, error: io::Error) -> StoreError {
    failed(display_path, "read it", error)
}

fn too_large(subject: &str) -> StoreError {
    StoreError::Unreadable {
        subject: subject.to_owned(),
        reason: format!("larger than {} MiB; split it into smaller files", MAX_BYTES >> 20),
    }
}
