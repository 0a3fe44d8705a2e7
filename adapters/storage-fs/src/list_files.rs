//! Listing: which files there are of a kind, by `stat`, without opening them.

use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use cap_std::fs::{Dir, Metadata, MetadataExt};
use reqlore_domain::document::{DocumentId, DocumentKind, MAX_BYTES, folder_of};
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_local_state::{as_file, open_folder};
use rustix::fs::{Access, AtFlags, DirEntry, FileType, Stat};
use rustix::io::Errno;
use rustix::path::Arg;

use crate::error::failed;
use crate::failpoint::{FailPoint, hit_failpoint};
use crate::layout::{DocumentArea, ProjectRoot, RequirementsDir, is_not_there, section_id};
use crate::read_file::FileStamp;

/// The most documents of an area.
const MAX_DOCUMENTS: usize = 250_000;

/// A file as the listing shows it.
pub(crate) struct ListedFile {
    pub(crate) id: DocumentId,
    pub(crate) stamp: FileStamp,
}

/// A folder that is about to be listed.
pub(crate) struct ListedFolder<'a> {
    /// The kind of the documents in it; `None` for the backlog's top, which has none.
    pub(crate) kind: Option<DocumentKind>,
    /// The beginning of their names: empty, or folders with a slash after each.
    pub(crate) path: &'a str,
    /// It is the top of its area.
    pub(crate) is_top: bool,
}

/// Files and folders that could be documents and can't be copied: place, problem and remedy.
pub(crate) type CopyObstacles = Vec<String>;

/// Every `*.md` in the folders of an area's kinds, sorted. Hidden files and folders are left out,
/// links to folders are not followed. An archive gives `obstacles`: it leaves out nothing that may
/// be a document or hold one. `enter` sees each folder before it is listed.
pub(crate) fn list_documents(
    root: &ProjectRoot,
    area: DocumentArea,
    obstacles: Option<&mut CopyObstacles>,
    enter: &mut dyn FnMut(&OwnedFd, &ListedFolder<'_>),
) -> StoreResult<Vec<ListedFile>> {
    let walk = AreaWalk { area, pending: Vec::new(), listed: Vec::new(), obstacles };
    walk.run(root, enter)
}

struct AreaWalk<'a> {
    area: DocumentArea,
    /// The folders that are still to be listed. There may be more of them than handles, so a folder
    /// is opened when its turn comes.
    pending: Vec<PendingFolder>,
    listed: Vec<ListedFile>,
    obstacles: Option<&'a mut CopyObstacles>,
}

/// A folder by its parent; the top is its own.
struct PendingFolder {
    parent: Rc<OwnedFd>,
    kind: DocumentKind,
    /// The beginning of its documents' names.
    name_prefix: String,
    depth: usize,
}

impl PendingFolder {
    /// Its name in its parent; `None` for the top.
    fn name(&self) -> Option<&str> {
        let flat = Some(folder_of(self.kind)).filter(|folder| !folder.is_empty());
        last_component(&self.name_prefix).or(flat)
    }

    /// Its name in messages, with a slash at its end.
    fn display_path(&self, area: DocumentArea) -> String {
        match folder_of(self.kind) {
            "" => format!("{}/{}", area.top_folder(), self.name_prefix),
            folder => format!("{}/{folder}/{}", area.top_folder(), self.name_prefix),
        }
    }
}

