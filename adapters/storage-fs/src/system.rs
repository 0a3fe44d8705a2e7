//! The differences between operating systems that `durable-fs` does not cover.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::ffi::OsString;

#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;

use crate::file_stamp::FileStamp;

/// Inode, size and modification time: they differ for another file and after a write. On some file
/// systems (FUSE, overlay, 9p) they also differ for the same file, so a difference alone proves
/// nothing: the content decides then.
pub(crate) type FileFingerprint = (u64, u64, (i64, u32));

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    File,
    Folder,
    /// Not followed.
    Link,
    Other,
}

/// A name in a folder.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: OsString,
    pub(crate) kind: EntryKind,
    /// Set if the listing has it, as on Windows, where each inspection opens the file.
    pub(crate) stamp: Option<Box<FileStamp>>,
}
