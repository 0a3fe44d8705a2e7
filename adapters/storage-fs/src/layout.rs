//! Locates documents: maps a kind and a name to a file beneath the project's root.

use std::cell::{OnceCell, RefCell};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::Dir;
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document;
use reqlore_domain::document::{DocumentId, DocumentKind, TEMPLATE_FOLDER, backlog_folder_of};
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_domain::sections::requirement_index::SectionKey;
use reqlore_durable_fs::folder::{create_folder, folder_id, inode, open_folder};
use reqlore_local_state::error::{failed, not_written, refused};

use crate::folder_names::{
    DOCSETS_FILE, DOCSETS_FOLDER, KNOWLEDGE_FOLDER, OWN_FOLDER, RequirementsLayout,
};
use crate::system::{is_file_name, target_inode};

/// The record schema in the folder of Reqlore.
const SCHEMA_FILE: &str = "project.toml";

/// Handle of a project's root folder; all paths are resolved beneath it.
#[derive(Debug)]
pub(crate) struct ProjectRoot {
    pub(crate) dir: Dir,
    pub(crate) path: PathBuf,
}

impl ProjectRoot {
    pub(crate) fn open(path: &Path) -> StoreResult<Self> {
        let opened = reqlore_durable_fs::open_dir_without_links(path)
            .map_err(|error| failed("the project's folder", "open it", error))?;
        // The path was resolved before, so a link in it means that a folder was replaced.
        let Some(dir) = opened else {
            return Err(refused("the project's folder", "was moved or replaced; try again"));
        };
        Ok(Self { dir: Dir::from_std_file(dir), path: path.to_owned() })
    }

    /// True if the folder or one above it has a `.git`.
    pub(crate) fn is_in_git_repository(&self) -> bool {
        self.path.ancestors().any(|folder| folder.join(".git").symlink_metadata().is_ok())
    }
}

/// A file by its folder's handle. The file may not exist.
#[derive(Debug)]
pub(crate) struct FileLocation {
    pub(crate) dir: Arc<Dir>,
    pub(crate) name: String,
    /// The path in messages, relative to the root.
    pub(crate) display_path: String,
}

/// Locates the files of one project. Searches the requirements directory when it is first needed.
#[derive(Debug)]
pub(crate) struct ProjectTree<'a> {
    pub(crate) root: &'a ProjectRoot,
    layout: &'a RequirementsLayout,
    requirements: OnceCell<RequirementsDir<'a>>,
    /// The folder of the last located document of an area; `None` if folders are not kept open.
    last_folder: Option<RefCell<Option<OpenedFolder>>>,
}

/// A folder of an area: its documents' kind, its path in the area, and its handle.
type OpenedFolder = (DocumentKind, String, Arc<Dir>);

impl<'a> ProjectTree<'a> {
    pub(crate) fn new(root: &'a ProjectRoot, layout: &'a RequirementsLayout) -> Self {
        Self { root, layout, requirements: OnceCell::new(), last_folder: None }
    }

    /// Creates a tree that keeps the last folder open, for reading many documents in a row. A write
    /// must not use it, because the folder may have been moved away.
    pub(crate) fn read_only(root: &'a ProjectRoot, layout: &'a RequirementsLayout) -> Self {
        Self { last_folder: Some(RefCell::default()), ..Self::new(root, layout) }
    }

    /// Returns the parts to create the same tree in another thread.
    pub(crate) fn parts(&self) -> (&'a ProjectRoot, &'a RequirementsLayout) {
        (self.root, self.layout)
    }

