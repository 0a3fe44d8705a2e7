//! Windows: files get the rights of their folder, and a handle identifies a file.

use std::ffi::OsStr;
use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::windows::fs::{FileExt, OpenOptionsExt};
use std::path::{Component, Path, Prefix};
use std::time::Duration;

use cap_std::fs::OpenOptionsExt as _;
use cap_std::fs::{Dir, DirBuilder as FolderBuilder, OpenOptions as EntryOptions};
use winapi_util::file::information;

use crate::folder::{FileAccess, OpenedFile};

/// `FILE_FLAG_OPEN_REPARSE_POINT`: opens a symbolic link itself.
const OPEN_LINK_ITSELF: u32 = 0x0020_0000;
/// `FILE_FLAG_BACKUP_SEMANTICS`: opens a folder.
const OPEN_FOLDER: u32 = 0x0200_0000;
/// `FILE_FLAG_DELETE_ON_CLOSE`, also when the process is killed.
const DELETE_ON_CLOSE: u32 = 0x0400_0000;
/// `FILE_SHARE_READ | FILE_SHARE_WRITE`: no other handle can rename or delete it while it is open.
const SHARE_WITHOUT_DELETE: u32 = 3;
const DELETE: u32 = 0x0001_0000;
/// `GENERIC_READ`, with the right to delete the file when it is closed.
const READ_AND_DELETE: u32 = 0x8000_0000 | DELETE;

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
    File::options().write(true).create(true).open(path.join(crate::folder::LOCK_FILE))
}

/// A drive letter of a network share resolves to the share.
pub(crate) fn is_network_fs(path: &Path) -> io::Result<bool> {
    Ok(is_share(&path.canonicalize()?))
}

fn is_share(path: &Path) -> bool {
    match path.components().next() {
        Some(Component::Prefix(prefix)) => {
            matches!(prefix.kind(), Prefix::UNC(..) | Prefix::VerbatimUNC(..))
        }
        _ => false,
    }
}

/// Only an administrator may flush a volume.
#[expect(clippy::unnecessary_wraps, reason = "a sync fails on Unix")]
pub(crate) fn sync_file_system(_: &File) -> io::Result<()> {
    Ok(())
}

pub(crate) fn open_dir_without_links(path: &Path) -> io::Result<Option<File>> {
    if is_share(path) {
        let problem = "network shares are not supported; move it to a local disk";
        return Err(io::Error::new(io::ErrorKind::Unsupported, problem));
    }
    let mut options = File::options();
    options.read(true).custom_flags(OPEN_FOLDER).share_mode(SHARE_WITHOUT_DELETE);
    let folder = options.open(path)?;
    if !folder.metadata()?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    // While it is open, no folder above it can be renamed or replaced.
    for part in path.ancestors() {
        if part.symlink_metadata()?.is_symlink() {
            return Ok(None);
        }
    }
    Ok(Some(folder))
}

pub(crate) fn open_file(folder: &Dir, name: &str, access: FileAccess) -> io::Result<OpenedFile> {
    match folder.symlink_metadata(name) {
        Ok(metadata) if metadata.is_symlink() => return Ok(OpenedFile::Link),
        Ok(_) => {}
        Err(error) if is_missing(&error) => return Ok(OpenedFile::Missing),
        Err(error) => return Err(error),
    }
    let mut options = EntryOptions::new();
    match access {
        // Opens a folder, too; the caller rejects it.
        FileAccess::Read => options.read(true).custom_flags(OPEN_FOLDER),
        FileAccess::Update => options.read(true).write(true),
        FileAccess::Append => options.append(true),
    };
    // A link that was created in between is followed, but only beneath this folder.
    match folder.open_with(name, &options) {
        Ok(file) => Ok(OpenedFile::File(file.into_std())),
        Err(error) if is_missing(&error) => Ok(OpenedFile::Missing),
        Err(error) => Err(error),
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidFilename)
}

/// Files have no mode.
pub(crate) fn set_mode(_: &mut EntryOptions, _: u32) {}

pub(crate) fn set_folder_mode(_: &mut FolderBuilder, _: u32) {}

pub(crate) fn open_folder(folder: &Dir, name: &str) -> io::Result<Dir> {
    if folder.symlink_metadata(name)?.is_symlink() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    folder.open_dir(name)
}

pub(crate) fn open_to_list(folder: &Dir) -> io::Result<Dir> {
    folder.try_clone()
}

/// Not implemented: a rename may be lost in a power cut.
#[expect(clippy::unnecessary_wraps, reason = "a sync fails on Unix")]
pub(crate) fn sync_folder(_: &Dir) -> io::Result<()> {
    Ok(())
}

