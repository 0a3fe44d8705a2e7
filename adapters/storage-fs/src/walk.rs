//! Listing: which files there are of a kind, by `stat`, without opening them.

use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use cap_std::fs::{Dir, MetadataExt};
use reqlore_domain::document::DocumentId;
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use rustix::fs::{AtFlags, FileType, Stat};
use rustix::io::Errno;

use crate::error::failed;
use crate::failpoint::{Step, reached};
use crate::layout::{
    KNOWLEDGE, MAX_DEPTH, Requirements, Root, as_file, is_not_there, open_folder, section_of,
};
use crate::read::Stamp;

/// The most entities of a project.
const MAX_ENTITIES: usize = 250_000;

/// A file as the listing shows it.
pub(crate) struct Listed {
    /// The document's name.
    pub(crate) name: String,
    pub(crate) stamp: Stamp,
}

/// Every `*.md` below `.ixchel`, at any depth, sorted by name. Hidden files and folders are left
/// out, links to folders are not followed. `enter` sees each folder before it is listed.
pub(crate) fn entities(
    root: &Root,
    enter: &mut dyn FnMut(&OwnedFd, &str),
) -> StoreResult<Vec<Listed>> {
    let mut listed = Vec::new();
    let top = match root.dir.open_dir(KNOWLEDGE).and_then(|top| as_file(&top)) {
        Ok(top) => OwnedFd::from(top),
        Err(error) if is_not_there(&error) => return Ok(listed),
        Err(error) => return Err(failed(KNOWLEDGE, "open it", error)),
    };
    // A folder is opened when its turn comes: there may be more of them than handles.
    let mut folders = vec![(Rc::new(top), String::new(), 0)];
    while let Some((parent, path, depth)) = folders.pop() {
        let folder = match last(&path) {
            Some(name) => match open_folder(&parent, name) {
                Ok(folder) => Rc::new(folder),
                Err(error) => {
                    hidden(&path, error)?;
                    continue;
                }
            },
            None => parent,
        };
        enter(&folder, &path);
        let shown = format!("{KNOWLEDGE}/{path}");
        reached(Step::FolderOpened).map_err(|error| failed(&shown, "open it", error))?;
        let fail = |error: Errno| failed(&shown, "list it", error.into());
        let entries = rustix::fs::Dir::read_from(&folder).map_err(fail)?;
        for entry in entries {
            let entry = entry.map_err(fail)?;
            let Some(file) = visible(entry.file_name()) else { continue };
            let kind = entry.file_type();
            if kind == FileType::Directory
                || (kind == FileType::Unknown && is_folder(&folder, file))
            {
                if depth < MAX_DEPTH {
                    folders.push((Rc::clone(&folder), format!("{path}{file}/"), depth + 1));
                }
                continue;
            }
            let Some(stem) = file.strip_suffix(".md") else { continue };
            if let Some(stamp) = stamp(&folder, file) {
                listed.push(Listed { name: format!("{path}{stem}"), stamp });
            }
            if listed.len() > MAX_ENTITIES {
                return Err(StoreError::Refused {
                    place: KNOWLEDGE.to_owned(),
                    reason: format!("more than {MAX_ENTITIES} entities; split the repository"),
                });
            }
        }
    }
    listed.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(listed)
}

/// The last part of a folder's path; `None` for the top.
fn last(path: &str) -> Option<&str> {
    path.strip_suffix('/').map(|path| path.rsplit('/').next().unwrap_or(path))
}

/// A folder that was just removed or replaced hides nothing, one that may not be entered hides what
/// is in it until its rights change. Anything else (no handles left, a broken disk) says nothing
/// about the entities, so there is no list.
fn hidden(path: &str, error: Errno) -> StoreResult<()> {
    match error {
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP => Ok(()),
        Errno::ACCESS | Errno::PERM => {
            tracing::warn!(
                "{KNOWLEDGE}/{path} can't be entered: {error}; what is in it is not seen"
            );
            Ok(())
        }
        _ => Err(failed(&format!("{KNOWLEDGE}/{path}"), "open it", error.into())),
    }
}

/// A file by its stamp; `None` when it is not there (any more) or is a folder.
pub(crate) fn stamp(folder: impl AsFd, file: &str) -> Option<Stamp> {
    let stat = rustix::fs::statat(folder, file, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    (file_type(&stat) != FileType::Directory).then(|| Stamp::of_stat(&stat))
}

fn file_type(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

fn is_folder(folder: &OwnedFd, file: &str) -> bool {
    let stat = rustix::fs::statat(folder, file, AtFlags::SYMLINK_NOFOLLOW);
    stat.is_ok_and(|stat| file_type(&stat) == FileType::Directory)
}

fn visible(name: &CStr) -> Option<&str> {
    name.to_str().ok().filter(|name| !name.starts_with('.'))
}

/// Every regular `*.md` directly in the directory, save AGENTS.md and the file it links to.
pub(crate) fn sections(requirements: &Requirements<'_>) -> StoreResult<Vec<DocumentId>> {
    let Some(dir) = requirements.dir() else {
        return Ok(Vec::new());
    };
    let fail = |error| failed(&requirements.shown(""), "list the requirements directory", error);
    let instructions = inode_behind_instructions(dir);
    let mut ids = Vec::new();
    for entry in dir.entries().map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let name = entry.file_name();
        let Some(id) = name.to_str().and_then(section_of) else {
            continue;
        };
        // A file that vanishes meanwhile is simply not there.
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        if metadata.is_file() && instructions != Some(metadata.ino()) {
            ids.push(id);
        }
    }
    Ok(ids)
}

/// Where AGENTS.md is a link, the inode of what it leads to.
fn inode_behind_instructions(dir: &Dir) -> Option<u64> {
    let is_link = dir.symlink_metadata("AGENTS.md").ok()?.is_symlink();
    is_link.then(|| dir.metadata("AGENTS.md").ok()).flatten().map(|target| target.ino())
}