    pub(crate) fn requirements(&self) -> StoreResult<&RequirementsDir<'a>> {
        if let Some(requirements) = self.requirements.get() {
            return Ok(requirements);
        }
        let requirements = self.layout.find_directory(self.root)?;
        Ok(self.requirements.get_or_init(|| requirements))
    }

    /// Uses the directory of an imported AGENTS.md, if it is a candidate. Without it the first
    /// candidate would be used.
    pub(crate) fn prefer_requirements(&mut self, path: Option<&str>) {
        let Some((folder, _)) = path.and_then(|path| path.rsplit_once('/')) else { return };
        if let Some(requirements) = self.layout.open_candidate(self.root, folder) {
            self.requirements = OnceCell::from(requirements);
        }
    }

    /// Locates a document's file; `None` if its folder is missing, or no file can have its name.
    pub(crate) fn locate(&self, id: &DocumentId) -> StoreResult<Option<FileLocation>> {
        match id.kind {
            DocumentKind::Instructions | DocumentKind::Section => self.requirements()?.locate(id),
            DocumentKind::Docsets => self.locate_in(DOCSETS_FOLDER, DOCSETS_FILE),
            DocumentKind::Schema => self.locate_in(OWN_FOLDER, SCHEMA_FILE),
            DocumentKind::Template => self.locate_in(TEMPLATE_FOLDER, &file_name(id)),
            DocumentKind::Entity => self.locate_in_area(DocumentArea::Knowledge, id),
            DocumentKind::Item(_) | DocumentKind::Deleted => {
                self.locate_in_area(DocumentArea::Backlog, id)
            }
        }
    }

    fn locate_in(&self, folder: &str, file: &str) -> StoreResult<Option<FileLocation>> {
        let display_path = format!("{folder}/{file}");
        if !is_file_name(file) {
            return Ok(None);
        }
        match self.root.dir.open_dir(folder) {
            Ok(dir) => {
                Ok(Some(FileLocation { dir: Arc::new(dir), name: file.to_owned(), display_path }))
            }
            Err(error) if is_not_there(&error) => Ok(None),
            Err(error) => Err(failed(&display_path, "open its folder", error)),
        }
    }

    /// Locates a document of an area. As in a listing, links to folders are not followed, except
    /// that the area's top folder may be a link to a folder beneath the root.
    fn locate_in_area(
        &self,
        area: DocumentArea,
        id: &DocumentId,
    ) -> StoreResult<Option<FileLocation>> {
        let Some((folders, name)) = path_in_area(id) else { return Ok(None) };
        let display_path = id.to_string();
        let path = id.name.rsplit_once('/').map_or("", |(path, _)| path);
        if let Some(dir) = self.opened_folder(id.kind, path) {
            return Ok(Some(FileLocation { dir, name, display_path }));
        }
        let Some(dir) = self.open_folders(area, &folders, &display_path)? else {
            return Ok(None);
        };
        let dir = Arc::new(dir);
        if let Some(last_folder) = &self.last_folder {
            *last_folder.borrow_mut() = Some((id.kind, path.to_owned(), Arc::clone(&dir)));
        }
        Ok(Some(FileLocation { dir, name, display_path }))
    }

    fn opened_folder(&self, kind: DocumentKind, path: &str) -> Option<Arc<Dir>> {
        let opened = self.last_folder.as_ref()?.borrow();
        let (opened_kind, opened_path, dir) = opened.as_ref()?;
        (*opened_kind == kind && opened_path == path).then(|| Arc::clone(dir))
    }

    fn open_folders(
        &self,
        area: DocumentArea,
        folders: &[&str],
        display_path: &str,
    ) -> StoreResult<Option<Dir>> {
        let mut dir = match self.root.dir.open_dir(area.top_folder()) {
            Ok(dir) => dir,
            Err(error) if is_not_there(&error) => return Ok(None),
            Err(error) => return Err(failed(display_path, "open its folder", error)),
        };
        for folder in folders {
            dir = match open_folder(&dir, folder) {
                Ok(inner) => inner,
                // A listing skips links too, so the document does not exist.
                Err(error)
                    if is_not_there(&error) || error.kind() == io::ErrorKind::InvalidFilename =>
                {
                    return Ok(None);
                }
                Err(error) => return Err(failed(display_path, "open its folder", error)),
            };
        }
        Ok(Some(dir))
    }

    /// Creates the folder of a document, and syncs each folder that got a new entry.
    pub(crate) fn create_folder(&mut self, id: &DocumentId) -> StoreResult<()> {
        if DocumentArea::of_kind(id.kind).is_none() && !is_file_name(&file_name(id)) {
            return Err(invalid_name(&id.to_string()));
        }
        match id.kind {
            DocumentKind::Instructions | DocumentKind::Section => {
                // Searches the directory if that was not done yet.
                self.requirements()?;
                match self.requirements.get_mut() {
                    Some(requirements) => requirements.create(),
                    None => Ok(()),
                }
            }
            DocumentKind::Docsets => create_path(self.root, DOCSETS_FOLDER).map(drop),
            DocumentKind::Schema => create_path(self.root, OWN_FOLDER).map(drop),
            DocumentKind::Template => create_path(self.root, TEMPLATE_FOLDER).map(drop),
            DocumentKind::Entity => self.create_in_area(DocumentArea::Knowledge, id),
            DocumentKind::Item(_) | DocumentKind::Deleted => {
                self.create_in_area(DocumentArea::Backlog, id)
            }
        }
    }

    fn create_in_area(&self, area: DocumentArea, id: &DocumentId) -> StoreResult<()> {
        let display_path = id.to_string();
        let Some((folders, _)) = path_in_area(id) else {
            return Err(invalid_name(&display_path));
        };
        let mut dir = create_path(self.root, area.top_folder())?;
        for folder in folders {
            create_part(&dir, folder, &display_path)?;
            let Ok(inner) = open_folder(&dir, folder) else {
                return Err(refused(
                    &display_path,
                    "has a link or a file where a folder must be; remove it",
                ));
            };
            dir = inner;
        }
        Ok(())
    }
}