/// Windows locks only files. The lock file is deleted when it is closed, also by the end of the
/// process, so it never stays in a repository.
pub(crate) fn try_lock_folder(folder: &Dir, lock_file: &str) -> io::Result<Option<File>> {
    /// The lock file may be deleted between opening and inspecting it.
    const MAX_ATTEMPTS: usize = 3;
    let mut options = EntryOptions::new();
    options.create(true).write(true).access_mode(READ_AND_DELETE).share_mode(0);
    options.custom_flags(DELETE_ON_CLOSE | OPEN_LINK_ITSELF);
    for _ in 0..MAX_ATTEMPTS {
        match folder.open_with(lock_file, &options) {
            Ok(file) => return Ok(Some(file.into_std())),
            Err(error) if is_in_use(&error) => {}
            Err(error) => return Err(error),
        }
        // The error of a file without access is also that of one that is being deleted.
        match folder.symlink_metadata(lock_file) {
            Err(error) if is_missing(&error) => {}
            _ => return Ok(None),
        }
    }
    Ok(None)
}

/// Polls, because no call of Windows waits for a file to be closed.
pub(crate) fn lock_folder(folder: &Dir, lock_file: &str) -> io::Result<File> {
    const PAUSE: Duration = Duration::from_millis(2);
    /// A minute. Callers time out before; this ends their waiting thread.
    const MAX_TRIES: usize = 30_000;
    for _ in 0..MAX_TRIES {
        if let Some(lock) = try_lock_folder(folder, lock_file)? {
            return Ok(lock);
        }
        std::thread::sleep(PAUSE);
    }
    Err(io::ErrorKind::TimedOut.into())
}

pub(crate) fn inode(folder: &Dir, name: &OsStr) -> io::Result<u64> {
    let mut options = EntryOptions::new();
    // No other program can prevent a handle without access.
    options.access_mode(0).custom_flags(OPEN_LINK_ITSELF | OPEN_FOLDER);
    let (_, index) = open_file_id(&folder.open_with(name, &options)?.into_std())?;
    Ok(index)
}

pub(crate) fn folder_id(folder: &Dir) -> io::Result<(u64, u64)> {
    open_file_id(&folder.try_clone()?.into_std_file())
}

/// The index of the file and the number of its volume. The time of creation would not do: Windows
/// gives a new file that of a removed one with the same name.
pub(crate) fn unique_file_id(file: &File, _: &Metadata) -> io::Result<(u64, u128)> {
    let (volume, index) = open_file_id(file)?;
    Ok((index, volume.into()))
}

pub(crate) fn unique_path_id(path: &Path, metadata: &Metadata) -> io::Result<(u64, u128)> {
    unique_file_id(&File::open(path)?, metadata)
}

pub(crate) fn open_file_has_hard_links(file: &File, _: &Metadata) -> io::Result<bool> {
    Ok(information(file)?.number_of_links() > 1)
}

/// Tries again for a second: a virus scanner or an indexer has new files open for a moment, and a
/// file that is open can often be neither replaced nor removed.
pub(crate) fn retry_while_in_use(change: impl Fn() -> io::Result<()>) -> io::Result<()> {
    const PAUSE: Duration = Duration::from_millis(10);
    const MAX_TRIES: usize = 100;
    for _ in 1..MAX_TRIES {
        match change() {
            Err(error) if is_in_use(&error) => std::thread::sleep(PAUSE),
            result => return result,
        }
    }
    change().map_err(|error| {
        if !is_in_use(&error) {
            return error;
        }
        let problem = "it is open in another program or read-only, or this user may not change it; \
                       correct that and try again";
        io::Error::new(io::ErrorKind::ResourceBusy, problem)
    })
}

/// Windows reports some open files, such as one that is being deleted, as access denied.
fn is_in_use(error: &io::Error) -> bool {
    /// `ERROR_SHARING_VIOLATION`.
    const SHARING_VIOLATION: i32 = 32;
    error.raw_os_error() == Some(SHARING_VIOLATION)
        || error.kind() == io::ErrorKind::PermissionDenied
}

/// Opens the file as a rename over it or a removal does. The handle is closed at once.
pub(crate) fn check_replaceable(folder: &Dir, name: &str) -> io::Result<()> {
    // It could be removed, but not be replaced.
    if folder.symlink_metadata(name)?.permissions().readonly() {
        let problem = "it is read-only; clear that and try again";
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, problem));
    }
    let mut options = EntryOptions::new();
    options.access_mode(DELETE).custom_flags(OPEN_LINK_ITSELF);
    folder.open_with(name, &options).map(drop)
}
