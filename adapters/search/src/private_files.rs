//! Files and folders that only this user can read with any umask, because they contain texts.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// The rights of the group and of other users.
const OTHERS: u32 = 0o077;

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

/// Makes a folder and all its content private. A private folder is left as it is, because other
/// users cannot reach its content.
pub(crate) fn restrict(path: &Path) -> io::Result<()> {
    let metadata = path.symlink_metadata()?;
    let mode = metadata.permissions().mode();
    if metadata.is_symlink() || mode & OTHERS == 0 {
        return Ok(());
    }
    // First the folder, so that no other user opens a file meanwhile.
    fs::set_permissions(path, Permissions::from_mode(mode & !OTHERS))?;
    if metadata.is_dir() {
        for entry in fs::read_dir(path)? {
            match restrict(&entry?.path()) {
                // Another process has removed it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                result => result?,
            }
        }
    }
    Ok(())
}