impl AreaWalk<'_> {
    fn run(
        mut self,
        root: &ProjectRoot,
        enter: &mut dyn FnMut(&OwnedFd, &ListedFolder<'_>),
    ) -> StoreResult<Vec<ListedFile>> {
        let top = self.area.top_folder();
        let top = match root.dir.open_dir(top).and_then(|top| as_file(&top)) {
            Ok(top) => Rc::new(OwnedFd::from(top)),
            Err(error) if is_not_there(&error) => return Ok(self.listed),
            Err(error) => return Err(failed(top, "open it", error)),
        };
        if self.area == DocumentArea::Backlog {
            enter(&top, &ListedFolder { kind: None, path: "", is_top: true });
        }
        for kind in self.area.kinds() {
            let (parent, path) = (Rc::clone(&top), String::new());
            self.pending.push(PendingFolder { parent, kind: *kind, name_prefix: path, depth: 0 });
        }
        while let Some(pending) = self.pending.pop() {
            self.list_folder(&pending, enter)?;
        }
        self.listed.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        Ok(self.listed)
    }

    fn list_folder(
        &mut self,
        pending: &PendingFolder,
        enter: &mut dyn FnMut(&OwnedFd, &ListedFolder<'_>),
    ) -> StoreResult<()> {
        let shown = pending.display_path(self.area);
        let folder = match pending.name().map(|name| open_folder(&pending.parent, name)) {
            Some(Ok(folder)) => Rc::new(folder),
            Some(Err(error)) => return self.skip_unopened(&shown, error),
            None => Rc::clone(&pending.parent),
        };
        let PendingFolder { kind, name_prefix: path, depth, .. } = pending;
        enter(&folder, &ListedFolder { kind: Some(*kind), path, is_top: pending.name().is_none() });
        hit_failpoint(FailPoint::FolderOpened).map_err(|error| failed(&shown, "open it", error))?;
        let fail = |error: Errno| failed(&shown, "list it", error.into());
        let entries = match rustix::fs::Dir::read_from(&folder) {
            Err(error) if self.obstacles.is_some() => return self.skip_unopened(&shown, error),
            entries => entries.map_err(fail)?,
        };
        for entry in entries {
            self.list_entry(&folder, pending, *depth, &entry.map_err(fail)?);
            if self.listed.len() > MAX_DOCUMENTS {
                return Err(StoreError::Refused {
                    place: self.area.top_folder().to_owned(),
                    reason: format!("more than {MAX_DOCUMENTS} documents; split the repository"),
                });
            }
        }
        Ok(())
    }

    fn list_entry(
        &mut self,
        folder: &Rc<OwnedFd>,
        of: &PendingFolder,
        depth: usize,
        entry: &DirEntry,
    ) {
        let name = entry.file_name();
        if name.to_bytes().starts_with(b".") {
            return;
        }
        let PendingFolder { kind, name_prefix: path, .. } = of;
        let is_nested = self.area.max_depth() > 0;
        let file_type = entry.file_type();
        let is_folder = file_type == FileType::Directory
            || (file_type == FileType::Unknown && is_folder(folder, name));
        // There are no documents below a flat folder.
        if is_folder && !is_nested {
            return;
        }
        let Ok(file) = name.to_str() else {
            if is_folder || name.to_bytes().ends_with(b".md") {
                let shown = format!("{}{}", of.display_path(self.area), name.to_string_lossy());
                self.add_obstacle(&shown, NOT_UTF8);
            }
            return;
        };
        if is_folder {
            if depth < self.area.max_depth() {
                self.pending.push(PendingFolder {
                    parent: Rc::clone(folder),
                    kind: *kind,
                    name_prefix: format!("{path}{file}/"),
                    depth: depth + 1,
                });
            } else {
                let why = "lies deeper than folders are listed; move it up";
                self.add_obstacle(&format!("{}{file}/", of.display_path(self.area)), why);
            }
            return;
        }
        let Some(stem) = file.strip_suffix(".md") else { return };
        let id = DocumentId { kind: *kind, name: format!("{path}{stem}") };
        if let Some(obstacles) = &mut self.obstacles {
            let shown = id.to_string();
            if let Err(why) = id.check() {
                obstacles
                    .push(format_obstacle(&shown, &format!("can't be copied ({why}); rename it")));
            }
            check_copyable(folder, file, &shown, obstacles);
        }
        if let Some(stamp) = stat_file(folder, file) {
            self.listed.push(ListedFile { id, stamp });
        }
    }

    fn add_obstacle(&mut self, shown: &str, why: &str) {
        if let Some(obstacles) = &mut self.obstacles {
            obstacles.push(format_obstacle(shown, why));
        }
    }

    /// A folder that was just removed or replaced hides nothing, one that may not be entered hides
    /// what is in it until its rights change. Anything else (no handles left, a broken disk) says
    /// nothing about the documents, so there is no list.
    fn skip_unopened(&mut self, shown: &str, error: Errno) -> StoreResult<()> {
        match (error, &mut self.obstacles) {
            (Errno::NOENT | Errno::NOTDIR | Errno::LOOP, _) => Ok(()),
            (Errno::ACCESS | Errno::PERM, Some(obstacles)) => {
                let why = format!("can't be entered ({error}); give this user the right");
                obstacles.push(format_obstacle(shown, &why));
                Ok(())
            }
            (Errno::ACCESS | Errno::PERM, None) => {
                tracing::warn!("{shown} can't be entered: {error}; what is in it is not seen");
                Ok(())
            }
            _ => Err(failed(shown, "open it", error.into())),
        }
    }
}

const NOT_UTF8: &str = "has a name that is not UTF-8; rename it";

fn format_obstacle(shown: &str, why: &str) -> String {
    // A name can't forge a line of the message.
    if shown.contains(char::is_control) {
        return format!("{shown:?}: {why}");
    }
    format!("{shown}: {why}")
}

/// True if this file is there and can be read. An obstacle to reading it is added to the others.
pub(crate) fn check_copyable(
    folder: impl AsFd,
    file: impl Arg + Copy,
    shown: &str,
    obstacles: &mut CopyObstacles,
) -> bool {
    let stat = match rustix::fs::statat(&folder, file, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT | Errno::NOTDIR) => return false,
        Err(error) => {
            let why = format!("can't be looked at ({error}); give this user the right");
            obstacles.push(format_obstacle(shown, &why));
            return false;
        }
    };
    let may_read = || rustix::fs::accessat(&folder, file, Access::READ_OK, AtFlags::EACCESS);
    let why = match file_type(&stat) {
        FileType::Symlink => "is a symbolic link; put a regular file there or remove it".to_owned(),
        FileType::RegularFile if stat.st_size.unsigned_abs() > MAX_BYTES as u64 => {
            format!("is larger than {} MiB; split it into smaller files", MAX_BYTES >> 20)
        }
        FileType::RegularFile => match may_read() {
            Err(error @ (Errno::ACCESS | Errno::PERM)) => {
                format!("can't be read ({error}); give this user the right")
            }
            _ => return true,
        },
        _ => "is no regular file; put one there or remove it".to_owned(),
    };
    obstacles.push(format_obstacle(shown, &why));
    true
}

