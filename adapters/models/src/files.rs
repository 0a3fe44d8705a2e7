//! Operations on files and folders, with errors that name them.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use reqlore_durable_fs as durable_fs;
use sha2::{Digest, Sha256};

use crate::error::Error;
use crate::known::Model;

const LOCK_FILE: &str = "lock";
const COPY_BUFFER_BYTES: usize = 1 << 16;

/// The side of a copy that failed.
pub(crate) enum CopyError {
    Read(io::Error),
    Write(io::Error),
}

/// The folder of an incomplete installation.
pub(crate) fn partial_folder(folder: &Path, model: &Model) -> PathBuf {
    folder.join(format!("{}.partial", model.name))
}

/// Creates the folder and locks it until the result is dropped.
pub(crate) fn lock_folder(partial: &Path, model: &Model) -> Result<File, Error> {
    fs::create_dir_all(partial).map_err(Error::io(partial, "made"))?;
    let path = partial.join(LOCK_FILE);
    let file = File::create(&path).map_err(Error::io(&path, "made"))?;
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

/// `false` if there was none.
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

/// The length of a file; `None` for a missing one.
pub(crate) fn file_length(path: &Path) -> Result<Option<u64>, Error> {
    match fs::metadata(path) {
        Ok(found) => Ok(Some(found.len())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io(path, "read")(error)),
    }
}

/// Makes a written file or folder survive a loss of power.
pub(crate) fn sync_to_disk(path: &Path) -> Result<(), Error> {
    File::open(path).and_then(|file| file.sync_all()).map_err(Error::io(path, "written"))
}

/// Calls `take` with each part of the content.
pub(crate) fn copy_chunks(
    from: &mut dyn Read,
    mut take: impl FnMut(&[u8]) -> io::Result<()>,
) -> Result<(), CopyError> {
    let mut buffer = vec![0; COPY_BUFFER_BYTES];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => take(&buffer[..count]).map_err(CopyError::Write)?,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(CopyError::Read(error)),
        }
    }
}

/// The SHA-256 of a file, in hexadecimal digits.
pub(crate) fn sha256(path: &Path) -> Result<String, Error> {
    let mut file = File::open(path).map_err(Error::io(path, "read"))?;
    let mut hash = Sha256::new();
    let take = |part: &[u8]| {
        hash.update(part);
        Ok(())
    };
    copy_chunks(&mut file, take).map_err(|error| match error {
        CopyError::Read(error) | CopyError::Write(error) => Error::io(path, "read")(error),
    })?;
    Ok(hex::encode(hash.finalize()))
}
