//! System calls of Unix.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::os::unix::fs::{
    DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown,
};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use cap_std::fs::{Dir, DirBuilder as FolderBuilder, OpenOptions as EntryOptions};
use cap_std::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use rustix::fs::{Access, AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::folder::{FileAccess, OpenedFile};

const GROUP_AND_WORLD_BITS: u32 = 0o077;

pub(crate) fn set_temp_mode(temp: &mut tempfile::Builder<'_, '_>, mode: u32) {
    temp.permissions(Permissions::from_mode(mode));
}

pub(crate) fn keep_owner(old: &Metadata, new: &File) -> io::Result<()> {
    let metadata = new.metadata()?;
    if (old.uid(), old.gid()) == (metadata.uid(), metadata.gid()) {
        return Ok(());
    }
    fchown(new, Some(old.uid()), Some(old.gid()))
}

pub(crate) fn private_dirs() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder
}

pub(crate) fn owner_only_file() -> OpenOptions {
    let mut options = File::options();
    options.mode(0o600);
    options
}

pub(crate) fn private_file() -> OpenOptions {
    let mut options = owner_only_file();
    // A link planted under this name would redirect the write to another file.
    options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    options
}

pub(crate) fn make_private(path: &Path, metadata: &Metadata) -> io::Result<()> {
    let mode = metadata.mode() & 0o7777 & !GROUP_AND_WORLD_BITS;
    fs::set_permissions(path, Permissions::from_mode(mode))
}

pub(crate) fn have_same_owner(one: &Metadata, other: &Metadata) -> bool {
    one.uid() == other.uid()
}

pub(crate) fn is_private(metadata: &Metadata) -> bool {
    metadata.mode() & GROUP_AND_WORLD_BITS == 0
}

#[expect(clippy::unnecessary_wraps, reason = "opening the file fails on Windows")]
pub(crate) fn file_id(_: &Path, metadata: &Metadata) -> io::Result<(u64, u64)> {
    Ok((metadata.dev(), metadata.ino()))
}

pub(crate) fn open_file_id(file: &File) -> io::Result<(u64, u64)> {
    let metadata = file.metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}

pub(crate) fn has_hard_links(_: &Path, metadata: &Metadata) -> bool {
    metadata.nlink() > 1
}

pub(crate) fn read_exact_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    file.read_exact_at(bytes, offset)
}

pub(crate) fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    file.write_all_at(bytes, offset)
}

/// A handle to read is enough for a sync.
pub(crate) fn open_to_sync(path: &Path) -> io::Result<File> {
    File::open(path)
}

pub(crate) fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

pub(crate) fn check_writable(dir: &Path) -> io::Result<()> {
    Ok(rustix::fs::access(dir, Access::WRITE_OK | Access::EXEC_OK)?)
}

pub(crate) fn open_dir_to_lock(path: &Path) -> io::Result<File> {
    // A read-only handle is enough for this lock.
    File::open(path)
}

#[cfg(target_os = "linux")]
pub(crate) fn sync_file_system(dir: &File) -> io::Result<()> {
    Ok(rustix::fs::syncfs(dir)?)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn sync_file_system(dir: &File) -> io::Result<()> {
    // `sync` may return before the disk has everything, so the directory is synced as well.
    rustix::fs::sync();
    dir.sync_all()
}

#[cfg(target_os = "linux")]
pub(crate) fn is_network_fs(path: &Path) -> io::Result<bool> {
    // From `statfs(2)` and the kernel's `magic.h`.
    const NETWORK: [u64; 12] = [
        0x6969,      // nfs
        0x517b,      // smb
        0xff53_4d42, // cifs
        0xfe53_4d42, // smb2
        0x0102_1997, // 9p
        0x5346_414f, // afs
        0x6b41_4653, // kafs
        0x7375_7245, // coda
        0x564c,      // ncp
        0x00c3_6400, // ceph
        0x0bd0_0bd0, // lustre
        0x786f_4256, // vboxsf
    ];
    // The type is signed on some architectures, and only 32 bits are significant.
    let kind = u64::try_from(rustix::fs::statfs(path)?.f_type & 0xffff_ffff);
    Ok(kind.is_ok_and(|kind| NETWORK.contains(&kind)))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn is_network_fs(path: &Path) -> io::Result<bool> {
    // `MNT_LOCAL` of `sys/mount.h`.
    const LOCAL: u32 = 0x1000;
    Ok(rustix::fs::statfs(path)?.f_flags & LOCAL == 0)
}

#[cfg(target_os = "linux")]
pub(crate) fn open_dir_without_links(path: &Path) -> io::Result<Option<File>> {
    use rustix::fs::{CWD, ResolveFlags, openat2};

    // A path-only handle, because the directory need not be readable.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        Ok(dir) => Ok(Some(dir.into())),
        // The kernel reports any link in the path with this error.
        Err(Errno::LOOP) => Ok(None),
        // Kernels before 5.6, and sandboxes that reject unknown calls.
        Err(Errno::NOSYS | Errno::PERM) => open_dir_and_compare_path(path),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) use open_dir_and_compare_path as open_dir_without_links;

/// Opens the directory, then compares its path as the kernel reports it. For systems without a call
/// that rejects links.
pub(crate) fn open_dir_and_compare_path(path: &Path) -> io::Result<Option<File>> {
    // Opened for reading, because macOS has no path-only handles.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    Ok((opened_path(&dir)? == path).then_some(dir))
}

#[cfg(target_os = "linux")]
fn opened_path(dir: &File) -> io::Result<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", dir.as_raw_fd()))
}

#[cfg(not(target_os = "linux"))]
fn opened_path(dir: &File) -> io::Result<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    let path = rustix::fs::getpath(dir)?;
    Ok(PathBuf::from(std::ffi::OsString::from_vec(path.into_bytes())))
}

