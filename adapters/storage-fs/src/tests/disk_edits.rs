//! Random edits of a project by other programs, for property tests.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use reqlore_domain::document::{DocumentId, DocumentKind, backlog_folder_of};

use super::Project;
use crate::Config;
use crate::layout::DocumentArea;

/// The number of folders, and of files in each, below the top of an area.
pub(super) const FOLDERS: usize = 5;
pub(super) const FILES: usize = 4;
/// `x.md` may be a folder or a file.
const NESTED: [&str; FOLDERS] = ["", "a", "a/b", "c", "x.md"];
const FLAT: [&str; FOLDERS] =
    ["requirements", "deleted", "requirements/b", "epics", "requirements/x.md"];
const ENTITIES: [&str; FILES] = ["p.md", "q.md", "x.md", ".hidden.md"];
const ITEMS: [&str; FILES] = ["REQ-001.md", "REQ-002-aaaaaa.md", "x.md", ".hidden.md"];
/// The first three have the same length.
pub(super) const TEXTS: [&str; 5] = [
    "---\nid: dec-0001\nuser_story: US-001\ntags: [a]\n---\n# One\n",
    "---\nid: dec-0002\nuser_story: US-002\ntags: [b]\n---\n# Two\n",
    "---\nid: dec-0003\nuser_story: US-002\ntags: [ ]\n---\n# Six\n",
    "---\nid: [\n---\nbroken",
    "no front matter, and longer than the others are, all of them, by some words",
];

/// A change on disk: of the file `from`, for some kinds to the file `to`, with a text.
#[derive(Debug, Clone)]
pub(super) struct Edit {
    kind: EditKind,
    from: (usize, usize),
    to: (usize, usize),
    text: usize,
}

#[derive(Debug, Clone, Copy)]
enum EditKind {
    Write,
    /// Overwrites in place with the same length, and restores the modification time.
    Poke,
    Replace,
    MoveIn,
    MoveFile,
    MoveFolder,
    RemoveFile,
    RemoveFolder,
    FileForFolder,
    FolderForFile,
    LinkFile,
    LinkFolder,
    /// Adds a second name of a file outside, for `WriteOutside`.
    HardLink,
    WriteOutside,
    Mode(u32),
    MoveAway,
    MoveBack,
    LinkAll,
    RemoveAll,
    MoveRoot,
}

/// The kinds with their weights.
const KINDS: [(u32, EditKind); 21] = [
    (12, EditKind::Write),
    (8, EditKind::Poke),
    (4, EditKind::Replace),
    (2, EditKind::MoveIn),
    (4, EditKind::MoveFile),
    (4, EditKind::MoveFolder),
    (2, EditKind::RemoveFile),
    (2, EditKind::RemoveFolder),
    (2, EditKind::FileForFolder),
    (2, EditKind::FolderForFile),
    (2, EditKind::LinkFile),
    (2, EditKind::LinkFolder),
    (6, EditKind::HardLink),
    (8, EditKind::WriteOutside),
    (1, EditKind::Mode(0o600)),
    (1, EditKind::Mode(0o444)),
    (2, EditKind::MoveAway),
    (4, EditKind::MoveBack),
    (2, EditKind::LinkAll),
    (2, EditKind::RemoveAll),
    (2, EditKind::MoveRoot),
];

pub(super) fn edits() -> impl Strategy<Value = Edit> {
    let kinds = KINDS.map(|(weight, kind)| (weight, Just(kind))).to_vec();
    let kind = proptest::strategy::Union::new_weighted(kinds);
    (kind, files(), files(), 0..TEXTS.len()).prop_map(|(kind, from, to, text)| Edit {
        kind,
        from,
        to,
        text,
    })
}

/// A folder and a file. Many edits of few files find more errors than few edits of many.
pub(super) fn files() -> impl Strategy<Value = (usize, usize)> + Clone {
    (mostly_first(FOLDERS), mostly_first(FILES))
}

fn mostly_first(count: usize) -> impl Strategy<Value = usize> + Clone {
    prop_oneof![3 => 0..2_usize, 1 => 0..count]
}

/// A project with documents of one area, and a folder outside the project.
pub(super) struct Disk {
    project: Project,
    area: DocumentArea,
}

impl Disk {
    pub(super) fn new(area: DocumentArea) -> Self {
        let new = Self { project: Project::new(), area };
        for folder in [new.root().join("inside"), new.outside(), new.folder(0)] {
            fs::create_dir_all(folder).unwrap();
        }
        new
    }

    fn root(&self) -> &Path {
        &self.project.root
    }

    /// The top folder of the area.
    fn all(&self) -> PathBuf {
        self.root().join(self.area.top_folder())
    }

    fn outside(&self) -> PathBuf {
        self.project.outside.path().join("outside")
    }

    pub(super) fn config(&self, cached: bool) -> Config {
        let cache = cached.then(|| self.project.outside.path().join("cache"));
        Config { cache, ..super::config(self.root()) }
    }

