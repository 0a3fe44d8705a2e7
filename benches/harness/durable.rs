//! A bare durable write, to hold ours against.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

/// What a careful program does at least: a new file, synced, in its place, and the folder synced.
pub(crate) fn write(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<Duration> {
    let clock = Instant::now();
    let temporary = folder.join(format!("{name}.tmp"));
    let mut file = File::create(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, folder.join(name))?;
    File::open(folder)?.sync_all()?;
    Ok(clock.elapsed())
}
