//! Windows: listings contain size and times, and two names cannot be exchanged.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::windows::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use cap_std::fs::{Dir, DirEntry};
use reqlore_domain::sections::requirement_index::is_device_name;
use reqlore_domain::timestamp::Timestamp;
use reqlore_durable_fs::folder::{folder_id, inode, open_file_has_hard_links, unique_file_id};

use super::{Entry, EntryKind, FileFingerprint};
use crate::failpoint::seen_inode;
use crate::file_stamp::FileStamp;

/// The standard library reports no owner, so all folders have the same one.
pub(crate) fn owner(_: &Metadata) -> u32 {
    0
}

/// Windows has no modes.
pub(crate) fn mode(_: &Metadata) -> u32 {
    0
}

pub(crate) fn folder_owner(_: &Dir) -> Option<u32> {
    None
}

/// Not checked here: opening the file reports the error.
pub(crate) fn is_read_forbidden(_: &Path) -> bool {
    false
}

#[expect(clippy::unnecessary_wraps, reason = "reading may be denied on Unix")]
pub(crate) fn check_entry_readable(_: &Dir, _: &OsStr) -> io::Result<()> {
    Ok(())
}

pub(crate) fn stamp_of(metadata: &Metadata) -> FileStamp {
    stamp(metadata.len(), metadata.modified(), metadata.created())
}

pub(crate) fn stamp_of_open(file: &File, metadata: &Metadata) -> io::Result<FileStamp> {
    let has_hard_links = open_file_has_hard_links(file, metadata)?;
    Ok(FileStamp { has_hard_links, ..stamp_of(metadata) })
}

fn stamp_of_entry(metadata: &cap_std::fs::Metadata) -> FileStamp {
    let modified = metadata.modified().map(cap_std::time::SystemTime::into_std);
    let created = metadata.created().map(cap_std::time::SystemTime::into_std);
    stamp(metadata.len(), modified, created)
}

/// The time of creation stands for the inode, and the last write for the last change, because
/// listings have no more.
fn stamp(
    size: u64,
    modified: io::Result<SystemTime>,
    created: io::Result<SystemTime>,
) -> FileStamp {
    let (modified, modified_nanos) = parts(modified);
    let (created, created_nanos) = parts(created);
    FileStamp {
        device: created_nanos.into(),
        inode: created.unsigned_abs(),
        size,
        modified,
        changed: modified,
        modified_nanos,
        changed_nanos: modified_nanos,
        has_hard_links: false,
    }
}

fn parts(time: io::Result<SystemTime>) -> (i64, u32) {
    let time = time.unwrap_or(SystemTime::UNIX_EPOCH);
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => (since.as_secs().try_into().unwrap_or_default(), since.subsec_nanos()),
        Err(before) => {
            let before = i64::try_from(before.duration().as_nanos()).unwrap_or_default();
            let time = Timestamp(-before);
            (time.seconds(), time.nanoseconds())
        }
    }
}

pub(crate) fn file_fingerprint(folder: &Dir, name: &str) -> io::Result<FileFingerprint> {
    let (_, stamp) = stat_entry(folder, name)?;
    let index = seen_inode(inode(folder, name.as_ref())?);
    Ok((index, stamp.size, (stamp.modified, stamp.modified_nanos)))
}

pub(crate) fn stat_folder(folder: &Dir) -> io::Result<FileStamp> {
    Ok(stamp_of_entry(&folder.dir_metadata()?))
}

/// Identifies a folder, for all paths to it, and returns its stamp.
pub(crate) fn identify_folder(folder: &Dir) -> io::Result<((u64, u64), FileStamp)> {
    Ok((folder_id(folder)?, stat_folder(folder)?))
}

/// Inspects a name in a folder without following a link.
pub(crate) fn stat_entry(
    folder: &Dir,
    name: impl AsRef<Path>,
) -> io::Result<(EntryKind, FileStamp)> {
    let metadata = folder.symlink_metadata(name)?;
    Ok((entry_kind(metadata.file_type()), stamp_of_entry(&metadata)))
}

fn entry_kind(file_type: cap_std::fs::FileType) -> EntryKind {
    if file_type.is_symlink() {
        EntryKind::Link
    } else if file_type.is_dir() {
        EntryKind::Folder
    } else if file_type.is_file() {
        EntryKind::File
    } else {
        EntryKind::Other
    }
}

/// Lists the names in a folder.
pub(crate) fn entries(folder: &Dir) -> io::Result<impl Iterator<Item = io::Result<Entry>>> {
    Ok(folder.entries()?.map(|entry| entry.and_then(|entry| inspected(&entry))))
}

fn inspected(entry: &DirEntry) -> io::Result<Entry> {
    let metadata = entry.metadata()?;
    let kind = entry_kind(metadata.file_type());
    Ok(Entry { name: entry.file_name(), kind, stamp: Some(Box::new(stamp_of_entry(&metadata))) })
}

/// Identifies the target of a link among the files of one volume, if it does not lead out of the
/// folder.
pub(crate) fn target_inode(folder: &Dir, name: &str) -> Option<u64> {
    let file = folder.open(name).ok()?.into_std();
    let (index, _) = unique_file_id(&file, &file.metadata().ok()?).ok()?;
    Some(index)
}

/// True if a file that is created in `local` may be renamed into `target`.
pub(crate) fn may_exchange(local: &Dir, target: &Dir) -> bool {
    let volume = |folder| folder_id(folder).map(|(volume, _)| volume);
    matches!((volume(local), volume(target)), (Ok(local), Ok(target)) if local == target)
}

/// Not used: `ReplaceFileW` has a moment without any file under the name.
#[expect(clippy::unnecessary_wraps, reason = "an exchange fails on Unix")]
pub(crate) fn exchange(_: (&Dir, &str), _: (&Dir, &str)) -> io::Result<Option<()>> {
    Ok(None)
}

#[expect(clippy::unnecessary_wraps, reason = "a rename fails on Unix")]
pub(crate) fn rename_to_free(_: (&Dir, &str), _: (&Dir, &str)) -> io::Result<Option<()>> {
    Ok(None)
}

/// False for a name that Windows reads as another one, as a stream of a file or as a device.
pub(crate) fn is_file_name(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or(name);
    !name.contains(['\\', ':', '*', '?', '"', '<', '>', '|'])
        && !name.contains(char::is_control)
        && !name.ends_with(['.', ' '])
        && !is_device_name(stem.trim_end())
}

/// True if no later attempt at the path can succeed.
pub(crate) fn is_permanent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::InvalidFilename | io::ErrorKind::InvalidInput | io::ErrorKind::NotADirectory
    )
}

/// Writes with one call, so that no other process sees a part.
pub(crate) fn write_at_once(file: &File, bytes: &[u8]) -> io::Result<usize> {
    file.seek_write(bytes, 0)
}

/// A path as Git prints it.
pub(crate) fn path_of_git(bytes: &[u8]) -> PathBuf {
    PathBuf::from(String::from_utf8_lossy(bytes).into_owned())
}
