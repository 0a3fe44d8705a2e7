//! Paths of documents: from a kind and a name to a file beneath the project's root.

use std::cell::{OnceCell, RefCell};
use std::io;
use std::path::{Component, Path};
use std::sync::Arc;

use cap_std::fs::{Dir, MetadataExt};
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document;
use reqlore_domain::document::{DocumentId, DocumentKind, folder_of};
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::sections::requirement_index::SectionKey;
use reqlore_local_state::{create_folder, open_folder};
use rustix::io::Errno;

use crate::error::{failed, not_written, refused};

/// The folder of the docsets' configuration, and its name there (S3 REQ-3).
pub(crate) const DOCSETS_CONFIG: (&str, &str) = (".knowledge", "config.yaml");

/// The handle of a project's root; all paths are resolved beneath it.
#[derive(Debug)]
pub(crate) struct ProjectRoot {
    pub(crate) dir: Dir,
}

impl ProjectRoot {
    pub(crate) fn open(path: &Path) -> StoreResult<Self> {
        let opened = reqlore_durable_fs::open_dir_without_links(path)
            .map_err(|error| failed("the project's folder", "open it", error))?;
        // The path was resolved and checked before: a link in it means that it was swapped.
        let Some(dir) = opened else {
            return Err(refused(
                "the project's folder",
                "was moved or replaced meanwhile; try again",
            ));
        };
        Ok(Self { dir: Dir::from_std_file(dir) })
    }
}

/// One file: its folder's handle, its name there, and how messages call it.
#[derive(Debug)]
pub(crate) struct FileLocation {
    pub(crate) dir: Arc<Dir>,
    pub(crate) name: String,
    pub(crate) display_path: String,
}

/// All places of a project. The requirements directory is looked for when somebody needs it.
#[derive(Debug)]
pub(crate) struct ProjectTree<'a> {
    pub(crate) root: &'a ProjectRoot,
    layout: &'a RequirementsLayout,
    requirements: OnceCell<RequirementsDir<'a>>,
    /// The folder of the last document of an area, where that is kept open.
    last_folder: Option<RefCell<Option<OpenedFolder>>>,
}

/// An area's folder: of which kind, its path in there, and its handle.
type OpenedFolder = (DocumentKind, String, Arc<Dir>);

impl<'a> ProjectTree<'a> {
    pub(crate) fn new(root: &'a ProjectRoot, layout: &'a RequirementsLayout) -> Self {
        Self { root, layout, requirements: OnceCell::new(), last_folder: None }
    }

    /// The same for many documents in a row that are only read: each folder is opened once. A write
    /// must not, because its folder may be moved away since.
    pub(crate) fn read_only(root: &'a ProjectRoot, layout: &'a RequirementsLayout) -> Self {
        Self { last_folder: Some(RefCell::default()), ..Self::new(root, layout) }
    }

    /// What another thread needs to find the same places.
    pub(crate) fn parts(&self) -> (&'a ProjectRoot, &'a RequirementsLayout) {
        (self.root, self.layout)
    }

