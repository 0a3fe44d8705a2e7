//! Lists document files by `stat`, without opening them.

use std::ffi::OsStr;
use std::io;
use std::rc::Rc;

use cap_std::fs::Dir;
use reqlore_domain::document::{
    DocumentId, DocumentKind, MAX_DOCUMENT_BYTES, TEMPLATE_FOLDER, backlog_folder_of,
};
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_domain::ports::record_list::UnreadFile;
use reqlore_durable_fs::folder::{inode, open_folder, open_to_list};
use reqlore_local_state::error::failed;

use crate::failpoint::{FailPoint, hit_failpoint};
use crate::file_stamp::FileStamp;
use crate::layout::{
    DocumentArea, MAX_AREA_DEPTH, ProjectRoot, RequirementsDir, is_not_there, section_id,
};
use crate::system::{Entry, EntryKind, check_entry_readable, entries, stat_entry, target_inode};
use crate::two_threads::on_two_threads;
use crate::unread_files::UnreadFiles;

/// The number of documents that an area may have.
const MAX_DOCUMENTS: usize = 250_000;

pub(crate) struct ListedFile {
    pub(crate) id: DocumentId,
    pub(crate) stamp: FileStamp,
}

/// A folder that is about to be listed.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only inotify needs it"))]
pub(crate) struct ListedFolder<'a> {
    /// The kind of its documents; `None` for the backlog's top folder, which has none.
    pub(crate) kind: Option<DocumentKind>,
    /// The prefix of its documents' names: empty, or folders with a slash after each.
    pub(crate) name_prefix: &'a str,
    /// True for the top folder of its area.
    pub(crate) is_top: bool,
}

/// Files and folders that may be documents but can't be copied: path, problem and remedy.
pub(crate) type CopyObstacles = Vec<String>;

/// Lists each `*.md` in the folders of an area's kinds, sorted. Skips hidden files and folders, and
/// follows no links to folders. Calls `enter` for each folder before it is listed. With `obstacles`
/// everything that may be or hold a document is either listed or reported.
pub(crate) fn list_documents(
    root: &ProjectRoot,
    area: DocumentArea,
    obstacles: Option<&mut CopyObstacles>,
    enter: &mut dyn FnMut(&Dir, &ListedFolder<'_>),
) -> StoreResult<AreaListing> {
    let (listed, unread) = (Vec::new(), UnreadFiles::default());
    let walk = AreaWalk { area, pending: Vec::new(), listed, files: Vec::new(), unread, obstacles };
    walk.run(root, enter)
}

/// The files of an area.
pub(crate) struct AreaListing {
    pub(crate) documents: Vec<ListedFile>,
    pub(crate) unread: Vec<(DocumentKind, UnreadFile)>,
}

struct AreaWalk<'a> {
    area: DocumentArea,
    /// Folders to list. A process may have fewer handles than there are folders, so each is opened
    /// when it is listed.
    pending: Vec<PendingFolder>,
    listed: Vec<ListedFile>,
    /// Files of the current folder that may be documents, with the stamps that the listing has.
    files: Vec<(String, Option<Box<FileStamp>>)>,
    unread: UnreadFiles,
    obstacles: Option<&'a mut CopyObstacles>,
}

/// A folder by its parent's handle. The parent of the top folder is the top folder itself.
struct PendingFolder {
    parent: Rc<Dir>,
    kind: DocumentKind,
    name_prefix: String,
    depth: usize,
}

impl PendingFolder {
    /// The folder's name in its parent; `None` for the top folder.
    fn name(&self) -> Option<&str> {
        if let Some(name) = last_component(&self.name_prefix) {
            return Some(name);
        }
        let kind_folder = backlog_folder_of(self.kind);
        if kind_folder.is_empty() { None } else { Some(kind_folder) }
    }

    /// The folder's path in messages, with a slash at its end.
    fn display_path(&self, area: DocumentArea) -> String {
        match backlog_folder_of(self.kind) {
            "" => format!("{}/{}", area.top_folder(), self.name_prefix),
            folder => format!("{}/{folder}/{}", area.top_folder(), self.name_prefix),
        }
    }
}

