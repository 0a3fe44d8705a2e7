//! Files and folders that only this user may access, opened without following links.
//!
//! These files decide what users and tokens may do. An untrusted file is rejected, not ignored:
//! otherwise the next write would replace all users with an empty list.

use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;

use cap_std::fs::Dir;
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

use crate::error::{failed, not_written, refused};
use crate::{LOCAL_STATE_DIR, as_file};

const FILE_MODE: Mode = Mode::from_raw_mode(0o600);
const FOLDER_MODE: Mode = Mode::from_raw_mode(0o700);
const GROUP_AND_WORLD_BITS: u32 = 0o077;

/// Opens `.reqlore/local` to read; `None` if it is missing or a link.
pub fn local_folder(root: &Dir) -> StoreResult<Option<Dir>> {
    match crate::open_existing(root) {
        Ok(Some(local)) => check_folder(root, local).map(Some),
        Ok(None) => Ok(None),
        Err(error) => Err(failed(LOCAL_STATE_DIR, "open it", error)),
    }
}

/// Opens `.reqlore/local` to write. Creates it if needed and removes the rights of other users.
pub fn writable_local_folder(root: &Dir) -> StoreResult<Dir> {
    let local = check_folder(root, crate::open_or_create(root)?)?;
    let made_private = as_file(&local).and_then(|folder| make_private(&folder));
    made_private
        .map_err(|error| not_written(LOCAL_STATE_DIR, "remove other users' rights", error))?;
    Ok(local)
}

/// Rejects a folder that another user with write access to the project may have created.
fn check_folder(root: &Dir, local: Dir) -> StoreResult<Dir> {
    let stat = rustix::fs::fstat(&local)
        .map_err(|error| failed(LOCAL_STATE_DIR, "inspect it", error.into()))?;
    if !is_ours(stat.st_uid, root) {
        return Err(owned_by_another_user(LOCAL_STATE_DIR));
    }
    Ok(local)
}

fn owned_by_another_user(subject: &str) -> StoreError {
    refused(subject, "belongs to another user; run this as that user, or move it away")
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
fn make_private(folder: &File) -> io::Result<()> {
    let stat = rustix::fs::fstat(folder)?;
    if stat.st_mode & 0o777 != FOLDER_MODE.as_raw_mode() {
        rustix::fs::fchmod(folder, FOLDER_MODE)?;
    }
    Ok(())
}

/// Gives a file that root creates in another user's project to that user, whose server reads it.
fn give_to_owner(parent: &Dir, file: &File) {
    let Ok(parent) = rustix::fs::fstat(parent) else { return };
    if rustix::process::geteuid().is_root() && parent.st_uid != 0 {
        let (uid, gid) = (Uid::from_raw(parent.st_uid), Gid::from_raw(parent.st_gid));
        if let Err(error) = rustix::fs::fchown(file, Some(uid), Some(gid)) {
            tracing::debug!(%error, "could not set the owner of a file");
        }
    }
}

/// A file in `.reqlore/local`.
#[derive(Debug, Clone, Copy)]
pub struct PrivateFile<'a> {
    pub(crate) dir: &'a Dir,
    pub(crate) name: &'a str,
}

impl<'a> PrivateFile<'a> {
    pub fn new(local: &'a Dir, name: &'a str) -> Self {
        Self { dir: local, name }
    }

    pub(crate) fn display_path(&self) -> String {
        format!("{LOCAL_STATE_DIR}/{}", self.name)
    }

    /// Opens the file to read after `check`. The caller must still check its identity.
    pub fn open(&self) -> StoreResult<Option<(File, Metadata)>> {
        self.open_with(OFlags::RDONLY)
    }

    /// Like [`Self::open`], to append.
    pub fn open_to_append(&self) -> StoreResult<Option<(File, Metadata)>> {
        self.open_with(OFlags::WRONLY | OFlags::APPEND)
    }

