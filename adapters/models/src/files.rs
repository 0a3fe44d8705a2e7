//! File operations whose errors name the path.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use reqlore_durable_fs as durable_fs;
use sha2::{Digest, Sha256};

use crate::catalog::CatalogModel;
use crate::error::Error;

const LOCK_FILE: &str = "lock";
const COPY_BUFFER_BYTES: usize = 1 << 16;

/// The side of a copy that failed.
pub(crate) enum CopyError {
    Read(io::Error),
    Write(io::Error),
}

/// Returns the folder of an incomplete installation.
pub(crate) fn partial_folder(folder: &Path, model: &CatalogModel) -> PathBuf {
    folder.join(format!("{}.partial", model.name))
}

/// Creates the folder and locks it until the returned file is dropped.
pub(crate) fn lock_folder(partial: &Path, model: &CatalogModel) -> Result<File, Error> {
    fs::create_dir_all(partial).map_err(Error::io(partial, "created"))?;
    let path = partial.join(LOCK_FILE);
    let file = File::create(&path).map_err(Error::io(&path, "created"))?;
    if durable_fs::try_lock(&file).map_err(Error::io(&path, "locked"))? {
        Ok(file)
    } else {
        Err(Error::Busy { name: model.name.to_owned() })
    }
}

pub(crate) fn remove_lock(partial: &Path) -> Result<(), Error> {
    remove_file(&partial.join(LOCK_FILE))
}

pub(crate) fn remove_file(path: &Path) -> Result<(), Error> {
    ignore_not_found(fs::remove_file(path)).map_err(Error::io(path, "removed")).map(drop)
}

/// Removes a folder; `false` if there was none.
pub(crate) fn remove_folder(path: &Path) -> Result<bool, Error> {
    ignore_not_found(fs::remove_dir_all(path)).map_err(Error::io(path, "removed"))
}

fn ignore_not_found(result: io::Result<()>) -> io::Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns the length of a file; `None` if it is missing.
pub(crate) fn file_length(path: &Path) -> Result<Option<u64>, Error> {
    match fs::metadata(path) {
        Ok(found) => Ok(Some(found.len())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io(path, "read")(error)),
    }
}

/// Flushes a file or folder to disk, so that it survives a power failure.
pub(crate) fn sync_to_disk(path: &Path) -> Result<(), Error> {
    let synced = if path.is_dir() {
        durable_fs::sync_dir(path)
    } else {
        durable_fs::open_to_sync(path).and_then(|file| file.sync_all())
    };
    synced.map_err(Error::io(path, "written"))
}

/// Calls `take` with each chunk of the content.
pub(crate) fn copy_chunks(
    source: &mut dyn Read,
    mut take: impl FnMut(&[u8]) -> io::Result<()>,
) -> Result<(), CopyError> {
    let mut buffer = vec![0; COPY_BUFFER_BYTES];
    loop {
        match source.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => take(&buffer[..count]).map_err(CopyError::Write)?,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(CopyError::Read(error)),
        }
    }
}

/// Returns the SHA-256 of a file in hexadecimal digits.
pub(crate) fn sha256(path: &Path) -> Result<String, Error> {
    let mut file = File::open(path).map_err(Error::io(path, "read"))?;
    let mut hash = Sha256::new();
    let result = copy_chunks(&mut file, |chunk| {
        hash.update(chunk);
        Ok(())
    });
    match result {
        Ok(()) => Ok(hex::encode(hash.finalize())),
        Err(CopyError::Read(error) | CopyError::Write(error)) => {
            Err(Error::io(path, "read")(error))
        }
    }
}
