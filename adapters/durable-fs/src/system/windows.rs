//! Windows: files get the rights of their folder, and a handle identifies a file.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::windows::fs::{FileExt, OpenOptionsExt};
use std::path::{Component, Path, Prefix};

use winapi_util::file::information;

/// `FILE_FLAG_OPEN_REPARSE_POINT`: opens a symbolic link itself.
const OPEN_LINK_ITSELF: u32 = 0x0020_0000;

/// Files have no mode.
pub(crate) fn set_temp_mode(_: &mut tempfile::Builder<'_, '_>, _: u32) {}

/// A new file belongs to the user of this process.
#[expect(clippy::unnecessary_wraps, reason = "changing the owner fails on Unix")]
pub(crate) fn keep_owner(_: &Metadata, _: &File) -> io::Result<()> {
    Ok(())
}

pub(crate) fn private_dirs() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    builder
}

pub(crate) fn owner_only_file() -> OpenOptions {
    File::options()
}

pub(crate) fn private_file() -> OpenOptions {
    let mut options = File::options();
    options.custom_flags(OPEN_LINK_ITSELF);
    options
}

#[expect(clippy::unnecessary_wraps, reason = "changing the mode fails on Unix")]
pub(crate) fn make_private(_: &Path, _: &Metadata) -> io::Result<()> {
    Ok(())
}

/// The folder decides who has access; see `docs/platforms.md`.
pub(crate) fn is_private(_: &Metadata) -> bool {
    true
}

/// A file in use is locked, and its owner is not needed to protect it.
pub(crate) fn have_same_owner(_: &Metadata, _: &Metadata) -> bool {
    true
}

pub(crate) fn file_id(path: &Path, _: &Metadata) -> io::Result<(u64, u64)> {
    open_file_id(&File::open(path)?)
}

pub(crate) fn open_file_id(file: &File) -> io::Result<(u64, u64)> {
    let file = information(file)?;
    Ok((file.volume_serial_number(), file.file_index()))
}

pub(crate) fn has_hard_links(path: &Path, _: &Metadata) -> bool {
    // A file that cannot be opened is reported when it is used.
    File::open(path)
        .and_then(information)
        .is_ok_and(|information| information.number_of_links() > 1)
}

pub(crate) fn read_exact_at(file: &File, mut bytes: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = file.seek_read(bytes, offset)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes = &mut bytes[count..];
        offset += count as u64;
    }
    Ok(())
}

pub(crate) fn write_all_at(file: &File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = file.seek_write(bytes, offset)?;
        if count == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = &bytes[count..];
        offset += count as u64;
    }
    Ok(())
}

/// `FlushFileBuffers` requires write access.
pub(crate) fn open_to_sync(path: &Path) -> io::Result<File> {
    File::options().write(true).open(path)
}

/// Not implemented: a rename may be lost in a power cut.
#[expect(clippy::unnecessary_wraps, reason = "a sync fails on Unix")]
pub(crate) fn sync_dir(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Creates a temporary file, because the standard library cannot query permissions.
pub(crate) fn check_writable(dir: &Path) -> io::Result<()> {
    tempfile::tempfile_in(dir).map(drop)
}

/// A separate lock file, because locks of Windows also block reads.
pub(crate) fn open_dir_to_lock(path: &Path) -> io::Result<File> {
    File::options().write(true).create(true).open(path.join(".reqlore-lock"))
}

/// A drive letter of a network share resolves to the share.
pub(crate) fn is_network_fs(path: &Path) -> io::Result<bool> {
    let path = path.canonicalize()?;
    Ok(match path.components().next() {
        Some(Component::Prefix(prefix)) => {
            matches!(prefix.kind(), Prefix::UNC(..) | Prefix::VerbatimUNC(..))
        }
        _ => false,
    })
}
