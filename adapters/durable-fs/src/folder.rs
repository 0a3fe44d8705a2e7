//! Files and folders beneath an open folder. Links are not followed. On Windows a link that is
//! created during a call may be followed, but never out of the folder.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;

use cap_std::fs::{Dir, OpenOptions};

use crate::system;

/// How to open an existing file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileAccess {
    Read,
    Update,
    Append,
}

#[derive(Debug)]
pub enum OpenedFile {
    /// Maybe not a regular file.
    File(File),
    /// Also if no file can have this name.
    Missing,
    Link,
}

impl OpenedFile {
    /// Returns the file; `None` if it is missing or a link.
    pub fn file(self) -> Option<File> {
        match self {
            Self::File(file) => Some(file),
            Self::Missing | Self::Link => None,
        }
    }
}

/// Opens a file. Does not wait for the other end of a pipe.
pub fn open_file(folder: &Dir, name: &str, access: FileAccess) -> io::Result<OpenedFile> {
    system::open_file(folder, name, access)
}

/// Creates a file; fails with `AlreadyExists` if the name is taken, also by a link. The umask
/// reduces the mode. Windows has no modes.
pub fn create_file(folder: &Dir, name: &str, mode: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    system::set_mode(&mut options, mode);
    Ok(folder.open_with(name, &options)?.into_std())
}

/// Opens a folder to list it; fails with `NotADirectory` for a file or a link.
pub fn open_folder(folder: &Dir, name: &str) -> io::Result<Dir> {
    system::open_folder(folder, name)
}

/// Creates a folder unless the name exists. The entry of a new folder is synced.
pub fn create_folder(folder: &Dir, name: &str, mode: u32) -> io::Result<()> {
    let mut builder = cap_std::fs::DirBuilder::new();
    system::set_folder_mode(&mut builder, mode);
    match folder.create_dir_with(name, &builder) {
        Ok(()) => sync_folder(folder),
        // The caller opens it without following links, so it need not be inspected here.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Opens a folder again, to list it: a [`Dir`] may hold a path-only handle.
pub fn open_to_list(folder: &Dir) -> io::Result<Dir> {
    system::open_to_list(folder)
}

/// Syncs a folder, so that created, renamed and removed names survive a power cut.
pub fn sync_folder(folder: &Dir) -> io::Result<()> {
    system::sync_folder(folder)
}

/// The usual name of a lock file.
pub const LOCK_FILE: &str = ".reqlore-lock";
/// True on Windows, where a lock is a file in the locked folder.
pub const LOCKS_ARE_FILES: bool = cfg!(windows);

/// Locks a folder until the result is dropped; `None` if another handle has the lock, or on Windows
/// if access is denied. The kernel releases the lock of a killed process. If [`LOCKS_ARE_FILES`],
/// each `lock_file` is a lock of its own.
pub fn try_lock_folder(folder: &Dir, lock_file: &str) -> io::Result<Option<File>> {
    system::try_lock_folder(folder, lock_file)
}

/// Like [`try_lock_folder`]; waits for the lock.
pub fn lock_folder(folder: &Dir, lock_file: &str) -> io::Result<File> {
    system::lock_folder(folder, lock_file)
}

/// Repeats a change for a second while another program has the file open. Unix tries it once.
pub fn retry_while_in_use(change: impl Fn() -> io::Result<()>) -> io::Result<()> {
    system::retry_while_in_use(change)
}

/// Renames a file, and replaces one with the new name.
pub fn rename(folder: &Dir, from: &str, to: &str) -> io::Result<()> {
    retry_while_in_use(|| folder.rename(from, folder, to))
}

pub fn remove_file(folder: &Dir, name: &str) -> io::Result<()> {
    retry_while_in_use(|| folder.remove_file(name))
}

/// Fails if another program has the file open in a way that prevents a rename or removal. Always
/// succeeds on Unix.
pub fn check_replaceable(folder: &Dir, name: &str) -> io::Result<()> {
    system::check_replaceable(folder, name)
}

/// Identifies the folder, for all paths to it.
pub fn folder_id(folder: &Dir) -> io::Result<(u64, u64)> {
    system::folder_id(folder)
}

/// Identifies a file, folder or link among those of its volume, also if another program keeps it
/// from being opened.
pub fn inode(folder: &Dir, name: &OsStr) -> io::Result<u64> {
    system::inode(folder, name)
}

/// Returns two numbers that identify a file and differ for its copy: inode and creation time on
/// Unix, file index and volume on Windows.
pub fn unique_file_id(file: &File, metadata: &Metadata) -> io::Result<(u64, u128)> {
    system::unique_file_id(file, metadata)
}

/// True if an open file has more than one name.
pub fn open_file_has_hard_links(file: &File, metadata: &Metadata) -> io::Result<bool> {
    system::open_file_has_hard_links(file, metadata)
}