pub(crate) fn open_file(folder: &Dir, name: &str, access: FileAccess) -> io::Result<OpenedFile> {
    let access = match access {
        FileAccess::Read => OFlags::RDONLY,
        FileAccess::Update => OFlags::RDWR,
        FileAccess::Append => OFlags::WRONLY | OFlags::APPEND,
    };
    // Opening a pipe must not block.
    let flags = access | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    match rustix::fs::openat(folder, name, flags, Mode::empty()) {
        Ok(file) => Ok(OpenedFile::File(file.into())),
        // No file system can hold a name that is too long.
        Err(Errno::NOENT | Errno::NAMETOOLONG) => Ok(OpenedFile::Missing),
        Err(Errno::LOOP) => Ok(OpenedFile::Link),
        Err(error) => Err(error.into()),
    }
}

pub(crate) fn set_mode(options: &mut EntryOptions, mode: u32) {
    options.mode(mode);
}

pub(crate) fn set_folder_mode(builder: &mut FolderBuilder, mode: u32) {
    builder.mode(mode);
}

pub(crate) fn open_folder(folder: &Dir, name: &str) -> io::Result<Dir> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    match rustix::fs::openat(folder, name, flags, Mode::empty()) {
        Ok(folder) => Ok(Dir::from_std_file(folder.into())),
        // A link: some systems report it with one error, some with the other.
        Err(Errno::LOOP) => Err(Errno::NOTDIR.into()),
        Err(error) => Err(error.into()),
    }
}

pub(crate) fn open_to_list(folder: &Dir) -> io::Result<Dir> {
    Ok(Dir::from_std_file(reopen(folder)?))
}

fn reopen(folder: &Dir) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(folder, ".", flags, Mode::empty())?.into())
}

pub(crate) fn sync_folder(folder: &Dir) -> io::Result<()> {
    reopen(folder)?.sync_all()
}

pub(crate) fn try_lock_folder(folder: &Dir, _: &str) -> io::Result<Option<File>> {
    let folder = reopen(folder)?;
    Ok(crate::try_lock(&folder)?.then_some(folder))
}

pub(crate) fn lock_folder(folder: &Dir, _: &str) -> io::Result<File> {
    let folder = reopen(folder)?;
    folder.lock()?;
    Ok(folder)
}

pub(crate) fn inode(folder: &Dir, name: &OsStr) -> io::Result<u64> {
    Ok(rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?.st_ino)
}

pub(crate) fn folder_id(folder: &Dir) -> io::Result<(u64, u64)> {
    let metadata = folder.dir_metadata()?;
    Ok((cap_std::fs::MetadataExt::dev(&metadata), cap_std::fs::MetadataExt::ino(&metadata)))
}

pub(crate) fn unique_file_id(_: &File, metadata: &Metadata) -> io::Result<(u64, u128)> {
    unique_path_id(Path::new(""), metadata)
}

#[expect(clippy::unnecessary_wraps, reason = "inspecting the file fails on Windows")]
pub(crate) fn unique_path_id(_: &Path, metadata: &Metadata) -> io::Result<(u64, u128)> {
    // Used if the file system stores no creation times. It may change with a restart.
    let mut origin = u128::from(metadata.dev());
    if let Ok(created) = metadata.created()
        && let Ok(since_epoch) = created.duration_since(SystemTime::UNIX_EPOCH)
    {
        origin = since_epoch.as_nanos();
    }
    Ok((metadata.ino(), origin))
}

#[expect(clippy::unnecessary_wraps, reason = "inspecting the handle fails on Windows")]
pub(crate) fn open_file_has_hard_links(_: &File, metadata: &Metadata) -> io::Result<bool> {
    Ok(metadata.nlink() > 1)
}

/// An open file can be replaced, so there is nothing to wait for.
pub(crate) fn retry_while_in_use(change: impl Fn() -> io::Result<()>) -> io::Result<()> {
    change()
}

#[expect(clippy::unnecessary_wraps, reason = "another program may keep the file on Windows")]
pub(crate) fn check_replaceable(_: &Dir, _: &str) -> io::Result<()> {
    Ok(())
}
