//! A project on the disk, and what people and programs do to it.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use proptest::prelude::*;
use reqlore_domain::document::{DocumentId, Kind, folder_of};
use tempfile::TempDir;

use crate::Config;
use crate::layout::Area;

/// How many folders and files there are below the top of an area.
pub(super) const FOLDERS: usize = 5;
pub(super) const FILES: usize = 4;
/// One of the folders could be a file as well.
const NESTED: [&str; FOLDERS] = ["", "a", "a/b", "c", "x.md"];
const FLAT: [&str; FOLDERS] =
    ["requirements", "deleted", "requirements/b", "epics", "requirements/x.md"];
const ENTITIES: [&str; FILES] = ["p.md", "q.md", "x.md", ".hidden.md"];
const ITEMS: [&str; FILES] = ["REQ-001.md", "REQ-002-aaaaaa.md", "x.md", ".hidden.md"];
/// The first three are of one length.
pub(super) const TEXTS: [&str; 5] = [
    "---\nid: dec-0001\nuser_story: US-001\n---\n# One\n",
    "---\nid: dec-0002\nuser_story: US-002\n---\n# Two\n",
    "---\nid: dec-0003\nuser_story: US-002\n---\n# Six\n",
    "---\nid: [\n---\nbroken",
    "no front matter, and longer than the others are, all of them, by some words",
];

/// What happens on the disk.
#[derive(Debug, Clone)]
pub(super) enum Edit {
    Write(usize, usize, usize),
    /// In place, of the same length, with the time of before.
    Poke(usize, usize, usize),
    Replace(usize, usize, usize),
    MoveIn(usize, usize, usize),
    MoveFile(usize, usize, usize, usize),
    MoveFolder(usize, usize),
    RemoveFile(usize, usize),
    RemoveFolder(usize),
    FileForFolder(usize, usize),
    FolderForFile(usize, usize),
    LinkFile(usize, usize),
    LinkFolder(usize),
    /// A second name of a file outside, which is then written by that name.
    HardLink(usize, usize),
    WriteOutside(usize),
    Mode(usize, usize, u32),
    MoveAway,
    MoveBack,
    LinkAll,
    RemoveAll,
    MoveRoot,
}

pub(super) fn edits() -> impl Strategy<Value = Edit> {
    let (d, f) = (mostly_first(FOLDERS), mostly_first(FILES));
    let t = 0..TEXTS.len();
    let file = (d.clone(), f.clone());
    let text = (d.clone(), f.clone(), t.clone());
    prop_oneof![
        6 => text.clone().prop_map(|(d, f, t)| Edit::Write(d, f, t)),
        4 => text.clone().prop_map(|(d, f, t)| Edit::Poke(d, f, t % 3)),
        2 => text.clone().prop_map(|(d, f, t)| Edit::Replace(d, f, t)),
        1 => text.prop_map(|(d, f, t)| Edit::MoveIn(d, f, t)),
        2 => (file.clone(), file.clone()).prop_map(|(a, b)| Edit::MoveFile(a.0, a.1, b.0, b.1)),
        2 => (d.clone(), d.clone()).prop_map(|(a, b)| Edit::MoveFolder(a, b)),
        1 => file.clone().prop_map(|(d, f)| Edit::RemoveFile(d, f)),
        1 => d.clone().prop_map(Edit::RemoveFolder),
        1 => (d.clone(), t.clone()).prop_map(|(d, t)| Edit::FileForFolder(d, t)),
        1 => file.clone().prop_map(|(d, f)| Edit::FolderForFile(d, f)),
        1 => file.clone().prop_map(|(d, f)| Edit::LinkFile(d, f)),
        1 => d.clone().prop_map(Edit::LinkFolder),
        3 => file.clone().prop_map(|(d, f)| Edit::HardLink(d, f)),
        4 => t.prop_map(|t| Edit::WriteOutside(t % 3)),
        1 => (file, prop_oneof![Just(0o600), Just(0o444)]).prop_map(|((d, f), m)| Edit::Mode(d, f, m)),
        1 => Just(Edit::MoveAway),
        2 => Just(Edit::MoveBack),
        1 => Just(Edit::LinkAll),
        1 => Just(Edit::RemoveAll),
        1 => Just(Edit::MoveRoot),
    ]
}

/// Many edits of few files find more than few of many.
pub(super) fn mostly_first(of: usize) -> impl Strategy<Value = usize> + Clone {
    prop_oneof![3 => 0..2_usize, 1 => 0..of]
}

/// A project's folder, and what lies beside it.
pub(super) struct Disk {
    top: TempDir,
    area: Area,
}

impl Disk {
    pub(super) fn new(area: Area) -> Self {
        let top = tempfile::tempdir().unwrap();
        for folder in ["repo/inside", "outside", "cache"] {
            fs::create_dir_all(top.path().join(folder)).unwrap();
        }
        let new = Self { top, area };
        fs::create_dir_all(new.folder(0)).unwrap();
        new
    }

    fn root(&self) -> PathBuf {
        self.top.path().join("repo")
    }

    /// The folder of all folders of the area.
    fn all(&self) -> PathBuf {
        self.root().join(self.area.top())
    }

    fn outside(&self) -> PathBuf {
        self.top.path().join("outside")
    }

    pub(super) fn config(&self, cached: bool) -> Config {
        let cache = cached.then(|| self.top.path().join("cache"));
        Config { cache, ..super::config(&self.root()) }
    }

