//! What can be told of a database without opening it.
//!
//! The trap: sled writes to whatever it opens, so nothing is asked of sled here.

use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use reqlore_domain::ports::documents::StoreResult;

use crate::error::failed;
use crate::{Config, folder};

/// What is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outside {
    /// A process has it, as far as the system tells which.
    Served { process: Option<u32> },
    /// Nobody has it, and what can be seen of it is as it should be.
    Free,
    /// It was never finished being made.
    Unfinished,
}

/// Looks at a folder that is there; refuses what opening would refuse, as far as that shows.
pub fn look(config: &Config) -> StoreResult<Outside> {
    let folder = config.folder.as_path();
    let open = File::open(folder).map_err(|error| failed(folder, "open the folder", error))?;
    // Shared, so that two who look are not in each other's way; gone again in a moment.
    match open.try_lock_shared() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Ok(Outside::Served { process: holder(&open) });
        }
        Err(TryLockError::Error(error)) => return Err(failed(folder, "lock the folder", error)),
    }
    drop(open);
    let found = folder::inspect(folder)?;
    Ok(if found.is_unfinished { Outside::Unfinished } else { Outside::Free })
}

/// Who locked a file, as Linux lists it.
fn holder(file: &File) -> Option<u32> {
    let inode = file.metadata().ok()?.ino();
    let locks = std::fs::read_to_string(Path::new("/proc/locks")).ok()?;
    // `1: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF`
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let of = words.get(5)?.rsplit(':').next()?;
        (words.get(1) == Some(&"FLOCK") && of.parse() == Ok(inode)).then_some(())?;
        words.get(4)?.parse().ok()
    })
}
