//! The requirements directory: AGENTS.md and the sections, wherever S1 looks for them.

use std::io;
use std::path::{Component, Path};
use std::sync::Arc;

use cap_std::fs::{Dir, MetadataExt};
use reqlore_domain::document::{DocumentId, Kind};
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::sections::index::SectionKey;

use super::{Place, Root, create, is_not_there};
use crate::error::{failed, refused};

const INSTRUCTIONS: &str = "AGENTS.md";
/// Where AGENTS.md is looked for behind the configured directory (S1 T.3.1).
const DIRECTORIES: [&str; 2] = ["docs/development/requirements", "docs/dev/req"];

/// The directories that may hold AGENTS.md, in the order of S1 T.3.1.
#[derive(Debug)]
pub(crate) struct Layout {
    candidates: Vec<String>,
}

/// The requirements directory of a project; it may not be there yet.
#[derive(Debug)]
pub(crate) struct Requirements<'a> {
    root: &'a Root,
    /// Relative to the root.
    path: String,
    dir: Option<Dir>,
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

impl Layout {
    pub(crate) fn new(configured: Option<&str>) -> Self {
        let configured = configured.map(|path| path.trim_end_matches('/').to_owned());
        let candidates = configured.into_iter().chain(DIRECTORIES.map(str::to_owned));
        Self { candidates: candidates.collect() }
    }

    /// This directory, if it is one of those where AGENTS.md is looked for.
    pub(crate) fn at<'a>(&self, root: &'a Root, path: &str) -> Option<Requirements<'a>> {
        let path = self.candidates.iter().find(|candidate| *candidate == path)?.clone();
        let dir = root.dir.open_dir(&path).ok();
        Some(Requirements { root, path, dir })
    }

    /// The first directory that holds an AGENTS.md, else the one where it is to be created.
    pub(crate) fn find<'a>(&self, root: &'a Root) -> StoreResult<Requirements<'a>> {
        for path in &self.candidates {
            let dir = match root.dir.open_dir(path) {
                Ok(dir) => dir,
                Err(error) if is_not_there(&error) => continue,
                Err(error) => return Err(failed(path, "open the requirements directory", error)),
            };
            match dir.symlink_metadata(INSTRUCTIONS) {
                Ok(_) => {
                    return Ok(Requirements { root, path: path.clone(), dir: Some(dir) });
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed(path, "look for AGENTS.md", error)),
            }
        }
        let path = self.candidates[0].clone();
        let dir = root.dir.open_dir(&path).ok();
        Ok(Requirements { root, path, dir })
    }
}

impl Requirements<'_> {
    /// The directory's handle; `None` while it is not there.
    pub(crate) fn dir(&self) -> Option<&Dir> {
        self.dir.as_ref()
    }

    pub(crate) fn shown(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }

    /// The file of a document; `None` while its directory is not there.
    pub(crate) fn place(&self, id: &DocumentId) -> StoreResult<Option<Place>> {
        let Some(dir) = &self.dir else {
            return Ok(None);
        };
        let name = file_name(id);
        let shown = self.shown(&name);
        let clone =
            |dir: &Dir| dir.try_clone().map_err(|error| failed(&shown, "open its folder", error));
        if id.kind == Kind::Instructions
            && dir.symlink_metadata(&name).is_ok_and(|found| found.is_symlink())
        {
            return self.behind_link(&shown).map(Some);
        }
        if id.kind == Kind::Section && is_instructions(dir, &name) {
            return Err(refused(
                &shown,
                "is what AGENTS.md links to; the instructions are no section",
            ));
        }
        Ok(Some(Place { dir: Arc::new(clone(dir)?), name, shown }))
    }

    /// AGENTS.md is often a link to another file of the project: that one is read and replaced.
    fn behind_link(&self, shown: &str) -> StoreResult<Place> {
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
            Some(name) => {
                Ok(Place { dir: Arc::new(dir), name: name.to_owned(), shown: shown.to_owned() })
            }
            None => Err(refused(shown, "links to a file whose name is not UTF-8")),
        }
    }

    /// Creates the directory.
    pub(super) fn create(&mut self) -> StoreResult<()> {
        if self.dir.is_none() {
            self.dir = Some(create(self.root, &self.path)?);
        }
        Ok(())
    }
}

fn file_name(id: &DocumentId) -> String {
    match id.kind {
        Kind::Instructions => INSTRUCTIONS.to_owned(),
        _ => format!("{}.md", id.name),
    }
}

/// The section that a file of this name holds; `None` for one that no key can name.
pub(crate) fn section_of(file: &str) -> Option<DocumentId> {
    let key = SectionKey::try_from(file.strip_suffix(".md")?.to_owned()).ok()?;
    Some(DocumentId::section(key.as_str()))
}

/// Is this file of the directory what AGENTS.md links to?
fn is_instructions(dir: &Dir, name: &str) -> bool {
    let inode = |found: io::Result<cap_std::fs::Metadata>| found.ok().map(|found| found.ino());
    dir.symlink_metadata(INSTRUCTIONS).is_ok_and(|found| found.is_symlink())
        && inode(dir.metadata(INSTRUCTIONS))
            .is_some_and(|instructions| inode(dir.symlink_metadata(name)) == Some(instructions))
}
