//! Unix: handles of folders, and files by their names in them.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use cap_std::fs::Dir;
use reqlore_durable_fs::folder::open_to_list;
use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, RenameFlags, Stat, accessat};
use rustix::io::Errno;
use rustix::path::Arg;

use super::{Entry, EntryKind, FileFingerprint};
use crate::failpoint::seen_inode;
use crate::file_stamp::FileStamp;

#[cfg(target_os = "linux")]
fn device(stat: &Stat) -> u64 {
    stat.st_dev
}

/// Widened as the standard library does, so that both report the same device.
#[cfg(not(target_os = "linux"))]
#[expect(clippy::cast_sign_loss, reason = "an identifier, not a quantity")]
fn device(stat: &Stat) -> u64 {
    i64::from(stat.st_dev) as u64
}

/// The ID of the user who owns a file.
pub(crate) fn owner(metadata: &Metadata) -> u32 {
    metadata.uid()
}

pub(crate) fn mode(metadata: &Metadata) -> u32 {
    metadata.mode()
}

pub(crate) fn folder_owner(folder: &Dir) -> Option<u32> {
    rustix::fs::fstat(folder).ok().map(|stat| stat.st_uid)
}

/// True if reading is denied to the effective user, whose rights opening will use.
pub(crate) fn is_read_forbidden(path: &Path) -> bool {
    check_readable(CWD, path).is_err()
}

/// Fails if reading is denied to the effective user. Any other error shows when the file is read.
pub(crate) fn check_entry_readable(folder: &Dir, name: &OsStr) -> io::Result<()> {
    check_readable(folder, name)
}

fn check_readable(folder: impl std::os::fd::AsFd, name: impl Arg) -> io::Result<()> {
    match accessat(folder, name, Access::READ_OK, AtFlags::EACCESS) {
        Err(error @ (Errno::ACCESS | Errno::PERM)) => Err(error.into()),
        _ => Ok(()),
    }
}

pub(crate) fn stamp_of(metadata: &Metadata) -> FileStamp {
    FileStamp {
        device: metadata.dev(),
        inode: metadata.ino(),
        size: metadata.size(),
        modified: metadata.mtime(),
        changed: metadata.ctime(),
        modified_nanos: u32::try_from(metadata.mtime_nsec()).unwrap_or_default(),
        changed_nanos: u32::try_from(metadata.ctime_nsec()).unwrap_or_default(),
        has_hard_links: metadata.nlink() > 1,
    }
}

#[expect(clippy::unnecessary_wraps, reason = "inspecting the handle fails on Windows")]
pub(crate) fn stamp_of_open(_: &File, metadata: &Metadata) -> io::Result<FileStamp> {
    Ok(stamp_of(metadata))
}

fn stamp_of_stat(stat: &Stat) -> FileStamp {
    FileStamp {
        device: device(stat),
        inode: stat.st_ino,
        size: stat.st_size.unsigned_abs(),
        modified: stat.st_mtime,
        changed: stat.st_ctime,
        modified_nanos: u32::try_from(stat.st_mtime_nsec).unwrap_or_default(),
        changed_nanos: u32::try_from(stat.st_ctime_nsec).unwrap_or_default(),
        has_hard_links: stat.st_nlink > 1,
    }
}

pub(crate) fn file_fingerprint(folder: &Dir, name: &str) -> io::Result<FileFingerprint> {
    let (_, stamp) = stat_entry(folder, name)?;
    Ok((seen_inode(stamp.inode), stamp.size, (stamp.modified, stamp.modified_nanos)))
}

pub(crate) fn stat_folder(folder: &Dir) -> io::Result<FileStamp> {
    Ok(stamp_of_stat(&rustix::fs::fstat(folder)?))
}

/// Identifies a folder, for all paths to it, and returns its stamp.
pub(crate) fn identify_folder(folder: &Dir) -> io::Result<((u64, u64), FileStamp)> {
    let stamp = stat_folder(folder)?;
    Ok(((stamp.device, stamp.inode), stamp))
}

