//! Unix: the files belong to the user of the project's server, or to root.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;

use cap_std::fs::Dir;
use rustix::fs::{Gid, Mode, Uid};

const FILE_MODE: Mode = Mode::from_raw_mode(0o600);
const FOLDER_MODE: Mode = Mode::from_raw_mode(0o700);

pub(crate) fn is_own_folder(folder: &Dir, parent: &Dir) -> io::Result<bool> {
    Ok(is_ours(rustix::fs::fstat(folder)?.st_uid, parent))
}

pub(crate) fn is_own_file(metadata: &Metadata, parent: &Dir) -> bool {
    is_ours(metadata.uid(), parent)
}

/// True if the owner is this user or root. Root may administer the server of another user, the
/// owner of `parent`.
fn is_ours(owner: u32, parent: &Dir) -> bool {
    let user = rustix::process::geteuid();
    if owner == 0 || owner == user.as_raw() {
        return true;
    }
    user.is_root() && rustix::fs::fstat(parent).is_ok_and(|parent| parent.st_uid == owner)
}

/// Sets mode 0700, under any umask.
pub(crate) fn make_folder_private(folder: &Dir) -> io::Result<()> {
    if rustix::fs::fstat(folder)?.st_mode & 0o777 == FOLDER_MODE.as_raw_mode() {
        return Ok(());
    }
    // A `Dir` may hold a path-only handle, which cannot change the mode.
    let folder = reqlore_durable_fs::folder::open_to_list(folder)?;
    Ok(rustix::fs::fchmod(&folder, FOLDER_MODE)?)
}

/// Completes a new file's mode, and gives one that root creates in another user's project to that
/// user, whose server reads it.
pub(crate) fn set_mode_and_owner(file: &File, parent: &Dir) -> io::Result<()> {
    // The umask may have removed rights of the owner.
    rustix::fs::fchmod(file, FILE_MODE)?;
    let Ok(parent) = rustix::fs::fstat(parent) else { return Ok(()) };
    if rustix::process::geteuid().is_root() && parent.st_uid != 0 {
        let (uid, gid) = (Uid::from_raw(parent.st_uid), Gid::from_raw(parent.st_gid));
        if let Err(error) = rustix::fs::fchown(file, Some(uid), Some(gid)) {
            tracing::debug!(%error, "could not set the owner of a file");
        }
    }
    Ok(())
}