    pub(crate) fn requirements(&self) -> StoreResult<&RequirementsDir<'a>> {
        if let Some(requirements) = self.requirements.get() {
            return Ok(requirements);
        }
        let found = self.layout.find_directory(self.root)?;
        Ok(self.requirements.get_or_init(|| found))
    }

    /// Where there is no AGENTS.md yet, its place may tell which of the directories shall hold it.
    pub(crate) fn prefer_requirements(&mut self, place: Option<&str>) {
        let directory = place.and_then(|place| place.rsplit_once('/')).map(|(path, _)| path);
        if let Some(found) = directory.and_then(|path| self.layout.open_candidate(self.root, path))
        {
            self.requirements = OnceCell::from(found);
        }
    }

    /// The file of a document; `None` while its folder is not there, or where no file can be it.
    pub(crate) fn locate(&self, id: &DocumentId) -> StoreResult<Option<FileLocation>> {
        let (folder, name) = match id.kind {
            DocumentKind::Instructions | DocumentKind::Section => {
                return self.requirements()?.locate(id);
            }
            DocumentKind::Docsets => (DOCSETS_CONFIG.0.to_owned(), DOCSETS_CONFIG.1.to_owned()),
            DocumentKind::Entity => return self.locate_in_area(DocumentArea::Knowledge, id),
            DocumentKind::Item(_) | DocumentKind::Deleted => {
                return self.locate_in_area(DocumentArea::Backlog, id);
            }
        };
        let shown = format!("{folder}/{name}");
        match self.root.dir.open_dir(&folder) {
            Ok(dir) => Ok(Some(FileLocation { dir: Arc::new(dir), name, display_path: shown })),
            Err(error) if is_not_there(&error) => Ok(None),
            Err(error) => Err(failed(&shown, "open its folder", error)),
        }
    }

    /// The file of a document of an area. As in the listing, links to folders are not followed;
    /// only the area's top may be one, to a folder inside.
    fn locate_in_area(
        &self,
        area: DocumentArea,
        id: &DocumentId,
    ) -> StoreResult<Option<FileLocation>> {
        let Some((folders, name)) = path_in_area(id) else { return Ok(None) };
        let shown = id.to_string();
        let path = id.name.rsplit_once('/').map_or("", |(path, _)| path);
        let last = self.last_folder.as_ref().map(RefCell::borrow);
        if let Some((kind, last, dir)) = last.as_ref().and_then(|last| last.as_ref())
            && (*kind, last.as_str()) == (id.kind, path)
        {
            return Ok(Some(FileLocation { dir: Arc::clone(dir), name, display_path: shown }));
        }
        drop(last);
        let Some(dir) = self.open_folders(area, &folders, &shown)?.map(Arc::new) else {
            return Ok(None);
        };
        if let Some(last) = &self.last_folder {
            *last.borrow_mut() = Some((id.kind, path.to_owned(), Arc::clone(&dir)));
        }
        Ok(Some(FileLocation { dir, name, display_path: shown }))
    }

    fn open_folders(
        &self,
        area: DocumentArea,
        folders: &[&str],
        shown: &str,
    ) -> StoreResult<Option<Dir>> {
        let fail = |error| failed(shown, "open its folder", error);
        let mut dir = match self.root.dir.open_dir(area.top_folder()) {
            Ok(dir) => dir,
            Err(error) if is_not_there(&error) => return Ok(None),
            Err(error) => return Err(fail(error)),
        };
        for part in folders {
            dir = match open_folder(&dir, part) {
                Ok(inner) => Dir::from_std_file(inner.into()),
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NAMETOOLONG) => {
                    return Ok(None);
                }
                Err(error) => return Err(fail(error.into())),
            };
        }
        Ok(Some(dir))
    }

    /// Creates the folder of a document, and syncs each folder that got a new entry.
    pub(crate) fn create_folder(&mut self, id: &DocumentId) -> StoreResult<()> {
        match id.kind {
            DocumentKind::Instructions | DocumentKind::Section => {
                self.requirements()?;
                match self.requirements.get_mut() {
                    Some(requirements) => requirements.create(),
                    None => Ok(()),
                }
            }
            DocumentKind::Docsets => create_path(self.root, DOCSETS_CONFIG.0).map(drop),
            DocumentKind::Entity => self.create_in_area(DocumentArea::Knowledge, id),
            DocumentKind::Item(_) | DocumentKind::Deleted => {
                self.create_in_area(DocumentArea::Backlog, id)
            }
        }
    }

    fn create_in_area(&self, area: DocumentArea, id: &DocumentId) -> StoreResult<()> {
        let refused = |reason| Err(refused(&id.to_string(), reason));
        let Some((folders, _)) = path_in_area(id) else {
            return refused("is no name that a file can have here");
        };
        let mut dir = create_path(self.root, area.top_folder())?;
        for part in folders {
            create_part(&dir, part, &id.to_string())?;
            dir = match open_folder(&dir, part) {
                Ok(inner) => Dir::from_std_file(inner.into()),
                Err(_) => return refused("has a link or a file where a folder must be"),
            };
        }
        Ok(())
    }
}

/// The folders of a document below the top of its area, and its file; `None` for a name that would
/// lead out of there, to a hidden file, or deeper than the listing goes.
fn path_in_area(id: &DocumentId) -> Option<(Vec<&str>, String)> {
    let name = id.name.as_str();
    let hidden = |part: &str| part.is_empty() || part.starts_with('.');
    if name.len() > 4_000 || name.contains('\0') || name.split('/').any(hidden) {
        return None;
    }
    let mut folders: Vec<&str> = name.split('/').collect();
    let stem = folders.pop()?;
    if folders.len() > DocumentArea::of_kind(id.kind)?.max_depth() {
        return None;
    }
    if id.kind != DocumentKind::Entity {
        folders.push(folder_of(id.kind));
    }
    Some((folders, format!("{stem}.md")))
}

