//! Files and folders that only this user can read with any umask, because they contain texts.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

use reqlore_durable_fs as durable_fs;

/// Options that create a private file.
pub(crate) fn options() -> OpenOptions {
    durable_fs::owner_only_options()
}

/// Writes a file like [`fs::write`].
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    options().write(true).create(true).truncate(true).open(path)?.write_all(bytes)
}

/// Creates a folder and its parents, unless it exists.
pub(crate) fn create_folder(path: &Path) -> io::Result<()> {
    durable_fs::private_dirs().create(path)
}
