//! The folder before sled sees it: whether the database in it is ours, and whether it is whole.
//!
//! The trap: sled takes over whatever lies at the names that it uses, and overwrites what it can't
//! read. So a `db` is ours only when the count beside it says so, or the mark of a making that did
//! not end: it is durable before sled sees the folder, and goes when the count is durable. Sled
//! also follows symbolic links, and a cloned repository may hold some, so none may be there.

use std::fs::{DirBuilder, DirEntry};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use reqlore_domain::ports::documents::StoreResult;
use reqlore_durable_fs as durable_fs;

use crate::disk::{ACKNOWLEDGED, DB, count, options, sync_folder};
use crate::error::{RESTORE, failed, not_opened};

/// There while a database is being made.
pub(crate) const MARK: &str = "reqlore.unfinished";

/// Where sled puts what is too large for its file.
const BLOBS: &str = "blobs";
/// How the name of an unfinished snapshot ends.
const GENERATING: &str = ".generating";

/// What can be told without sled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    /// Something may have been acknowledged.
    pub(crate) was_complete: bool,
    /// It is being made; what is durable of it is not known.
    pub(crate) is_unfinished: bool,
}

/// Refuses what is not ours, and changes nothing before that is known.
pub(crate) fn prepare(folder: &Path) -> StoreResult<Found> {
    let names = names(folder)?;
    let found = look(folder, &names)?;
    if found.is_unfinished {
        let marked = mark(&folder.join(MARK)).and_then(|()| sync_folder(folder));
        let made = marked.and_then(|()| make(folder));
        made.map_err(|error| failed(folder, "write to it", error))?;
    }
    for name in names.iter().filter(|name| name.ends_with(GENERATING)) {
        set_aside(folder, name)?;
    }
    make_private(folder)?;
    Ok(found)
}

/// The same without changing anything.
pub(crate) fn inspect(folder: &Path) -> StoreResult<Found> {
    look(folder, &names(folder)?)
}

/// What sled would make with rights for all.
fn make(folder: &Path) -> io::Result<()> {
    options().write(true).create(true).truncate(false).open(folder.join(DB))?;
    match DirBuilder::new().mode(0o700).create(folder.join(BLOBS)) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Takes the rights to our files from all but their owner.
pub(crate) fn make_private(folder: &Path) -> StoreResult<()> {
    for name in names(folder)? {
        let is_snapshot = name.starts_with("snap.") || name.starts_with("left-behind.");
        if !is_snapshot && ![DB, "conf", ACKNOWLEDGED, BLOBS, MARK].contains(&name.as_str()) {
            continue;
        }
        let set = durable_fs::make_private(&folder.join(&name));
        match set.map_err(|error| (error.kind(), error)) {
            // Sled removes a snapshot when there is a newer one.
            Ok(()) | Err((io::ErrorKind::NotFound, _)) => {}
            Err((io::ErrorKind::PermissionDenied, error)) => {
                tracing::warn!(%error, name, "a file of the database is another user's");
            }
            Err((_, error)) => {
                return Err(failed(folder, &format!("set the rights of {name}"), error));
            }
        }
    }
    Ok(())
}

fn names(folder: &Path) -> StoreResult<Vec<String>> {
    let unseen = |error| failed(folder, "list the folder", error);
    let name = |entry: io::Result<DirEntry>| {
        let entry = entry.map_err(unseen)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type().map_err(unseen)?.is_symlink() {
            let reason = format!(
                "holds a symbolic link, {name}, which may lead anywhere; it was not followed. \
                 Remove it, or name another folder"
            );
            return Err(not_opened(folder, &reason));
        }
        Ok(name)
    };
    std::fs::read_dir(folder).map_err(unseen)?.map(name).collect()
}

fn look(folder: &Path, names: &[String]) -> StoreResult<Found> {
    let length = |file: &str| match std::fs::metadata(folder.join(file)) {
        Ok(file) => Ok(file.len()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(failed(folder, &format!("look at its file {file}"), error)),
    };
    // It is empty until the database is made.
    let was_complete = length(ACKNOWLEDGED)? > 0;
    let is_marked = names.iter().any(|name| name == MARK);
    if length(DB)? == 0 {
        if was_complete {
            let reason = format!("lacks its file db, or that is empty. {RESTORE}");
            return Err(not_opened(folder, &reason));
        }
        if !is_marked && names.iter().any(|name| name != DB) {
            return Err(not_opened(folder, "holds other files; name a folder of its own"));
        }
        return Ok(Found { was_complete, is_unfinished: true });
    }
    let unread = |error| failed(folder, &format!("read its file {ACKNOWLEDGED}"), error);
    if !is_marked && count(folder).map_err(unread)?.is_none() {
        let reason = format!(
            "holds a file db that is not known to be Reqlore's: the file {ACKNOWLEDGED} that goes \
             with it is missing or damaged. Nothing was touched; name another folder, or restore \
             a backup into a new one with `reqlore restore`"
        );
        return Err(not_opened(folder, &reason));
    }
    Ok(Found { was_complete, is_unfinished: is_marked })
}

/// One that is there may not be durable yet.
fn mark(path: &Path) -> io::Result<()> {
    options().write(true).create(true).truncate(false).open(path)?.sync_all()
}

/// The database is made, and its count is durable.
pub(crate) fn unmark(folder: &Path) -> StoreResult<()> {
    match std::fs::remove_file(folder.join(MARK)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(failed(folder, &format!("remove its file {MARK}"), error))
        }
        _ => Ok(()),
    }
}

/// A start that was killed leaves a snapshot that it was writing, and sled can't open the folder
/// with it. It counts for nothing before it is whole and has its own name, so it may be moved away;
/// its bytes are kept.
fn set_aside(folder: &Path, name: &str) -> StoreResult<()> {
    // Not by the same end, or the next start would find it again.
    let aside = format!("left-behind.{}", name.trim_end_matches(GENERATING));
    tracing::warn!("a start that was killed left {name} behind; it is kept as {aside}");
    let moved = std::fs::rename(folder.join(name), folder.join(aside));
    moved.map_err(|error| failed(folder, &format!("set {name} aside"), error))
}
