//! Files and folders that only this user can read with any umask, because they contain texts.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Options that create a private file.
pub(crate) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

/// Writes a file like [`fs::write`].
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    options().write(true).create(true).truncate(true).open(path)?.write_all(bytes)
}

/// Creates a folder and its parents, unless it exists.
pub(crate) fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}