fn invalid_name(display_path: &str) -> StoreError {
    refused(display_path, "is not a valid file name here; use another one")
}

/// Returns a document's folders below the top folder of its area, and its file name; `None` for a
/// name that would leave the area, be hidden, or be nested deeper than the listing goes.
fn path_in_area(id: &DocumentId) -> Option<(Vec<&str>, String)> {
    const MAX_NAME_BYTES: usize = 4_000;
    let name = id.name.as_str();
    if name.len() > MAX_NAME_BYTES || name.contains('\0') {
        return None;
    }
    let mut folders: Vec<&str> = name.split('/').collect();
    if folders.iter().any(|part| part.is_empty() || part.starts_with('.')) {
        return None;
    }
    let stem = folders.pop()?;
    if folders.len() > MAX_AREA_DEPTH {
        return None;
    }
    if id.kind != DocumentKind::Entity {
        folders.insert(0, backlog_folder_of(id.kind));
    }
    let file = format!("{stem}.md");
    let are_valid = folders.iter().all(|part| is_file_name(part)) && is_file_name(&file);
    are_valid.then_some((folders, file))
}

/// Creates a folder beneath the root, and syncs each folder that got a new entry.
fn create_path(root: &ProjectRoot, path: &str) -> StoreResult<Dir> {
    let cloned = root.dir.try_clone();
    let mut dir = cloned.map_err(|error| not_created(path, error))?;
    for part in path.split('/') {
        if matches!(part, "" | ".") {
            continue;
        }
        create_part(&dir, part, path)?;
        dir = dir.open_dir(part).map_err(|error| not_created(path, error))?;
    }
    Ok(dir)
}

fn create_part(dir: &Dir, part: &str, display_path: &str) -> StoreResult<()> {
    // The umask reduces it, as for a folder that an editor creates.
    create_folder(dir, part, 0o777).map_err(|error| not_created(display_path, error))
}

fn not_created(display_path: &str, error: io::Error) -> StoreError {
    not_written(display_path, "create the folder", error)
}

