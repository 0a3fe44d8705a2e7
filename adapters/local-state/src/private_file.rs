//! Files and folders of this user alone: never behind a link, never readable by others.
//!
//! These files decide what users and tokens may do. A file that is not trusted is refused and not
//! ignored: otherwise the next write would replace all users by an empty list.

use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;

use cap_std::fs::Dir;
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

use crate::error::{failed, not_written, refused};
use crate::{LOCAL, as_file, open_folder};

const FILE_MODE: Mode = Mode::from_raw_mode(0o600);
const FOLDER_MODE: Mode = Mode::from_raw_mode(0o700);
const OTHERS: u32 = 0o077;

/// Opens `.reqlore/local` to read.
pub(crate) fn local_folder(root: &Dir) -> StoreResult<Option<Dir>> {
    let local = crate::find(root).map_err(|error| failed(LOCAL, "open it", error))?;
    local.map(|local| check_folder(root, local)).transpose()
}

/// Creates it where it is missing, and takes it away from other users.
pub(crate) fn writable_local_folder(root: &Dir) -> StoreResult<Dir> {
    let local = check_folder(root, crate::create(root)?)?;
    let closed = as_file(&local).and_then(|folder| make_private(&folder));
    closed.map_err(|error| not_written(LOCAL, "take it away from others", error))?;
    Ok(local)
}

/// Another user with write access to the project could have put the folder there.
fn check_folder(root: &Dir, local: Dir) -> StoreResult<Dir> {
    let found = rustix::fs::fstat(&local);
    let found = found.map_err(|error| failed(LOCAL, "inspect it", error.into()))?;
    if is_ours(found.st_uid, root) { Ok(local) } else { Err(other_users(LOCAL)) }
}

fn other_users(place: &str) -> StoreError {
    let reason = "belongs to another user and is not trusted; run this as that user, or move it \
                  away";
    refused(place, reason)
}

/// True if the owner is this user or root. Root may administer another user's server, whose
/// owner is that of `parent`.
fn is_ours(owner: u32, parent: &Dir) -> bool {
    let me = rustix::process::geteuid();
    let of_parent = || rustix::fs::fstat(parent).is_ok_and(|parent| parent.st_uid == owner);
    owner == 0 || owner == me.as_raw() || (me.is_root() && of_parent())
}

/// Opens a folder in `.reqlore/local`. A link is not a folder.
pub(crate) fn find_folder(local: &Dir, name: &str) -> StoreResult<Option<Dir>> {
    let shown = format!("{LOCAL}/{name}");
    match open_folder(local, name) {
        Ok(dir) => Ok(Some(Dir::from_std_file(dir.into()))),
        Err(Errno::NOENT) => Ok(None),
        Err(Errno::NOTDIR | Errno::LOOP) => {
            Err(refused(&shown, "is a symbolic link or a file where a folder must be; remove it"))
        }
        Err(error) => Err(failed(&shown, "open it", error.into())),
    }
}

pub(crate) fn create_folder(local: &Dir, name: &str) -> StoreResult<Dir> {
    if let Some(dir) = find_folder(local, name)? {
        return Ok(dir);
    }
    let shown = format!("{LOCAL}/{name}");
    let fail = |error: io::Error| not_written(&shown, "create the folder", error);
    crate::create_folder(local, name, 0o700).map_err(fail)?;
    let dir = find_folder(local, name)?.ok_or_else(|| fail(Errno::NOENT.into()))?;
    let folder = as_file(&dir).map_err(fail)?;
    make_private(&folder).map_err(fail)?;
    give_to_owner(local, &folder);
    Ok(dir)
}

/// Removes the rights of other users, under any umask.
fn make_private(folder: &File) -> io::Result<()> {
    let found = rustix::fs::fstat(folder)?;
    if found.st_mode & 0o777 != FOLDER_MODE.as_raw_mode() {
        rustix::fs::fchmod(folder, FOLDER_MODE)?;
    }
    Ok(())
}

/// Root leaves nothing in another user's project that the user's server can't read.
fn give_to_owner(of: &Dir, file: &File) {
    let Ok(owner) = rustix::fs::fstat(of) else { return };
    if rustix::process::geteuid().is_root() && owner.st_uid != 0 {
        let (uid, gid) = (Uid::from_raw(owner.st_uid), Gid::from_raw(owner.st_gid));
        if let Err(error) = rustix::fs::fchown(file, Some(uid), Some(gid)) {
            tracing::debug!(%error, "the owner could not be set");
        }
    }
}

