//! Small files of the cache: written whole, read whole or not at all.
//!
//! The trap: they are a cache, so nothing waits for the disk. A file may be torn after a power cut;
//! its checksum tells, and it counts as absent.

use std::fs;
use std::io;
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What the first line of every file of ours says.
const NAME: &str = "reqlore search cache";

/// Writes `body` beside `path` and renames it there.
pub(crate) fn write(path: &Path, form: &str, body: &[u8]) -> io::Result<()> {
    write_by(&path.with_extension("new"), path, form, body)
}

/// The same for a file that others may be writing too: one of them is the last, and whole.
pub(crate) fn write_shared(path: &Path, form: &str, body: &[u8]) -> io::Result<()> {
    static WRITTEN: AtomicUsize = AtomicUsize::new(0);
    let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
    let beside = path.with_extension(format!("{}-{number}.new", process::id()));
    write_by(&beside, path, form, body).inspect_err(|_| {
        // It may not even be there.
        let _ = fs::remove_file(&beside);
    })
}

fn write_by(beside: &Path, path: &Path, form: &str, body: &[u8]) -> io::Result<()> {
    let mut bytes = format!("{NAME} {form}\n").into_bytes();
    bytes.extend_from_slice(body);
    let sum = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    fs::write(beside, bytes)?;
    fs::rename(beside, path)
}

/// The body of a file of this form; `None` if there is none, or another, or a damaged one, and the
/// latter is logged.
pub(crate) fn read(path: &Path, form: &str) -> Option<Vec<u8>> {
    let mut bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            let path = path.display();
            tracing::warn!(%path, %error, "a file of the search cache can't be read");
            return None;
        }
    };
    let body = bytes
        .len()
        .checked_sub(4)
        .filter(|end| bytes[*end..] == crc32fast::hash(&bytes[..*end]).to_le_bytes());
    let first_line = format!("{NAME} {form}\n");
    match body {
        Some(end) if bytes[..end].starts_with(first_line.as_bytes()) => {
            bytes.truncate(end);
            Some(bytes.split_off(first_line.len()))
        }
        _ => {
            tracing::info!(path = %path.display(), "a file of the search cache is old or damaged");
            None
        }
    }
}