impl AreaWalk<'_> {
    fn run(
        mut self,
        root: &ProjectRoot,
        enter: &mut dyn FnMut(&Dir, &ListedFolder<'_>),
    ) -> StoreResult<AreaListing> {
        let top_path = self.area.top_folder();
        let top = match root.dir.open_dir(top_path).and_then(|top| open_to_list(&top)) {
            Ok(top) => Rc::new(top),
            Err(error) if is_not_there(&error) => return Ok(self.finish()),
            Err(error) => return Err(failed(top_path, "open it", error)),
        };
        if self.area == DocumentArea::Backlog {
            // The folders of the kinds may be created and removed in it.
            enter(&top, &ListedFolder { kind: None, name_prefix: "", is_top: true });
            self.unread.add_misplaced(&top);
        }
        for kind in self.area.kinds() {
            self.pending.push(PendingFolder {
                parent: Rc::clone(&top),
                kind: *kind,
                name_prefix: String::new(),
                depth: 0,
            });
        }
        while let Some(folder) = self.pending.pop() {
            self.list_folder(&folder, enter)?;
        }
        Ok(self.finish())
    }

    fn finish(mut self) -> AreaListing {
        // The order of a directory is arbitrary.
        self.listed.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        let mut unread = self.unread.0;
        unread.sort_by(|(_, a), (_, b)| a.path.cmp(&b.path));
        AreaListing { documents: self.listed, unread }
    }

    fn list_folder(
        &mut self,
        folder: &PendingFolder,
        enter: &mut dyn FnMut(&Dir, &ListedFolder<'_>),
    ) -> StoreResult<()> {
        let display_path = folder.display_path(self.area);
        let name = folder.name();
        let handle = match name.map(|name| open_folder(&folder.parent, name)) {
            Some(Ok(handle)) => Rc::new(handle),
            Some(Err(error)) => return self.skip_unopened(folder.kind, &display_path, error),
            None => Rc::clone(&folder.parent),
        };
        enter(
            &handle,
            &ListedFolder {
                kind: Some(folder.kind),
                name_prefix: &folder.name_prefix,
                is_top: name.is_none(),
            },
        );
        hit_failpoint(FailPoint::FolderOpened)
            .map_err(|error| failed(&display_path, "open it", error))?;
        let entries = match entries(&handle) {
            Ok(entries) => entries,
            Err(error) if self.obstacles.is_some() => {
                return self.skip_unopened(folder.kind, &display_path, error);
            }
            Err(error) => return Err(not_listed(&display_path, error)),
        };
        for entry in entries {
            let entry = entry.map_err(|error| not_listed(&display_path, error))?;
            self.list_entry(&handle, folder, entry);
            // Protects against a wrong root, such as a folder of many repositories.
            if self.listed.len() + self.files.len() > MAX_DOCUMENTS {
                return Err(StoreError::Refused {
                    subject: self.area.top_folder().to_owned(),
                    reason: format!("more than {MAX_DOCUMENTS} documents; split the repository"),
                });
            }
        }
        let (handle, kind, prefix) = (&*handle, folder.kind, &folder.name_prefix);
        self.listed.extend(on_two_threads(&std::mem::take(&mut self.files), |files| {
            stat_documents(handle, kind, prefix, files)
        }));
        Ok(())
    }

    fn list_entry(&mut self, handle: &Rc<Dir>, folder: &PendingFolder, entry: Entry) {
        let Entry { name, kind, stamp } = entry;
        if name.as_encoded_bytes().starts_with(b".") {
            return;
        }
        let file = match name.into_string() {
            Ok(file) => file,
            Err(name) => {
                if kind == EntryKind::Folder || name.as_encoded_bytes().ends_with(b".md") {
                    let shown = name.to_string_lossy();
                    let path = format!("{}{shown}", folder.display_path(self.area));
                    self.report(folder.kind, &path, NOT_UTF8);
                }
                return;
            }
        };
        if kind == EntryKind::Folder {
            self.add_subfolder(handle, folder, &file);
            return;
        }
        let Some(stem) = file.strip_suffix(".md") else {
            let path = folder.display_path(self.area);
            return self.unread.add_other_file(folder.kind, &path, &file, kind);
        };
        if let Some(obstacles) = &mut self.obstacles {
            let name = format!("{}{stem}", folder.name_prefix);
            let id = DocumentId { kind: folder.kind, name };
            let path = id.to_string();
            if let Err(reason) = id.check() {
                let reason = format!("can't be copied ({reason}); rename it");
                obstacles.push(format_obstacle(&path, &reason));
            }
            check_copyable(handle, file.as_ref(), &path, obstacles);
        }
        self.files.push((file, stamp));
    }

    fn add_subfolder(&mut self, handle: &Rc<Dir>, folder: &PendingFolder, name: &str) {
        if name.strip_suffix(".md").is_some() {
            let path = format!("{}{name}", folder.display_path(self.area));
            self.unread.add(folder.kind, &path, "is a folder; put a file there or rename it");
        }
        if folder.depth >= MAX_AREA_DEPTH {
            let path = format!("{}{name}/", folder.display_path(self.area));
            self.report(folder.kind, &path, "is nested too deeply to be listed; move it up");
            return;
        }
        // By the handle of its parent: the path may be replaced by a link in between.
        self.pending.push(PendingFolder {
            parent: Rc::clone(handle),
            kind: folder.kind,
            name_prefix: format!("{}{name}/", folder.name_prefix),
            depth: folder.depth + 1,
        });
    }

    fn report(&mut self, kind: DocumentKind, path: &str, reason: &str) {
        self.unread.add(kind, path, reason);
        if let Some(obstacles) = &mut self.obstacles {
            obstacles.push(format_obstacle(path, reason));
        }
    }

    /// Skips a folder that can't be opened, unless the error makes the listing meaningless. A
    /// folder that was just removed or replaced hides nothing. One without permission hides its
    /// content until the permission changes. After any other error (no handles left, a broken disk)
    /// it is unknown which documents exist.
    fn skip_unopened(
        &mut self,
        kind: DocumentKind,
        path: &str,
        error: io::Error,
    ) -> StoreResult<()> {
        match error.kind() {
            io::ErrorKind::NotFound => {}
            io::ErrorKind::NotADirectory => {
                self.unread.add(kind, path, "is a link or a file; replace it by a folder");
            }
            io::ErrorKind::PermissionDenied => {
                if self.obstacles.is_none() {
                    tracing::warn!("{path} can't be opened: {error}; its documents are not listed");
                }
                let reason = format!("can't be opened ({error}); give this user the right");
                self.report(kind, path, &reason);
            }
            _ => return Err(failed(path, "open it", error)),
        }
        Ok(())
    }
}

fn stat_documents(
    folder: &Dir,
    kind: DocumentKind,
    name_prefix: &str,
    files: &[(String, Option<Box<FileStamp>>)],
) -> Vec<ListedFile> {
    let mut listed = Vec::with_capacity(files.len());
    for (file, stamp) in files {
        // `None` if the file was removed since, or is a folder.
        if let Some(stamp) = stamp.as_deref().copied().or_else(|| stat_file(folder, file)) {
            let name = format!("{name_prefix}{}", file.strip_suffix(".md").unwrap_or(file));
            listed.push(ListedFile { id: DocumentId { kind, name }, stamp });
        }
    }
    listed
}

fn not_listed(path: &str, error: io::Error) -> StoreError {
    failed(path, "list it", error)
}

const NOT_UTF8: &str = "has a name that is not UTF-8; rename it";

fn format_obstacle(path: &str, reason: &str) -> String {
    // A line break in a name must not forge a line of the message.
    if path.contains(char::is_control) {
        return format!("{path:?}: {reason}");
    }
    format!("{path}: {reason}")
}

/// Returns true if the file exists and may be a document. If it can't be copied, adds an obstacle.
pub(crate) fn check_copyable(
    folder: &Dir,
    file: &OsStr,
    path: &str,
    obstacles: &mut CopyObstacles,
) -> bool {
    let (kind, stamp) = match stat_entry(folder, file) {
        Ok(found) => found,
        Err(error) if is_not_there(&error) => return false,
        Err(error) => {
            let reason = format!("can't be inspected ({error}); give this user the right");
            obstacles.push(format_obstacle(path, &reason));
            return false;
        }
    };
    let reason = match kind {
        EntryKind::Link => "is a symbolic link; put a regular file there or remove it".to_owned(),
        EntryKind::File if stamp.size > MAX_DOCUMENT_BYTES as u64 => {
            format!("is larger than {} MiB; split it into smaller files", MAX_DOCUMENT_BYTES >> 20)
        }
        EntryKind::File => match check_entry_readable(folder, file) {
            Err(error) => format!("can't be read ({error}); give this user the right"),
            Ok(()) => return true,
        },
        _ => "is not a regular file; put one there or remove it".to_owned(),
    };
    obstacles.push(format_obstacle(path, &reason));
    true
}

/// The last component of a name prefix; `None` if it is empty.
fn last_component(prefix: &str) -> Option<&str> {
    let path = prefix.strip_suffix('/')?;
    Some(path.rsplit('/').next().unwrap_or(path))
}

/// Returns a file's stamp; `None` if it is missing or a folder. A link is not followed.
pub(crate) fn stat_file(folder: &Dir, file: &str) -> Option<FileStamp> {
    let (kind, stamp) = stat_entry(folder, file).ok()?;
    (kind != EntryKind::Folder).then_some(stamp)
}

/// Lists each regular `*.md` directly in the directory, except AGENTS.md and the file that it links
/// to.
pub(crate) fn list_sections(requirements: &RequirementsDir<'_>) -> StoreResult<Vec<ListedFile>> {
    let Some(dir) = requirements.dir() else { return Ok(Vec::new()) };
    let instructions = instructions_target_inode(dir);
    let mut listed = Vec::new();
    for entry in entries(dir).map_err(|error| sections_not_listed(requirements, error))? {
        let entry = entry.map_err(|error| sections_not_listed(requirements, error))?;
        let (name, kind) = (entry.name, entry.kind);
        if !may_be_section(name.as_encoded_bytes())
            || kind != EntryKind::File
            || is_target(dir, &name, instructions)
        {
            continue;
        }
        let Some(id) = name.to_str().and_then(section_id) else { continue };
        // `None` if the file was removed since.
        let stamp = entry
            .stamp
            .map(|stamp| *stamp)
            .or_else(|| name.to_str().and_then(|name| stat_file(dir, name)));
        listed.extend(stamp.map(|stamp| ListedFile { id, stamp }));
    }
    Ok(listed)
}

/// Lists the names of files that may be templates, sorted.
pub(crate) fn template_ids(root: &ProjectRoot) -> StoreResult<Vec<DocumentId>> {
    let cannot_list = |error| failed(TEMPLATE_FOLDER, "list it", error);
    let dir = match root.dir.open_dir(TEMPLATE_FOLDER) {
        Err(error) if is_not_there(&error) => return Ok(Vec::new()),
        dir => dir.map_err(cannot_list)?,
    };
    let mut ids = Vec::new();
    for entry in dir.entries().map_err(cannot_list)? {
        let name = entry.map_err(cannot_list)?.file_name();
        let id = name.to_str().and_then(|name| name.strip_suffix(".md")).map(DocumentId::template);
        ids.extend(id.filter(|id| id.check().is_ok()));
    }
    ids.sort_unstable();
    Ok(ids)
}

/// Like [`list_sections`], for a copy: everything that may be a section is either listed or added
/// to the obstacles.
pub(crate) fn list_copied_sections(
    requirements: &RequirementsDir<'_>,
    obstacles: &mut CopyObstacles,
) -> StoreResult<Vec<DocumentId>> {
    let Some(dir) = requirements.dir() else { return Ok(Vec::new()) };
    let instructions = instructions_target_inode(dir);
    let mut ids = Vec::new();
    for entry in entries(dir).map_err(|error| sections_not_listed(requirements, error))? {
        let entry = entry.map_err(|error| sections_not_listed(requirements, error))?;
        let name = entry.name;
        if !may_be_section(name.as_encoded_bytes())
            || entry.kind == EntryKind::Folder
            || is_target(dir, &name, instructions)
        {
            continue;
        }
        let path = requirements.display_path(&name.to_string_lossy());
        match name.to_str().and_then(section_id) {
            Some(id) => {
                if check_copyable(dir, &name, &path, obstacles) {
                    ids.push(id);
                }
            }
            None if name.to_str().is_none() => obstacles.push(format_obstacle(&path, NOT_UTF8)),
            None => {
                let reason = "has a name that a section can't have; rename it";
                obstacles.push(format_obstacle(&path, reason));
            }
        }
    }
    Ok(ids)
}

fn may_be_section(name: &[u8]) -> bool {
    name.ends_with(b".md") && !name.starts_with(b".") && name != b"AGENTS.md"
}

fn sections_not_listed(requirements: &RequirementsDir<'_>, error: io::Error) -> StoreError {
    failed(&requirements.display_path(""), "list the requirements directory", error)
}

/// The inode that AGENTS.md links to; `None` if it is not a link.
fn instructions_target_inode(dir: &Dir) -> Option<u64> {
    if !dir.symlink_metadata("AGENTS.md").ok()?.is_symlink() {
        return None;
    }
    target_inode(dir, "AGENTS.md")
}

/// True if the file is the one with the inode that AGENTS.md links to.
fn is_target(dir: &Dir, name: &OsStr, instructions: Option<u64>) -> bool {
    instructions.is_some() && inode(dir, name).ok() == instructions
}