/// A file by its folder's handle.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PrivateFile<'a> {
    pub(crate) dir: &'a Dir,
    /// The folder below `.reqlore/local` with a slash after it; empty for that one itself.
    pub(crate) folder: &'a str,
    pub(crate) name: &'a str,
}

impl<'a> PrivateFile<'a> {
    pub(crate) fn new(local: &'a Dir, name: &'a str) -> Self {
        Self { dir: local, folder: "", name }
    }

    pub(crate) fn shown(&self) -> String {
        format!("{LOCAL}/{}{}", self.folder, self.name)
    }

    /// Opens the file to read; its content is not trusted yet.
    pub(crate) fn open(&self) -> StoreResult<Option<(File, Metadata)>> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = match rustix::fs::openat(self.dir, self.name, flags, Mode::empty()) {
            Ok(fd) => File::from(fd),
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Err(self.refused(IS_LINK)),
            Err(error) => return Err(self.fail("open it", error)),
        };
        let metadata = file.metadata().map_err(|error| self.fail("inspect it", error))?;
        self.check(&metadata)?;
        Ok(Some((file, metadata)))
    }

    /// Rejects a file that another user could have written, or can read.
    pub(crate) fn check(&self, found: &Metadata) -> StoreResult<()> {
        if found.is_symlink() {
            return Err(self.refused(IS_LINK));
        }
        if !found.is_file() {
            return Err(self.refused("is not a regular file; remove it"));
        }
        if !is_ours(found.uid(), self.dir) {
            return Err(other_users(&self.shown()));
        }
        if found.mode() & OTHERS != 0 {
            let reason = format!(
                "can be read or written by other users; check whether it was changed, then run \
                 `chmod 600 {}`",
                self.shown()
            );
            return Err(self.refused(&reason));
        }
        if found.nlink() > 1 {
            return Err(self.refused("has more than one hard link; remove the others"));
        }
        Ok(())
    }

    /// Creates the file and syncs it. `content` gets the new file's metadata.
    pub(crate) fn create(
        &self,
        content: impl FnOnce(&Metadata) -> io::Result<Vec<u8>>,
    ) -> StoreResult<Metadata> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let write = || -> io::Result<Metadata> {
            let fd = rustix::fs::openat(self.dir, self.name, flags, FILE_MODE)?;
            let mut file = File::from(fd);
            rustix::fs::fchmod(&file, FILE_MODE)?;
            give_to_owner(self.dir, &file);
            let metadata = file.metadata()?;
            file.write_all(&content(&metadata)?)?;
            file.sync_all()?;
            Ok(metadata)
        };
        write().map_err(|error| self.not_written("write it", error))
    }

    /// Renames the file, over a file of that name, and syncs the folder.
    pub(crate) fn rename(&self, name: &str) -> StoreResult<()> {
        let renamed = rustix::fs::renameat(self.dir, self.name, self.dir, name);
        let synced = renamed.map_err(io::Error::from).and_then(|()| as_file(self.dir)?.sync_all());
        let to = PrivateFile { dir: self.dir, folder: self.folder, name };
        synced.map_err(|error| to.not_written("put it in place", error))
    }

    /// Removes the file if it is there.
    pub(crate) fn remove(&self) -> StoreResult<()> {
        match rustix::fs::unlinkat(self.dir, self.name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(self.not_written("remove it", error)),
        }
    }

    pub(crate) fn fail(&self, doing: &str, error: impl Into<io::Error>) -> StoreError {
        failed(&self.shown(), doing, error.into())
    }

    pub(crate) fn not_written(&self, doing: &str, error: impl Into<io::Error>) -> StoreError {
        not_written(&self.shown(), doing, error.into())
    }

    pub(crate) fn refused(&self, reason: &str) -> StoreError {
        refused(&self.shown(), reason)
    }

    /// The error for a file that names another inode than its own.
    pub(crate) fn is_foreign(&self) -> StoreError {
        self.refused(
            "came with a clone or a copy and is not trusted: a repository could add users this \
             way. Move it away; `reqlore backup` and `reqlore restore` take users and the audit \
             to another place",
        )
    }
}

const IS_LINK: &str = "is a symbolic link; it was not followed. Remove it";
