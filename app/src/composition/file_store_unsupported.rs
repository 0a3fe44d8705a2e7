//! Windows has no file storage. Its settings are rejected, so only the directory is in use.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reqlore_domain::ports::Store;
use reqlore_domain::ports::accepted_loss::AcceptedLoss;
use reqlore_domain::ports::documents::{DocumentRepository, StoreError, StoreResult};
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_storage_fs::Config;

use crate::storage_spec::LOCAL;

/// Creates the local state directory and hides it from Git.
pub(super) fn create_local_state_dir(root: &Path) -> StoreResult<PathBuf> {
    let folder = root.join(LOCAL);
    let ignored = folder.join(".gitignore");
    // A link of the repository could name a file outside of it.
    let created = fs::create_dir_all(&folder).and_then(|()| match fs::symlink_metadata(&ignored) {
        Ok(metadata) if metadata.is_file() && metadata.len() > 0 => Ok(()),
        Ok(_) => Err(io::Error::other(".gitignore is a link or empty; delete it")),
        Err(_) => File::create_new(&ignored).and_then(|mut file| file.write_all(b"*\n")),
    });
    match created {
        Ok(()) => Ok(folder),
        Err(error) => Err(StoreError::Unavailable {
            subject: LOCAL.to_owned(),
            reason: format!("could not create the folder: {error}"),
            source: Some(error),
        }),
    }
}

/// The sessions of a board end with its process.
#[expect(clippy::unnecessary_wraps, reason = "reading fails on Unix")]
pub(crate) fn read_text(_: &Path, _: &str) -> StoreResult<Option<String>> {
    Ok(None)
}

#[expect(clippy::unnecessary_wraps, reason = "writing fails on Unix")]
pub(crate) fn write_text(_: &Path, _: &str, _: &str) -> StoreResult<()> {
    Ok(())
}

fn unsupported<T>() -> StoreResult<T> {
    let reason = "needs Linux or macOS; pass --storage sqlite".to_owned();
    Err(StoreError::Refused { subject: "the file storage".to_owned(), reason })
}

pub(super) fn open(_: &Config) -> StoreResult<Arc<dyn Store>> {
    unsupported()
}

pub(super) fn open_tree(_: &Config) -> Option<Arc<dyn DocumentRepository>> {
    None
}

pub(super) fn open_to_inspect(_: &Config) -> StoreResult<Option<Arc<dyn Store>>> {
    unsupported()
}

pub(super) fn accept_loss(_: &Config, _: WriteContext) -> StoreResult<AcceptedLoss> {
    unsupported()
}