/// Creates a folder beneath the root, and syncs each folder that got a new entry.
fn create_path(root: &ProjectRoot, path: &str) -> StoreResult<Dir> {
    let failed = |error| not_written(path, "create the folder", error);
    let mut dir = root.dir.try_clone().map_err(failed)?;
    for part in path.split('/').filter(|part| !matches!(*part, "" | ".")) {
        create_part(&dir, part, path)?;
        dir = dir.open_dir(part).map_err(failed)?;
    }
    Ok(dir)
}

fn create_part(dir: &Dir, part: &str, shown: &str) -> StoreResult<()> {
    create_folder(dir, part, 0o777).map_err(|error| not_written(shown, "create the folder", error))
}

/// A path that goes through a file leads nowhere either (S1 T.3.1).
pub(crate) fn is_not_there(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Are these two handles of one folder?
pub(crate) fn same_folder(a: &Dir, b: &Dir) -> bool {
    let id = |dir: &Dir| rustix::fs::fstat(dir).map(|stat| (stat.st_dev, stat.st_ino)).ok();
    id(a).is_some() && id(a) == id(b)
}

const INSTRUCTIONS: &str = "AGENTS.md";
/// Where AGENTS.md is looked for behind the configured directory (S1 T.3.1).
const DEFAULT_DIRECTORIES: [&str; 2] = ["docs/development/requirements", "docs/dev/req"];

/// The directories that may hold AGENTS.md, in the order of S1 T.3.1.
#[derive(Debug)]
pub(crate) struct RequirementsLayout {
    candidates: Vec<String>,
}

/// The requirements directory of a project; it may not be there yet.
#[derive(Debug)]
pub(crate) struct RequirementsDir<'a> {
    root: &'a ProjectRoot,
    /// Relative to the root.
    path: String,
    dir: Option<Arc<Dir>>,
    /// AGENTS.md is a symbolic link.
    is_linked: bool,
}

/// Is this a relative path that stays inside? The message names the variable.
pub(crate) fn check_relative(path: &str) -> Result<(), String> {
    let stays = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    if path.contains('\0') || !Path::new(path).components().all(stays) {
        return Err(format!(
            "REQLIX_REQ_REL_PATH: {path:?} must be a path relative to the project's root that \
             stays inside it, such as \"docs/requirements\""
        ));
    }
    Ok(())
}

impl RequirementsLayout {
    pub(crate) fn new(configured: Option<&str>) -> Self {
        let configured = configured.map(|path| path.trim_end_matches('/').to_owned());
        let candidates = configured.into_iter().chain(DEFAULT_DIRECTORIES.map(str::to_owned));
        Self { candidates: candidates.collect() }
    }

    /// This directory, if it is one of those where AGENTS.md is looked for.
    pub(crate) fn open_candidate<'a>(
        &self,
        root: &'a ProjectRoot,
        path: &str,
    ) -> Option<RequirementsDir<'a>> {
        let path = self.candidates.iter().find(|candidate| *candidate == path)?;
        Some(RequirementsDir::open(root, path))
    }

    /// The first directory that holds an AGENTS.md, else the one where it is to be created.
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
            match dir.symlink_metadata(INSTRUCTIONS) {
                Ok(found) => {
                    return Ok(RequirementsDir {
                        root,
                        path: path.clone(),
                        dir: Some(Arc::new(dir)),
                        is_linked: found.is_symlink(),
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed(path, "look for AGENTS.md", error)),
            }
        }
        Ok(RequirementsDir::open(root, &self.candidates[0]))
    }
}

impl<'a> RequirementsDir<'a> {
    /// A directory that may hold no AGENTS.md or not exist yet.
    fn open(root: &'a ProjectRoot, path: &str) -> Self {
        let dir = root.dir.open_dir(path).ok().map(Arc::new);
        let instructions = dir.as_ref().and_then(|dir| dir.symlink_metadata(INSTRUCTIONS).ok());
        let is_linked = instructions.is_some_and(|found| found.is_symlink());
        Self { root, path: path.to_owned(), dir, is_linked }
    }

    /// The directory's handle; `None` while it is not there.
    pub(crate) fn dir(&self) -> Option<&Dir> {
        self.dir.as_deref()
    }

