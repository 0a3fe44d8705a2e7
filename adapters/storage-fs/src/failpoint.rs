//! The steps of a commit and of looking at files, where tests make the process die or the step
//! fail.
//!
//! Outside of tests every step just succeeds and costs nothing.

use std::fs::File;
use std::io;

use reqlore_local_state::team_file::CreationStep;

/// What has just been done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailPoint {
    Locked,
    Read,
    Decided,
    /// The audit row, the idempotency record and the intent are stored.
    Prepared,
    /// The intent is deleted.
    Confirmed,
    /// A commit is about to be rolled back in the audit.
    RollingBack,
    RolledBack,
    /// The team database is being created.
    Team(CreationStep),
    TempCreated,
    TempWritten,
    TempSynced,
    JournalBegun,
    JournalWritten,
    JournalSynced,
    JournalRemoved,
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
pub(crate) fn reached(_: FailPoint) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
#[path = "tests/failpoint.rs"]
pub(crate) mod under_test;
#[cfg(test)]
pub(crate) use under_test::reached;

/// Does this file system exchange names? Tests can say that it does not.
pub(crate) fn supports_exchange() -> bool {
    #[cfg(test)]
    return under_test::EXCHANGES.get();
    #[cfg(not(test))]
    true
}

/// Makes a file or folder durable; the step is reached by that and by nothing else.
pub(crate) fn sync_file(step: FailPoint, file: &File) -> io::Result<()> {
    file.sync_all()?;
    reached(step)
}
