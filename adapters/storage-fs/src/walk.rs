//! Listing: which files there are of a kind, by `stat`, without opening them.

use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};

use cap_std::fs::{Dir, MetadataExt};
use reqlore_domain::document::DocumentId;
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};

use crate::error::failed;
use crate::layout::{KNOWLEDGE, Requirements, Root, as_file, is_not_there, section_of};
use crate::read::Stamp;

/// The most entities of a project, and how deep their folders may be nested.
const MAX_ENTITIES: usize = 250_000;
const MAX_DEPTH: usize = 32;

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
    let mut folders = vec![(top, String::new(), 0)];
    while let Some((folder, path, depth)) = folders.pop() {
        enter(&folder, &path);
        let shown = format!("{KNOWLEDGE}/{path}");
        let fail = |error: rustix::io::Errno| failed(&shown, "list it", error.into());
        let entries = rustix::fs::Dir::read_from(&folder).map_err(fail)?;
        for entry in entries {
            let entry = entry.map_err(fail)?;
            let Some(file) = visible(entry.file_name()) else { continue };
            let kind = entry.file_type();
            if kind == FileType::Directory
                || (kind == FileType::Unknown && is_folder(&folder, file))
            {
                // A folder that can't be entered, or is none any more, hides what is in it.
                if depth < MAX_DEPTH
                    && let Ok(inner) = open(&folder, file, OFlags::NOFOLLOW)
                {
                    folders.push((inner, format!("{path}{file}/"), depth + 1));
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

fn open(folder: impl AsFd, name: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | flags;
    rustix::fs::openat(folder, name, flags, Mode::empty())
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
