//! `.reqlore/local`, the local state directory: files of this machine alone, and the team database.
//!
//! Git ignores the directory, and yet a repository may bring one along, or a link in its place. No
//! link is followed: even one to a folder inside would make a user's own files look like ours. A
//! checksum can be computed by anyone, so a trusted file names its own identity.

pub mod error;
mod migrate_0_1;
mod private_file;
pub mod team_file;

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime};

use cap_std::fs::{Dir, DirBuilder, DirBuilderExt};
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_domain::timestamp::Timestamp;
use reqlore_durable_fs::try_lock;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use error::{failed, not_written, refused};

/// The directory's path below a project's root, as messages name it.
pub const LOCAL: &str = ".reqlore/local";
/// Its parts, as messages name them, with their names and modes.
const PARTS: [(&str, &str, u32); 2] = [(".reqlore", ".reqlore", 0o777), (LOCAL, "local", 0o700)];
const IGNORE: &str = ".gitignore";

/// Opens the directory to read from. Where it is a link there is none.
pub fn find(root: &Dir) -> io::Result<Option<Dir>> {
    let mut dir = root.try_clone()?;
    for (_, part, _) in PARTS {
        dir = match open_folder(&dir, part) {
            Ok(inner) => Dir::from_std_file(inner.into()),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
    }
    Ok(Some(dir))
}

/// Opens the directory to write to. Creates it and hides it from Git.
pub fn create(root: &Dir) -> StoreResult<Dir> {
    let fail = |error| not_written(LOCAL, "create the folder", error);
    let mut dir = root.try_clone().map_err(fail)?;
    for (shown, part, mode) in PARTS {
        create_folder(&dir, part, mode).map_err(fail)?;
        dir = match open_folder(&dir, part) {
            Ok(inner) => Dir::from_std_file(inner.into()),
            Err(Errno::NOTDIR | Errno::LOOP) => {
                return Err(refused(
                    shown,
                    "is a symbolic link or a file where a folder must be; remove it and try \
                     again. Nothing was written",
                ));
            }
            Err(error) => return Err(fail(error.into())),
        };
    }
    // A full disk may have left an empty one.
    if dir.symlink_metadata(IGNORE).map_or(0, |found| found.len()) == 0 {
        dir.write(IGNORE, "*\n").map_err(fail)?;
    }
    Ok(dir)
}

/// The length of a [`file_identity`] in bytes.
pub const IDENTITY_LENGTH: usize = 49;

/// Text that no clone and no copy of a file shares: its inode and creation time, which no program
/// can set. A file system without creation times contributes the device, which may change with a
/// restart.
pub fn file_identity(file: &Metadata) -> String {
    let created = file.created().ok();
    let created = created.and_then(|created| created.duration_since(SystemTime::UNIX_EPOCH).ok());
    let origin = created.map_or_else(|| file.dev().into(), |created| created.as_nanos());
    format!("{:016x}-{origin:032x}", file.ino())
}

/// Creates a folder unless there is something of that name. A new one is synced.
pub fn create_folder(dir: &Dir, name: &str, mode: u32) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.mode(mode);
    match dir.create_dir_with(name, &builder) {
        Ok(()) => as_file(dir)?.sync_all(),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Opens a folder in a folder, but not through a link.
pub fn open_folder(folder: impl AsFd, name: &str) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    rustix::fs::openat(folder, name, flags, Mode::empty())
}

/// Opens a folder again, to lock or to sync it: a [`Dir`] may only name its path.
pub fn as_file(dir: &Dir) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(dir, ".", flags, Mode::empty()).map(File::from)?)
}

/// Locks a folder that other processes rarely hold, and never for long. Waits at most `timeout`.
pub fn lock_folder(dir: &Dir, place: &str, what: &str, timeout: Duration) -> StoreResult<File> {
    const PAUSE: Duration = Duration::from_millis(2);
    let fail = |error| failed(place, &format!("lock {what}"), error);
    let folder = as_file(dir).map_err(fail)?;
    let mut waited = Duration::ZERO;
    loop {
        if try_lock(&folder).map_err(fail)? {
            return Ok(folder);
        }
        if waited >= timeout {
            return Err(lock_timeout("another process", timeout));
        }
        std::thread::sleep(PAUSE);
        waited += PAUSE;
    }
}

/// The error after waiting this long for a lock.
pub fn lock_timeout(holder: &str, waited: Duration) -> StoreError {
    StoreError::Busy {
        reason: format!(
            "The project was being written by {holder} for {waited:?}. Nothing was written; try \
             again."
        ),
    }
}

/// The time of a recovery, which belongs to no call that has one.
pub fn now() -> Timestamp {
    #[expect(clippy::disallowed_methods, reason = "opening a store is not a call with a time")]
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::new(now.as_secs().try_into().unwrap_or_default(), now.subsec_nanos())
}
