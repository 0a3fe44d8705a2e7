//! Finds a model's files in a zip; a wheel is one.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use zip::ZipArchive;
use zip::result::ZipError;

use crate::error::Error;
use crate::known;

/// No archive of a model has more files.
const ENTRIES_MAX: usize = 10_000;

pub(crate) fn open(path: &Path) -> Result<ZipArchive<BufReader<File>>, Error> {
    let file = File::open(path).map_err(Error::io(path, "read"))?;
    ZipArchive::new(BufReader::new(file)).map_err(|error| unreadable(path, &error))
}

/// The entry of that name in whatever folder; of several the one of the right length.
pub(crate) fn find(archive: &mut ZipArchive<BufReader<File>>, file: &known::File) -> Option<usize> {
    let mut found = None;
    for index in 0..archive.len().min(ENTRIES_MAX) {
        let Ok(entry) = archive.by_index_raw(index) else { continue };
        let named = entry.name().is_ok_and(|name| name.rsplit('/').next() == Some(file.name));
        if named && entry.size() == file.bytes {
            return Some(index);
        }
        if named {
            found = found.or(Some(index));
        }
    }
    found
}

pub(crate) fn unreadable(path: &Path, error: &ZipError) -> Error {
    Error::Archive { place: path.display().to_string(), why: error.to_string() }
}
