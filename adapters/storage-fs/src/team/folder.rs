//! The folders that hold it: of this user alone, never behind a link, never another user's.

use std::fs::File;
use std::io;

use cap_std::fs::Dir;
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use rustix::fs::{Gid, Mode, Uid};
use rustix::io::Errno;

use crate::error::{failed, not_written, refused};
use crate::layout::{Root, as_file, open_folder};
use crate::local::{self, LOCAL};

const FOLDER: Mode = Mode::from_raw_mode(0o700);

/// `.reqlore/local`, to read from.
pub(super) fn local(root: &Root) -> StoreResult<Option<Dir>> {
    let local = local::find(root).map_err(|error| failed(LOCAL, "open it", error))?;
    local.map(|local| ours(root, local)).transpose()
}

/// The same to write to: of this user alone, whatever it was before.
pub(super) fn writable(root: &Root) -> StoreResult<Dir> {
    let local = ours(root, local::create(root)?)?;
    let closed = as_file(&local).and_then(|folder| close(&folder));
    closed.map_err(|error| not_written(LOCAL, "take it away from others", error))?;
    Ok(local)
}

/// Another user who may write to the project's folder could put one of their own there.
fn ours(root: &Root, local: Dir) -> StoreResult<Dir> {
    let found = rustix::fs::fstat(&local);
    let found = found.map_err(|error| failed(LOCAL, "look at it", error.into()))?;
    if is_ours(found.st_uid, &root.dir) {
        return Ok(local);
    }
    Err(refused(
        LOCAL,
        "belongs to another user and is not believed; run this as that user, or move it away",
    ))
}

/// Does it belong to this user, or to root? For root who administers another user's server,
/// `parent` tells whose that is.
pub(super) fn is_ours(owner: u32, parent: &Dir) -> bool {
    let me = rustix::process::geteuid();
    let of_parent = || rustix::fs::fstat(parent).is_ok_and(|parent| parent.st_uid == owner);
    owner == 0 || owner == me.as_raw() || (me.is_root() && of_parent())
}

/// A folder below `.reqlore/local`, to read from; a link to one is none.
pub(super) fn find(local: &Dir, name: &str) -> StoreResult<Option<Dir>> {
    match open_folder(local, name) {
        Ok(dir) => Ok(Some(Dir::from_std_file(dir.into()))),
        Err(Errno::NOENT) => Ok(None),
        Err(Errno::NOTDIR | Errno::LOOP) => Err(is_no_folder(name)),
        Err(error) => Err(failed(&shown(name), "open it", error.into())),
    }
}

/// The same to write to; it is created, for this user alone.
pub(super) fn create(local: &Dir, name: &str) -> StoreResult<Dir> {
    if let Some(dir) = find(local, name)? {
        return Ok(dir);
    }
    let fail = |error: io::Error| not_written(&shown(name), "create the folder", error);
    match rustix::fs::mkdirat(local, name, FOLDER) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(fail(error.into())),
    }
    let dir = find(local, name)?.ok_or_else(|| fail(Errno::NOENT.into()))?;
    let made = || -> io::Result<()> {
        let folder = as_file(&dir)?;
        close(&folder)?;
        give_to_owner(local, &folder);
        as_file(local)?.sync_all()
    };
    made().map_err(fail)?;
    Ok(dir)
}

/// Takes a folder of ours away from everybody else, whatever the umask was.
fn close(folder: &File) -> io::Result<()> {
    let found = rustix::fs::fstat(folder)?;
    if found.st_mode & 0o777 != FOLDER.as_raw_mode() {
        rustix::fs::fchmod(folder, FOLDER)?;
    }
    Ok(())
}

fn shown(name: &str) -> String {
    format!("{LOCAL}/{name}")
}

fn is_no_folder(name: &str) -> StoreError {
    refused(&shown(name), "is a symbolic link or a file where a folder must be; remove it")
}

/// Root who administers another user's server leaves nothing that the server can't read.
pub(super) fn give_to_owner(of: &Dir, file: &File) {
    let Ok(owner) = rustix::fs::fstat(of) else { return };
    if rustix::process::geteuid().is_root() && owner.st_uid != 0 {
        let (uid, gid) = (Uid::from_raw(owner.st_uid), Gid::from_raw(owner.st_gid));
        if let Err(error) = rustix::fs::fchown(file, Some(uid), Some(gid)) {
            tracing::debug!(%error, "the owner could not be set");
        }
    }
}