/// True if nothing exists at the path, also because a part of it is a file.
pub(crate) fn is_not_there(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// True if both handles are of the same folder.
pub(crate) fn same_folder(a: &Dir, b: &Dir) -> bool {
    matches!((folder_id(a), folder_id(b)), (Ok(a), Ok(b)) if a == b)
}

const INSTRUCTIONS: &str = "AGENTS.md";
/// A project's requirements directory, which may not exist yet.
#[derive(Debug)]
pub(crate) struct RequirementsDir<'a> {
    root: &'a ProjectRoot,
    /// The path relative to the root.
    path: String,
    dir: Option<Arc<Dir>>,
    /// AGENTS.md is a symbolic link.
    is_linked: bool,
}

impl RequirementsLayout {
    /// Opens a directory if it is one of the candidates.
    pub(crate) fn open_candidate<'a>(
        &self,
        root: &'a ProjectRoot,
        path: &str,
    ) -> Option<RequirementsDir<'a>> {
        let path = self.candidates.iter().find(|candidate| *candidate == path)?;
        Some(RequirementsDir::open(root, path))
    }

    /// Opens the first candidate with an AGENTS.md, else the one in which it will be created.
    pub(crate) fn find_directory<'a>(
        &self,
        root: &'a ProjectRoot,
    ) -> StoreResult<RequirementsDir<'a>> {
        for path in &self.candidates {
            let dir = match root.dir.open_dir(path) {
                Ok(dir) => dir,
                Err(error) if is_not_there(&error) => continue,
                Err(error) => return Err(failed(path, "open the requirements directory", error)),
            };
            // A link to a missing file is found, too, so that it is reported and not skipped.
            match dir.symlink_metadata(INSTRUCTIONS) {
                Ok(metadata) => {
                    return Ok(RequirementsDir {
                        root,
                        path: path.clone(),
                        dir: Some(Arc::new(dir)),
                        is_linked: metadata.is_symlink(),
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed(path, "find AGENTS.md", error)),
            }
        }
        Ok(RequirementsDir::open(root, &self.candidates[0]))
    }
}

impl<'a> RequirementsDir<'a> {
    /// Opens a directory that may not exist or hold no AGENTS.md.
    fn open(root: &'a ProjectRoot, path: &str) -> Self {
        let dir = root.dir.open_dir(path).ok().map(Arc::new);
        let is_linked = dir.as_ref().is_some_and(|dir| {
            dir.symlink_metadata(INSTRUCTIONS).is_ok_and(|metadata| metadata.is_symlink())
        });
        Self { root, path: path.to_owned(), dir, is_linked }
    }

    /// Returns the directory's handle; `None` if it does not exist.
    pub(crate) fn dir(&self) -> Option<&Dir> {
        self.dir.as_deref()
    }

    pub(crate) fn display_path(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }

    /// Locates a document's file; `None` if the directory does not exist.
    pub(crate) fn locate(&self, id: &DocumentId) -> StoreResult<Option<FileLocation>> {
        let Some(dir) = &self.dir else {
            return Ok(None);
        };
        let name = file_name(id);
        if !is_file_name(&name) {
            return Ok(None);
        }
        let display_path = self.display_path(&name);
        if self.is_linked && id.kind == DocumentKind::Instructions {
            return self.follow_link(&display_path).map(Some);
        }
        if self.is_linked && id.kind == DocumentKind::Section && is_instructions(dir, &name) {
            return Err(refused(
                &display_path,
                "is the file that AGENTS.md links to, so it can't be a section; use another key",
            ));
        }
        Ok(Some(FileLocation { dir: Arc::clone(dir), name, display_path }))
    }