    pub(super) fn kinds(&self) -> &'static [Kind] {
        self.area.kinds()
    }

    fn names(&self) -> ([&'static str; FOLDERS], [&'static str; FILES]) {
        match self.area {
            Area::Knowledge => (NESTED, ENTITIES),
            Area::Backlog => (FLAT, ITEMS),
        }
    }

    /// The document that a file would be.
    pub(super) fn id(&self, folder: usize, file: usize) -> DocumentId {
        let (folders, files) = self.names();
        let stem = files[file].trim_end_matches(".md");
        let (kind, path) = match self.area {
            Area::Knowledge => (Kind::Entity, folders[folder]),
            Area::Backlog => {
                let (first, rest) =
                    folders[folder].split_once('/').unwrap_or((folders[folder], ""));
                let kind = self.kinds().iter().find(|kind| folder_of(**kind) == first);
                (*kind.unwrap(), rest)
            }
        };
        DocumentId { kind, name: format!("{path}/{stem}").trim_matches('/').to_owned() }
    }

    fn folder(&self, folder: usize) -> PathBuf {
        self.all().join(self.names().0[folder])
    }

    fn file(&self, folder: usize, file: usize) -> PathBuf {
        self.folder(folder).join(self.names().1[file])
    }

    /// What can't be done now is not done.
    pub(super) fn apply(&self, edit: &Edit) {
        let _ = self.attempt(edit);
    }

    fn attempt(&self, edit: &Edit) -> std::io::Result<()> {
        let spare = self.outside().join("spare");
        match *edit {
            Edit::Write(d, f, t) => {
                let _ = fs::create_dir_all(self.folder(d));
                fs::write(self.file(d, f), TEXTS[t])
            }
            Edit::Poke(d, f, t) => {
                let mut file = OpenOptions::new().write(true).open(self.file(d, f))?;
                let before = file.metadata()?.modified()?;
                file.write_all(TEXTS[t].as_bytes())?;
                file.set_modified(before)
            }
            Edit::Replace(d, f, t) => {
                let temp = self.folder(d).join(".temp");
                fs::write(&temp, TEXTS[t])?;
                fs::rename(temp, self.file(d, f))
            }
            Edit::MoveIn(d, f, t) => {
                fs::write(&spare, TEXTS[t])?;
                fs::rename(spare, self.file(d, f))
            }
            Edit::MoveFile(d, f, to, name) => fs::rename(self.file(d, f), self.file(to, name)),
            Edit::MoveFolder(from, to) => fs::rename(self.folder(from), self.folder(to)),
            Edit::RemoveFile(d, f) => fs::remove_file(self.file(d, f)),
            Edit::RemoveFolder(d) => fs::remove_dir_all(self.folder(d)),
            Edit::FileForFolder(d, t) => {
                fs::remove_dir_all(self.folder(d))?;
                fs::write(self.folder(d), TEXTS[t])
            }
            Edit::FolderForFile(d, f) => {
                fs::remove_file(self.file(d, f))?;
                fs::create_dir(self.file(d, f))?;
                fs::write(self.file(d, f).join("p.md"), TEXTS[0])
            }
            Edit::LinkFile(d, f) => {
                let _ = fs::remove_file(self.file(d, f));
                symlink("p.md", self.file(d, f))
            }
            Edit::LinkFolder(d) => {
                fs::rename(self.folder(d), self.root().join("inside/moved"))?;
                symlink(self.root().join("inside/moved"), self.folder(d))
            }
            Edit::HardLink(d, f) => {
                let _ = fs::remove_file(self.file(d, f));
                fs::hard_link(self.twin()?, self.file(d, f))
            }
            Edit::WriteOutside(t) => {
                let mut file = OpenOptions::new().write(true).open(self.twin()?)?;
                file.write_all(TEXTS[t].as_bytes())
            }
            Edit::Mode(d, f, mode) => {
                fs::set_permissions(self.file(d, f), fs::Permissions::from_mode(mode))
            }
            Edit::MoveAway | Edit::MoveBack | Edit::LinkAll | Edit::RemoveAll | Edit::MoveRoot => {
                self.attempt_on_all(edit)
            }
        }
    }

    /// What concerns the area as a whole.
    fn attempt_on_all(&self, edit: &Edit) -> std::io::Result<()> {
        let all = self.all();
        let away = self.root().join("away");
        match edit {
            Edit::MoveAway => fs::rename(all, away),
            Edit::MoveBack => fs::rename(away, all),
            Edit::LinkAll => {
                fs::rename(&all, self.root().join("inside/all"))?;
                let up = "../".repeat(self.area.top().matches('/').count());
                symlink(format!("{up}inside/all"), all)
            }
            Edit::RemoveAll => fs::remove_dir_all(&all).or_else(|_| fs::remove_file(all)),
            _ => {
                let aside = self.top.path().join("aside");
                fs::rename(self.root(), &aside)?;
                fs::create_dir_all(self.folder(0))?;
                fs::write(self.file(0, 0), TEXTS[1])?;
                fs::remove_dir_all(aside)?;
                fs::create_dir_all(self.root().join("inside"))
            }
        }
    }

    /// A file outside that may have second names inside.
    fn twin(&self) -> std::io::Result<PathBuf> {
        let twin = self.outside().join("twin");
        if twin.symlink_metadata().is_err() {
            fs::write(&twin, TEXTS[0])?;
        }
        Ok(twin)
    }
}