/// The last part of a folder's path; `None` for the top.
fn last_component(path: &str) -> Option<&str> {
    path.strip_suffix('/').map(|path| path.rsplit('/').next().unwrap_or(path))
}

/// A file by its stamp; `None` when it is not there (any more) or is a folder.
pub(crate) fn stat_file(folder: impl AsFd, file: &str) -> Option<FileStamp> {
    let stat = rustix::fs::statat(folder, file, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    (file_type(&stat) != FileType::Directory).then(|| FileStamp::from_stat(&stat))
}

fn file_type(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

fn is_folder(folder: impl AsFd, file: impl Arg) -> bool {
    let stat = rustix::fs::statat(folder, file, AtFlags::SYMLINK_NOFOLLOW);
    stat.is_ok_and(|stat| file_type(&stat) == FileType::Directory)
}

/// Every regular `*.md` directly in the directory, save AGENTS.md and the file it links to. An
/// archive gives `obstacles`: it leaves out no file that may be a section.
pub(crate) fn list_sections(
    requirements: &RequirementsDir<'_>,
    mut obstacles: Option<&mut CopyObstacles>,
) -> StoreResult<Vec<DocumentId>> {
    let Some(dir) = requirements.dir() else {
        return Ok(Vec::new());
    };
    let fail =
        |error| failed(&requirements.display_path(""), "list the requirements directory", error);
    let instructions = instructions_target_inode(dir);
    let mut ids = Vec::new();
    for entry in dir.entries().map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let name = entry.file_name();
        let bytes = name.as_encoded_bytes();
        if !bytes.ends_with(b".md") || bytes.starts_with(b".") || bytes == b"AGENTS.md" {
            continue;
        }
        // A file that vanishes meanwhile is simply not there.
        let found = entry.metadata().ok();
        let is_other = |found: &Metadata| found.is_dir() || instructions == Some(found.ino());
        if found.as_ref().is_some_and(is_other) {
            continue;
        }
        let id = name.to_str().and_then(section_id);
        let Some(obstacles) = &mut obstacles else {
            ids.extend(id.filter(|_| found.is_some_and(|found| found.is_file())));
            continue;
        };
        let shown = requirements.display_path(&name.to_string_lossy());
        match id {
            Some(id) if check_copyable(dir, &*name, &shown, obstacles) => ids.push(id),
            Some(_) => {}
            None if name.to_str().is_none() => obstacles.push(format_obstacle(&shown, NOT_UTF8)),
            None => {
                obstacles.push(format_obstacle(&shown, "has a name that no section has; rename it"))
            }
        }
    }
    Ok(ids)
}

/// Where AGENTS.md is a link, the inode of what it leads to.
fn instructions_target_inode(dir: &Dir) -> Option<u64> {
    let is_link = dir.symlink_metadata("AGENTS.md").ok()?.is_symlink();
    is_link.then(|| dir.metadata("AGENTS.md").ok()).flatten().map(|target| target.ino())
}
