//! System calls that differ between Linux and macOS.

use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

const GROUP_AND_WORLD_BITS: u32 = 0o077;

pub(super) fn initial_permissions(is_private: bool) -> Permissions {
    Permissions::from_mode(if is_private { 0o600 } else { 0o666 })
}

pub(super) fn keep_owner(old: &Metadata, new: &File) -> io::Result<()> {
    let metadata = new.metadata()?;
    if (old.uid(), old.gid()) == (metadata.uid(), metadata.gid()) {
        return Ok(());
    }
    fchown(new, Some(old.uid()), Some(old.gid()))
}

pub(super) fn private_dirs() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder
}

pub(super) fn private_file() -> OpenOptions {
    let mut options = File::options();
    // A link planted under this name would redirect the write to another file.
    options.mode(0o600).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    options
}

pub(super) fn owner_only(metadata: &Metadata) -> Permissions {
    Permissions::from_mode(metadata.mode() & 0o7777 & !GROUP_AND_WORLD_BITS)
}

pub(super) fn is_private(metadata: &Metadata) -> bool {
    metadata.mode() & GROUP_AND_WORLD_BITS == 0
}

pub(super) fn file_id(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

pub(super) fn has_hard_links(metadata: &Metadata) -> bool {
    metadata.nlink() > 1
}

#[cfg(target_os = "linux")]
pub(super) fn sync_file_system(dir: &File) -> io::Result<()> {
    Ok(rustix::fs::syncfs(dir)?)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn sync_file_system(dir: &File) -> io::Result<()> {
    // `sync` may return before the disk has everything, so the directory is synced as well.
    rustix::fs::sync();
    dir.sync_all()
}

#[cfg(target_os = "linux")]
pub(super) fn is_network_fs(path: &Path) -> io::Result<bool> {
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
pub(super) fn is_network_fs(path: &Path) -> io::Result<bool> {
    // `MNT_LOCAL` of `sys/mount.h`.
    const LOCAL: u32 = 0x1000;
    Ok(rustix::fs::statfs(path)?.f_flags & LOCAL == 0)
}

#[cfg(target_os = "linux")]
pub(super) fn open_dir_without_links(path: &Path) -> io::Result<Option<File>> {
    use rustix::fs::{CWD, ResolveFlags, openat2};
    use rustix::io::Errno;

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
pub(super) use open_dir_and_compare_path as open_dir_without_links;

/// Opens the directory, then compares its path as the kernel reports it. For systems without a call
/// that rejects links.
pub(super) fn open_dir_and_compare_path(path: &Path) -> io::Result<Option<File>> {
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
