//! The differences between operating systems that `durable-fs` does not cover.

use std::fs::Metadata;
#[cfg(unix)]
use std::os::unix::fs::MetadataExt;
use std::path::Path;

#[cfg(unix)]
use rustix::fs::{Access, AtFlags, CWD, Stat, accessat};
#[cfg(unix)]
use rustix::io::Errno;

#[cfg(target_os = "linux")]
pub(crate) fn device(stat: &Stat) -> u64 {
    stat.st_dev
}

/// Widened as the standard library does, so that both report the same device.
#[cfg(all(unix, not(target_os = "linux")))]
#[expect(clippy::cast_sign_loss, reason = "an identifier, not a quantity")]
pub(crate) fn device(stat: &Stat) -> u64 {
    i64::from(stat.st_dev) as u64
}

/// The ID of the user who owns a file.
#[cfg(unix)]
pub(crate) fn owner(metadata: &Metadata) -> u32 {
    metadata.uid()
}

#[cfg(unix)]
pub(crate) fn mode(metadata: &Metadata) -> u32 {
    metadata.mode()
}

/// True if reading is denied to the effective user, whose rights opening will use.
#[cfg(unix)]
pub(crate) fn is_read_forbidden(path: &Path) -> bool {
    let access = accessat(CWD, path, Access::READ_OK, AtFlags::EACCESS);
    matches!(access, Err(Errno::ACCESS | Errno::PERM))
}

/// Windows has no numbers of users: all folders look like the user's own.
#[cfg(windows)]
pub(crate) fn owner(_: &Metadata) -> u32 {
    0
}

/// Windows has no modes.
#[cfg(windows)]
pub(crate) fn mode(_: &Metadata) -> u32 {
    0
}

/// Opening the file reports it.
#[cfg(windows)]
pub(crate) fn is_read_forbidden(_: &Path) -> bool {
    false
}