    /// Locates the target of an AGENTS.md that is a link. Projects often link it to another of
    /// their files, which is read and replaced instead.
    fn follow_link(&self, display_path: &str) -> StoreResult<FileLocation> {
        let root = &self.root.dir;
        // Fails with `PermissionDenied` if the link leads out of the root.
        let target = root.canonicalize(display_path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => refused(
                display_path,
                "is a symbolic link to a missing file; fix or remove the link",
            ),
            _ => failed(display_path, "follow the link", error),
        })?;
        // For example `.git/hooks`, whose files would be executed.
        let is_hidden =
            target.components().any(|part| part.as_os_str().as_encoded_bytes().starts_with(b"."));
        if is_hidden || target.extension().is_none_or(|extension| extension != "md") {
            return Err(refused(
                display_path,
                "links to a file that is hidden or not Markdown; link it to a visible .md file of \
                 the project",
            ));
        }
        let opened = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => root.open_dir(parent),
            _ => root.try_clone(),
        };
        let dir = opened
            .map_err(|error| failed(display_path, "open the folder of the link's target", error))?;
        let Some(name) = target.file_name().and_then(|name| name.to_str()) else {
            return Err(refused(
                display_path,
                "links to a file whose name is not UTF-8; rename that file",
            ));
        };
        Ok(FileLocation {
            dir: Arc::new(dir),
            name: name.to_owned(),
            display_path: display_path.to_owned(),
        })
    }

    pub(super) fn create(&mut self) -> StoreResult<()> {
        if self.dir.is_none() {
            self.dir = Some(Arc::new(create_path(self.root, &self.path)?));
        }
        Ok(())
    }
}

fn file_name(id: &DocumentId) -> String {
    match id.kind {
        DocumentKind::Instructions => INSTRUCTIONS.to_owned(),
        _ => format!("{}.md", id.name),
    }
}

/// Returns the section in a file of this name; `None` if no section key gives this name.
pub(crate) fn section_id(file: &str) -> Option<DocumentId> {
    let key = SectionKey::try_from(file.strip_suffix(".md")?.to_owned()).ok()?;
    Some(DocumentId::section(key.as_str()))
}

/// True if the file is the one that AGENTS.md links to.
fn is_instructions(dir: &Dir, name: &str) -> bool {
    let instructions = target_inode(dir, INSTRUCTIONS);
    instructions.is_some() && instructions == inode(dir, name.as_ref()).ok()
}

/// How deep folders may be nested below the folder of a kind.
pub(crate) const MAX_AREA_DEPTH: usize = 32;

/// A folder tree of documents that is scanned and watched as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DocumentArea {
    Knowledge,
    Backlog,
}

impl DocumentArea {
    pub(crate) const ALL: [Self; 2] = [Self::Knowledge, Self::Backlog];

    /// Returns the area of a kind; `None` for kinds whose few files are inspected one by one.
    pub(crate) fn of_kind(kind: DocumentKind) -> Option<Self> {
        match kind {
            DocumentKind::Instructions
            | DocumentKind::Section
            | DocumentKind::Docsets
            | DocumentKind::Schema
            | DocumentKind::Template => None,
            DocumentKind::Entity => Some(Self::Knowledge),
            DocumentKind::Item(_) | DocumentKind::Deleted => Some(Self::Backlog),
        }
    }

    /// Returns the areas of these kinds, each once.
    pub(crate) fn of_kinds(kinds: &[DocumentKind]) -> impl Iterator<Item = Self> {
        Self::ALL
            .into_iter()
            .filter(|area| kinds.iter().any(|kind| Self::of_kind(*kind) == Some(*area)))
    }

    pub(crate) fn kinds(self) -> &'static [DocumentKind] {
        match self {
            Self::Knowledge => &[DocumentKind::Entity],
            Self::Backlog => &[
                DocumentKind::Item(ItemKind::Epic),
                DocumentKind::Item(ItemKind::UserStory),
                DocumentKind::Item(ItemKind::Requirement),
                DocumentKind::Item(ItemKind::AcceptanceCriteria),
                DocumentKind::Deleted,
            ],
        }
    }

    /// The area's folder, relative to the project's root.
    pub(crate) fn top_folder(self) -> &'static str {
        match self {
            Self::Knowledge => KNOWLEDGE_FOLDER,
            Self::Backlog => document::BACKLOG_FOLDER,
        }
    }
}