/// Inspects a name in a folder without following a link.
pub(crate) fn stat_entry(folder: &Dir, name: impl Arg) -> io::Result<(EntryKind, FileStamp)> {
    let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok((entry_kind(FileType::from_raw_mode(stat.st_mode)), stamp_of_stat(&stat)))
}

fn entry_kind(file_type: FileType) -> EntryKind {
    match file_type {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Folder,
        FileType::Symlink => EntryKind::Link,
        _ => EntryKind::Other,
    }
}

/// Lists the names in a folder, except `.` and `..`.
pub(crate) fn entries(folder: &Dir) -> io::Result<impl Iterator<Item = io::Result<Entry>>> {
    let entries = rustix::fs::Dir::new(open_to_list(folder)?.into_std_file())?;
    Ok(entries.filter_map(move |entry| {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => return Some(Err(error.into())),
        };
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            return None;
        }
        let kind = match entry.file_type() {
            // Some file systems do not report the type in listings.
            FileType::Unknown => match stat_entry(folder, name) {
                Ok((kind, _)) => kind,
                Err(_) => EntryKind::Other,
            },
            file_type => entry_kind(file_type),
        };
        let name = OsString::from_vec(name.to_bytes().to_vec());
        Some(Ok(Entry { name, kind, stamp: None }))
    }))
}

/// Identifies the target of a link among the files of one file system, if it does not lead out of
/// the folder.
pub(crate) fn target_inode(folder: &Dir, name: &str) -> Option<u64> {
    Some(cap_std::fs::MetadataExt::ino(&folder.metadata(name).ok()?))
}

/// True if a file that is created in `local` may be renamed into `target`, and then has the same
/// access rights as one that was created there.
pub(crate) fn may_exchange(local: &Dir, target: &Dir) -> bool {
    let (Ok(local), Ok(folder)) = (rustix::fs::fstat(local), open_to_list(target)) else {
        return false;
    };
    let Ok(stat) = rustix::fs::fstat(&folder) else { return false };
    let inherits_group = Mode::from_raw_mode(stat.st_mode).contains(Mode::SGID);
    let mut empty: [u8; 0] = [];
    let default_acl = rustix::fs::fgetxattr(&folder, "system.posix_acl_default", &mut empty[..]);
    local.st_dev == stat.st_dev && !inherits_group && default_acl.is_err()
}

/// Exchanges two files; `None` if the file system can't.
pub(crate) fn exchange(a: (&Dir, &str), b: (&Dir, &str)) -> io::Result<Option<()>> {
    rename_with(a, b, RenameFlags::EXCHANGE)
}

/// Renames a file, and fails with `AlreadyExists` if the new name is taken; `None` if the file
/// system can't.
pub(crate) fn rename_to_free(from: (&Dir, &str), to: (&Dir, &str)) -> io::Result<Option<()>> {
    rename_with(from, to, RenameFlags::NOREPLACE)
}

/// The last two are equal on some systems.
const UNSUPPORTED: [Errno; 4] = [Errno::INVAL, Errno::NOSYS, Errno::NOTSUP, Errno::OPNOTSUPP];

fn rename_with(
    (from_dir, from): (&Dir, &str),
    (to_dir, to): (&Dir, &str),
    flags: RenameFlags,
) -> io::Result<Option<()>> {
    match rustix::fs::renameat_with(from_dir, from, to_dir, to, flags) {
        Err(error) if UNSUPPORTED.contains(&error) => Ok(None),
        renamed => Ok(Some(renamed?)),
    }
}

/// True if the system reads the name as it is. Each other one is valid.
pub(crate) fn is_file_name(_: &str) -> bool {
    true
}

/// True if no later attempt at the path can succeed.
pub(crate) fn is_permanent(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::NAMETOOLONG | Errno::INVAL | Errno::LOOP | Errno::NOTDIR)
    )
}

/// Writes with one call, so that no other process sees a part.
pub(crate) fn write_at_once(file: &File, bytes: &[u8]) -> io::Result<usize> {
    file.write_at(bytes, 0)
}

/// A path as Git prints it.
pub(crate) fn path_of_git(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}
