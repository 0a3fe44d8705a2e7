//! Archives that unpack to a bounded number of bytes.

use std::fmt::Display;
use std::io::{BufRead, BufReader, Cursor, Read};

use reqlore_domain::ports::exchange::MAX_SOURCE_BYTES;
use zip::ZipArchive;

/// Calls `read` with the name and the content of each file in an archive, and returns the archive.
/// The bytes that `read` reads are at most `left`, which is reduced. Errors begin with the path;
/// those of `read` are returned as they are.
pub(crate) fn read_archive(
    path: &str,
    content: impl Read,
    left: &mut u64,
    mut read: impl FnMut(&str, &mut dyn BufRead) -> Result<(), String>,
) -> Result<Vec<u8>, String> {
    let problem = |error: &dyn Display| format!("{path}: {error}");
    let mut bytes = Vec::new();
    content.take(MAX_SOURCE_BYTES).read_to_end(&mut bytes).map_err(|error| problem(&error))?;
    let mut archive = ZipArchive::new(Cursor::new(&*bytes)).map_err(|error| problem(&error))?;
    for index in 0..archive.len() {
        let entry = archive.by_index(index).map_err(|error| problem(&error))?;
        if !entry.is_file() {
            continue;
        }
        let name = entry.name().map_err(|error| problem(&error))?.into_owned();
        let mut limited = entry.take(*left + 1);
        let result = read(&name, &mut BufReader::new(&mut limited));
        let Some(rest) = limited.limit().checked_sub(1) else {
            return Err(problem(&"the archives unpack to more than 100 MiB; split them"));
        };
        *left = rest;
        result?;
    }
    Ok(bytes)
}
