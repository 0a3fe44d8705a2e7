//! `.reqlore/local`: what belongs to this machine alone.
//!
//! Git ignores the folder, and yet a repository may bring one along, or a link in its place. The
//! traps: a link, even to a folder inside, would make a user's own files look like ours, so none is
//! followed; and a checksum can be computed by anybody, so a file that is believed names itself.

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use cap_std::fs::{Dir, DirBuilder, DirBuilderExt, Metadata, MetadataExt};
use reqlore_domain::ports::documents::StoreResult;
use rustix::io::Errno;

use crate::error::{not_written, refused};
use crate::layout::{Root, as_file, open_folder};

/// The folder, as messages call it.
pub(crate) const LOCAL: &str = ".reqlore/local";
/// Its parts, as messages call them, with their names and modes.
const PARTS: [(&str, &str, u32); 2] = [(".reqlore", ".reqlore", 0o777), (LOCAL, "local", 0o700)];
const IGNORE: &str = ".gitignore";

/// The folder, to read from; a link to one is none.
pub(crate) fn find(root: &Root) -> io::Result<Option<Dir>> {
    let mut dir = root.dir.try_clone()?;
    for (_, part, _) in PARTS {
        dir = match open_folder(&dir, part) {
            Ok(inner) => Dir::from_std_file(inner.into()),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
    }
    Ok(Some(dir))
}

/// The folder, to write to; it is created, and hidden from git.
pub(crate) fn create(root: &Root) -> StoreResult<Dir> {
    let fail = |error| not_written(LOCAL, "create the folder", error);
    let mut dir = root.dir.try_clone().map_err(fail)?;
    for (shown, part, mode) in PARTS {
        create_private(&dir, part, mode).map_err(fail)?;
        dir = match open_folder(&dir, part) {
            Ok(inner) => Dir::from_std_file(inner.into()),
            Err(Errno::NOTDIR | Errno::LOOP) => {
                return Err(refused(
                    shown,
                    "is a symbolic link or a file where a folder must be; remove it and try \
                     again. Nothing was written",
                ));
            }
            Err(error) => return Err(fail(error.into())),
        };
    }
    // A full disk may have left an empty one.
    if dir.symlink_metadata(IGNORE).map_or(0, |found| found.len()) == 0 {
        dir.write(IGNORE, "*\n").map_err(fail)?;
    }
    Ok(dir)
}

fn create_private(dir: &Dir, part: &str, mode: u32) -> io::Result<()> {
    let mut private = DirBuilder::new();
    private.mode(mode);
    match dir.create_dir_with(part, &private) {
        Ok(()) => as_file(dir)?.sync_all(),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// The length of an [`identity`].
pub(crate) const IDENTITY: usize = 49;

/// A file as no clone and no copy of it is: by its inode and the time it was made, which nobody can
/// set. Where the file system keeps no such time it is the device, which a restart may number anew.
pub(crate) fn identity(file: &Metadata) -> String {
    let made = file.created().ok().map(cap_std::time::SystemTime::into_std);
    let made = made.and_then(|made| made.duration_since(SystemTime::UNIX_EPOCH).ok());
    let which = made.map_or_else(|| file.dev().into(), |made| made.as_nanos());
    format!("{:016x}-{which:032x}", file.ino())
}

/// Creates `.reqlore/local` below a project's root, for what belongs to this machine alone, and
/// hides it from git.
pub fn create_local(root: &Path) -> StoreResult<PathBuf> {
    create(&Root::open(root)?)?;
    Ok(root.join(LOCAL))
}
