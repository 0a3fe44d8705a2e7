//! Failpoints: the steps of reading and committing at which tests kill the process or return an
//! error.
//!
//! Outside of tests every failpoint succeeds and costs nothing.

use std::fs::File;
use std::io;

use cap_std::fs::Dir;
use reqlore_local_state::team_file::CreationStep;

/// A step, named after the action before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailPoint {
    Locked,
    Read,
    Decided,
    /// The audit row, the idempotency record and the intent are stored.
    Prepared,
    /// The intent is deleted.
    Confirmed,
    /// The audit row of a failed commit is about to be rolled back.
    RollingBack,
    RolledBack,
    /// A step of creating the team database.
    Team(CreationStep),
    TempCreated,
    TempWritten,
    TempSynced,
    JournalBegun,
    JournalWritten,
    JournalSynced,
    JournalRemoved,
    /// Without exchange support: the old file has a second name.
    Linked,
    /// Without exchange support: a file has its old and its new name.
    LinkedToFree,
    /// Without exchange support: the new file has replaced the old one's first name.
    Replaced,
    Exchanged,
    Checked,
    FolderSynced,
    /// An exchange is about to be undone.
    PuttingBack,
    OldRemoved,
    /// A folder of documents was opened to be listed.
    FolderOpened,
    /// A file was opened to be read.
    FileOpened,
}

#[cfg(not(test))]
#[expect(clippy::unnecessary_wraps, reason = "in tests it fails")]
pub(crate) fn hit_failpoint(_: FailPoint) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
#[path = "tests/failpoint.rs"]
pub(crate) mod under_test;
#[cfg(test)]
pub(crate) use under_test::hit_failpoint;

/// False if a test simulates a file system that cannot exchange names.
pub(crate) fn supports_exchange() -> bool {
    #[cfg(test)]
    return under_test::EXCHANGES.get();
    #[cfg(not(test))]
    true
}

/// Returns the inode number that a program sees, which a test can make unstable.
pub(crate) fn seen_inode(inode: u64) -> u64 {
    #[cfg(test)]
    return under_test::see_inode(inode);
    #[cfg(not(test))]
    inode
}

/// Like [`sync_file`], for a folder.
pub(crate) fn sync_folder(step: FailPoint, folder: &Dir) -> io::Result<()> {
    reqlore_durable_fs::folder::sync_folder(folder)?;
    hit_failpoint(step)
}

/// Syncs a file, then hits the failpoint. Tests detect a missing sync by its failpoint.
pub(crate) fn sync_file(step: FailPoint, file: &File) -> io::Result<()> {
    file.sync_all()?;
    hit_failpoint(step)
}
