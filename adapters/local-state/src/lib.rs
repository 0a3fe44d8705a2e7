//! `.reqlore/local`, the local state directory: files that belong to this machine, and `team.db`.
//!
//! Git ignores the directory, but a repository may still contain one, or a link in its place. No
//! link is followed: even one to a folder inside would make the user's files look like ours. Anyone
//! can compute a checksum, so a trusted file contains its own identity instead.

pub mod error;
pub mod private_file;
pub mod private_text;
mod system;
pub mod team_file;

use std::fs::{File, Metadata};
use std::io;
use std::time::{Duration, SystemTime};

use cap_std::fs::Dir;
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_domain::timestamp::Timestamp;
use reqlore_durable_fs::folder::{
    LOCK_FILE, create_folder, open_folder, try_lock_folder, unique_file_id,
};

use error::{failed, not_written, refused};

/// The directory's path below a project's root, as messages name it.
pub const LOCAL_STATE_DIR: &str = ".reqlore/local";
/// The parts of the path: how messages name each, its name and its mode.
const PATH_PARTS: [(&str, &str, u32); 2] =
    [(".reqlore", ".reqlore", 0o777), (LOCAL_STATE_DIR, "local", 0o700)];
const GITIGNORE: &str = ".gitignore";

/// Opens the directory to read; `None` if it is missing or a link.
pub fn open_existing(root: &Dir) -> io::Result<Option<Dir>> {
    let mut dir = root.try_clone()?;
    for (_, part, _) in PATH_PARTS {
        dir = match open_folder(&dir, part) {
            Ok(inner) => inner,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
    }
    Ok(Some(dir))
}

/// Opens the directory to write. Creates it if needed and hides it from Git.
pub fn open_or_create(root: &Dir) -> StoreResult<Dir> {
    let mut dir = root.try_clone().map_err(not_created)?;
    for (display_path, part, mode) in PATH_PARTS {
        create_folder(&dir, part, mode).map_err(not_created)?;
        dir = match open_folder(&dir, part) {
            Ok(inner) => inner,
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Err(refused(
                    display_path,
                    "is a symbolic link or a file where a folder must be; remove it and try \
                     again. Nothing was written",
                ));
            }
            Err(error) => return Err(not_created(error)),
        };
    }
    // A full disk may have left an empty file.
    if dir.symlink_metadata(GITIGNORE).map_or(0, |metadata| metadata.len()) == 0 {
        dir.write(GITIGNORE, "*\n").map_err(not_created)?;
    }
    Ok(dir)
}

fn not_created(error: io::Error) -> StoreError {
    not_written(LOCAL_STATE_DIR, "create the folder", error)
}

/// The length of a [`file_identity`] in bytes.
pub const IDENTITY_LENGTH: usize = 49;

/// Returns a text that differs for each clone or copy of a file: the numbers of [`unique_file_id`],
/// which no program can set.
pub fn file_identity(file: &File, metadata: &Metadata) -> io::Result<String> {
    unique_file_id(file, metadata).map(format_file_id)
}

/// The text of the two numbers of [`unique_file_id`].
pub fn format_file_id((inode, origin): (u64, u128)) -> String {
    format!("{inode:016x}-{origin:032x}")
}

/// Locks a folder and polls for at most `timeout`: other processes hold it rarely and briefly.
/// `subject` and `content` name the folder and its content in errors.
pub fn lock_folder(
    dir: &Dir,
    subject: &str,
    content: &str,
    timeout: Duration,
) -> StoreResult<File> {
    match poll_lock(dir, timeout) {
        Ok(Some(folder)) => Ok(folder),
        Ok(None) => Err(lock_timeout("another process", timeout)),
        Err(error) => Err(failed(subject, &format!("lock {content}"), error)),
    }
}

fn poll_lock(dir: &Dir, timeout: Duration) -> io::Result<Option<File>> {
    const PAUSE: Duration = Duration::from_millis(2);
    let mut waited = Duration::ZERO;
    loop {
        let lock = try_lock_folder(dir, LOCK_FILE)?;
        if lock.is_some() || waited >= timeout {
            return Ok(lock);
        }
        std::thread::sleep(PAUSE);
        waited += PAUSE;
    }
}

/// The error of a writer that waited this long for a lock.
pub fn lock_timeout(holder: &str, waited: Duration) -> StoreError {
    StoreError::Busy {
        reason: format!(
            "The project was being written by {holder} for {waited:?}. Nothing was written; try \
             again."
        ),
    }
}

/// The time of a recovery when a store is opened, outside of any call.
pub fn current_time() -> Timestamp {
    #[expect(clippy::disallowed_methods, reason = "opening a store is not a call with a time")]
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::new(now.as_secs().try_into().unwrap_or_default(), now.subsec_nanos())
}