    pub(super) fn kinds(&self) -> &'static [DocumentKind] {
        self.area.kinds()
    }

    fn names(&self) -> ([&'static str; FOLDERS], [&'static str; FILES]) {
        match self.area {
            DocumentArea::Knowledge => (NESTED, ENTITIES),
            DocumentArea::Backlog => (FLAT, ITEMS),
        }
    }

    /// The document that the file would hold.
    pub(super) fn id(&self, (folder, file): (usize, usize)) -> DocumentId {
        let (folders, files) = self.names();
        let stem = files[file].trim_end_matches(".md");
        let (kind, path) = match self.area {
            DocumentArea::Knowledge => (DocumentKind::Entity, folders[folder]),
            DocumentArea::Backlog => {
                let (first, rest) =
                    folders[folder].split_once('/').unwrap_or((folders[folder], ""));
                let kind = self.kinds().iter().find(|kind| backlog_folder_of(**kind) == first);
                (*kind.unwrap(), rest)
            }
        };
        DocumentId { kind, name: format!("{path}/{stem}").trim_matches('/').to_owned() }
    }

    fn folder(&self, folder: usize) -> PathBuf {
        self.all().join(self.names().0[folder])
    }

    fn file(&self, (folder, file): (usize, usize)) -> PathBuf {
        self.folder(folder).join(self.names().1[file])
    }

    /// Applies an edit; ignores one that is not possible now.
    pub(super) fn apply(&self, edit: &Edit) {
        let _ = self.attempt(edit);
    }

    fn attempt(&self, edit: &Edit) -> io::Result<()> {
        let (folder, file) = (self.folder(edit.from.0), self.file(edit.from));
        let text = TEXTS[edit.text];
        let same_length = TEXTS[edit.text % 3];
        match edit.kind {
            EditKind::Write => {
                let _ = fs::create_dir_all(folder);
                fs::write(file, text)
            }
            EditKind::Poke => {
                let mut file = OpenOptions::new().write(true).open(file)?;
                let before = file.metadata()?.modified()?;
                file.write_all(same_length.as_bytes())?;
                file.set_modified(before)
            }
            EditKind::Replace => {
                let temp = folder.join(".temp");
                fs::write(&temp, text)?;
                fs::rename(temp, file)
            }
            EditKind::MoveIn => {
                let spare = self.outside().join("spare");
                fs::write(&spare, text)?;
                fs::rename(spare, file)
            }
            EditKind::MoveFile => fs::rename(file, self.file(edit.to)),
            EditKind::MoveFolder => fs::rename(folder, self.folder(edit.to.0)),
            EditKind::RemoveFile => fs::remove_file(file),
            EditKind::RemoveFolder => fs::remove_dir_all(folder),
            EditKind::FileForFolder => {
                fs::remove_dir_all(&folder)?;
                fs::write(folder, text)
            }
            EditKind::FolderForFile => {
                fs::remove_file(&file)?;
                fs::create_dir(&file)?;
                fs::write(file.join("p.md"), TEXTS[0])
            }
            EditKind::LinkFile => {
                let _ = fs::remove_file(&file);
                symlink("p.md", file)
            }
            EditKind::LinkFolder => {
                fs::rename(&folder, self.root().join("inside/moved"))?;
                symlink(self.root().join("inside/moved"), folder)
            }
            EditKind::HardLink => {
                let _ = fs::remove_file(&file);
                fs::hard_link(self.twin()?, file)
            }
            EditKind::WriteOutside => {
                let mut file = OpenOptions::new().write(true).open(self.twin()?)?;
                file.write_all(same_length.as_bytes())
            }
            EditKind::Mode(mode) => fs::set_permissions(file, fs::Permissions::from_mode(mode)),
            kind => self.attempt_on_all(kind),
        }
    }

    /// Applies the edits of the whole area.
    fn attempt_on_all(&self, kind: EditKind) -> io::Result<()> {
        let all = self.all();
        let away = self.root().join("away");
        match kind {
            EditKind::MoveAway => fs::rename(all, away),
            EditKind::MoveBack => fs::rename(away, all),
            EditKind::LinkAll => {
                fs::rename(&all, self.root().join("inside/all"))?;
                let up = "../".repeat(self.area.top_folder().matches('/').count());
                symlink(format!("{up}inside/all"), all)
            }
            EditKind::RemoveAll => fs::remove_dir_all(&all).or_else(|_| fs::remove_file(all)),
            _ => {
                let aside = self.outside().with_file_name("aside");
                fs::rename(self.root(), &aside)?;
                fs::create_dir_all(self.folder(0))?;
                fs::write(self.file((0, 0)), TEXTS[1])?;
                fs::remove_dir_all(aside)?;
                fs::create_dir_all(self.root().join("inside"))
            }
        }
    }

    /// Returns the file outside to which hard links inside are made.
    fn twin(&self) -> io::Result<PathBuf> {
        let twin = self.outside().join("twin");
        if twin.symlink_metadata().is_err() {
            fs::write(&twin, TEXTS[0])?;
        }
        Ok(twin)
    }
}