    pub(crate) fn display_path(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }

    /// The file of a document; `None` while its directory is not there.
    pub(crate) fn locate(&self, id: &DocumentId) -> StoreResult<Option<FileLocation>> {
        let Some(dir) = &self.dir else {
            return Ok(None);
        };
        let name = file_name(id);
        let shown = self.display_path(&name);
        if id.kind == DocumentKind::Instructions && self.is_linked {
            return self.follow_link(&shown).map(Some);
        }
        if id.kind == DocumentKind::Section && self.is_linked && is_instructions(dir, &name) {
            return Err(refused(
                &shown,
                "is what AGENTS.md links to; the instructions are no section",
            ));
        }
        Ok(Some(FileLocation { dir: Arc::clone(dir), name, display_path: shown }))
    }

    /// AGENTS.md is often a link to another file of the project: that one is read and replaced.
    fn follow_link(&self, shown: &str) -> StoreResult<FileLocation> {
        let root = &self.root.dir;
        let target = root.canonicalize(shown).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                refused(shown, "is a symbolic link to nothing; mend or remove the link")
            }
            _ => failed(shown, "follow the link", error),
        })?;
        let is_hidden = |part: Component<'_>| part.as_os_str().as_encoded_bytes().starts_with(b".");
        if target.components().any(is_hidden) || target.extension().is_none_or(|e| e != "md") {
            return Err(refused(
                shown,
                "links to a file that is no markdown or is hidden; link it \
                                       to a visible .md file of the project",
            ));
        }
        let parent = target.parent().filter(|path| !path.as_os_str().is_empty());
        let dir = match parent {
            Some(path) => root.open_dir(path),
            None => root.try_clone(),
        };
        let dir = dir.map_err(|error| failed(shown, "open the folder behind the link", error))?;
        match target.file_name().and_then(|name| name.to_str()) {
            Some(name) => Ok(FileLocation {
                dir: Arc::new(dir),
                name: name.to_owned(),
                display_path: shown.to_owned(),
            }),
            None => Err(refused(shown, "links to a file whose name is not UTF-8")),
        }
    }

    /// Creates the directory.
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

/// The section that a file of this name holds; `None` for one that no key can name.
pub(crate) fn section_id(file: &str) -> Option<DocumentId> {
    let key = SectionKey::try_from(file.strip_suffix(".md")?.to_owned()).ok()?;
    Some(DocumentId::section(key.as_str()))
}

/// True if this file of the directory is the target of the link AGENTS.md.
fn is_instructions(dir: &Dir, name: &str) -> bool {
    let inode = |found: io::Result<cap_std::fs::Metadata>| found.ok().map(|found| found.ino());
    inode(dir.metadata(INSTRUCTIONS))
        .is_some_and(|instructions| inode(dir.symlink_metadata(name)) == Some(instructions))
}

/// The folder of the knowledge graph (S4 AC-002.1).
pub(crate) const KNOWLEDGE: &str = ".ixchel";
/// How deep its folders may be nested.
const MAX_DEPTH: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DocumentArea {
    Knowledge,
    Backlog,
}

impl DocumentArea {
    pub(crate) const ALL: [Self; 2] = [Self::Knowledge, Self::Backlog];

    /// Where documents of this kind lie; `None` for those that are looked at one by one.
    pub(crate) fn of_kind(kind: DocumentKind) -> Option<Self> {
        match kind {
            DocumentKind::Instructions | DocumentKind::Section | DocumentKind::Docsets => None,
            DocumentKind::Entity => Some(Self::Knowledge),
            DocumentKind::Item(_) | DocumentKind::Deleted => Some(Self::Backlog),
        }
    }

    /// Where documents of any of these kinds lie, each named once.
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

    /// The folder that holds all others, relative to the project's root.
    pub(crate) fn top_folder(self) -> &'static str {
        match self {
            Self::Knowledge => KNOWLEDGE,
            Self::Backlog => document::BACKLOG,
        }
    }

    /// How deep the folders of a kind may be nested.
    pub(crate) fn max_depth(self) -> usize {
        match self {
            Self::Knowledge => MAX_DEPTH,
            Self::Backlog => 0,
        }
    }

    /// The file in the cache's folder.
    pub(crate) fn cache_file(self) -> &'static str {
        match self {
            Self::Knowledge => "heads.bin",
            Self::Backlog => "items.bin",
        }
    }
}