    fn open_with(&self, access: OFlags) -> StoreResult<Option<(File, Metadata)>> {
        // A link could lead to another project's file. Opening a pipe must not block.
        let flags = access | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = match rustix::fs::openat(self.dir, self.name, flags, Mode::empty()) {
            Ok(fd) => File::from(fd),
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Err(self.refused(IS_LINK)),
            Err(error) => return Err(self.failed("open it", error)),
        };
        let metadata = file.metadata().map_err(|error| self.failed("inspect it", error))?;
        self.check(&metadata)?;
        Ok(Some((file, metadata)))
    }

    /// Rejects a file that another user may have written or can read.
    pub(crate) fn check(&self, metadata: &Metadata) -> StoreResult<()> {
        if metadata.is_symlink() {
            return Err(self.refused(IS_LINK));
        }
        if !metadata.is_file() {
            return Err(self.refused("is not a regular file; remove it"));
        }
        if !is_ours(metadata.uid(), self.dir) {
            return Err(owned_by_another_user(&self.display_path()));
        }
        if metadata.mode() & GROUP_AND_WORLD_BITS != 0 {
            let reason = format!(
                "is accessible to other users; check whether it was changed, then run \
                 `chmod 600 {}`",
                self.display_path()
            );
            return Err(self.refused(&reason));
        }
        if metadata.nlink() > 1 {
            return Err(self.refused("has more than one hard link; remove the other links"));
        }
        Ok(())
    }

    /// Creates the file and syncs it. `content` gets the new file's metadata.
    pub fn create(
        &self,
        content: impl FnOnce(&Metadata) -> io::Result<Vec<u8>>,
    ) -> StoreResult<Metadata> {
        self.write_new(content).map_err(|error| self.not_written("write it", error))
    }

    fn write_new(
        &self,
        content: impl FnOnce(&Metadata) -> io::Result<Vec<u8>>,
    ) -> io::Result<Metadata> {
        // `EXCL` neither follows a link nor reuses a file that another user created.
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::openat(self.dir, self.name, flags, FILE_MODE)?);
        // The umask may have removed rights of the owner.
        rustix::fs::fchmod(&file, FILE_MODE)?;
        give_to_owner(self.dir, &file);
        let metadata = file.metadata()?;
        file.write_all(&content(&metadata)?)?;
        file.sync_all()?;
        Ok(metadata)
    }

    /// Renames the file, replaces a file with the new name, and syncs the folder.
    pub fn rename(&self, name: &str) -> StoreResult<()> {
        // The sync makes the new name survive a power cut.
        let renamed = rustix::fs::renameat(self.dir, self.name, self.dir, name);
        let synced = renamed.map_err(io::Error::from).and_then(|()| as_file(self.dir)?.sync_all());
        let target = PrivateFile { dir: self.dir, name };
        synced.map_err(|error| target.not_written("put it in place", error))
    }

    /// Removes the file if it is there.
    pub fn remove(&self) -> StoreResult<()> {
        match rustix::fs::unlinkat(self.dir, self.name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(self.not_written("remove it", error)),
        }
    }

    pub fn failed(&self, doing: &str, error: impl Into<io::Error>) -> StoreError {
        failed(&self.display_path(), doing, error.into())
    }

    pub(crate) fn not_written(&self, doing: &str, error: impl Into<io::Error>) -> StoreError {
        not_written(&self.display_path(), doing, error.into())
    }

    pub(crate) fn refused(&self, reason: &str) -> StoreError {
        refused(&self.display_path(), reason)
    }

    /// The error of a file that contains another file's identity.
    pub(crate) fn foreign_identity(&self) -> StoreError {
        self.refused(
            "came with a clone or a copy and is rejected: anyone who can commit could add users \
             this way. Move it away and use `reqlore backup` and `reqlore restore`",
        )
    }
}

const IS_LINK: &str = "is a symbolic link; remove it. It was not followed";
