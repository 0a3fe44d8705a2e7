//! The highest numbers that items ever had, so that none is given twice.
//!
//! The files of items tell nearly all: a deleted item leaves its number in a tombstone. The numbers
//! in `.reqlore/local` matter when a user removes the newest file by hand. So that file is not
//! synced, and a damaged or missing one is not an error. A number that is too high would end its
//! kind for good: a file that came with a clone or a copy is not trusted, and the last number of
//! all is valid only while a document has it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt};

use cap_std::fs::{Dir, OpenOptions};
use reqlore_domain::backlog::reference::MAX_NUMBER;
use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::document::DocumentId;
use reqlore_domain::ports::documents::{DocumentChange, StoreResult};
use rustix::fs::{Mode, OFlags};

use crate::error::failed;
use crate::layout::Root;
use crate::local::{self, LOCAL};
use crate::read::read_file;

/// The file, and its name until it is complete.
const NAME: &str = "marks";
const TEMP: &str = ".marks.tmp";

/// By kind; a kind that never had an item has none.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Marks(BTreeMap<ItemKind, u32>);

impl Marks {
    pub(crate) fn raise(&mut self, kind: ItemKind, number: u32) {
        let mark = self.0.entry(kind).or_default();
        *mark = (*mark).max(number);
    }

    pub(crate) fn merge(&mut self, others: &Self) {
        others.iter().for_each(|(kind, number)| self.raise(kind, number));
    }

    /// The lowest number that is greater than all.
    pub(crate) fn free(&self, kind: ItemKind) -> u32 {
        self.0.get(&kind).map_or(1, |mark| mark + 1)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ItemKind, u32)> {
        self.0.iter().map(|(kind, number)| (*kind, *number))
    }

    /// Reads the numbers of a project.
    pub(crate) fn load(root: &Root) -> Self {
        let local = local::find(&root.dir).ok().flatten();
        let found = local.and_then(|local| read_file(&local, NAME, NAME).ok().flatten());
        let mut marks = Self::default();
        let Some(found) = found else { return marks };
        let text = String::from_utf8_lossy(&found.bytes);
        let mut lines = text.lines();
        if lines.next() != Some(&first_line(&found.metadata)) {
            return marks;
        }
        for line in lines {
            let (prefix, number) = line.split_once(' ').unwrap_or_default();
            let kind = ItemKind::ALL.into_iter().find(|kind| kind.prefix() == prefix);
            let number = number.parse().ok().filter(|number| *number <= MAX_NUMBER);
            if let (Some(kind), Some(number)) = (kind, number) {
                marks.raise(kind, number);
            }
        }
        marks
    }

    /// Stores them for the next process. The caller holds the project's lock.
    pub(crate) fn save(&self, root: &Root) -> StoreResult<()> {
        let local = local::create(&root.dir)?;
        self.write(&local).map_err(|error| failed(LOCAL, "keep the highest numbers", error))
    }

    fn write(&self, local: &Dir) -> io::Result<()> {
        if self.overwrite(local) {
            return Ok(());
        }
        // A link that a repository brought along under this name is not written through.
        match local.remove_file(TEMP) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let new = OpenOptions::new().write(true).create_new(true).to_owned();
        let mut file = local.open_with(TEMP, &new)?.into_std();
        file.write_all(self.text(&file.metadata()?).as_bytes())?;
        local.rename(TEMP, local, NAME)
    }

    /// Overwrites the present file by one call. Some file systems write a file that replaces
    /// another to disk at once, and each commit would wait for that. Numbers only grow, so nothing
    /// of the old text is left after the new one. False if it is not a file of ours alone.
    fn overwrite(&self, local: &Dir) -> bool {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let Ok(fd) = rustix::fs::openat(local, NAME, flags, Mode::empty()) else { return false };
        let file = File::from(fd);
        let Ok(metadata) = file.metadata() else { return false };
        let (first, text) = (first_line(&metadata), self.text(&metadata));
        let mut begun = vec![0; first.len()];
        let is_ours = metadata.is_file()
            && metadata.nlink() == 1
            && metadata.len() <= text.len() as u64
            && file.read_exact_at(&mut begun, 0).is_ok()
            && begun == first.as_bytes();
        is_ours && file.write_at(text.as_bytes(), 0).is_ok_and(|written| written == text.len())
    }

    fn text(&self, file: &Metadata) -> String {
        let mut text = first_line(file) + "\n";
        for (kind, number) in self.iter() {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{} {number}", kind.prefix());
        }
        text
    }

    /// Stores the numbers that a commit raised, and those of no other kind.
    pub(crate) fn keep(root: &Root, changes: &[DocumentChange]) {
        let mut raised = Numbers::default();
        for change in changes {
            raised.count(change.id());
        }
        if raised.highest.0.is_empty() {
            return;
        }
        let before = Self::load(root);
        let mut kept = before.clone();
        for (kind, number) in raised.highest.iter() {
            kept.0.entry(kind).and_modify(|mark| *mark = believed(*mark));
            kept.raise(kind, number);
        }
        if kept == before {
            return;
        }
        if let Err(error) = kept.save(root) {
            tracing::warn!(%error, "the highest numbers of items were not kept");
        }
    }

    /// Those that may be true although no document has them any more.
    pub(crate) fn believed(mut self) -> Self {
        self.0.values_mut().for_each(|mark| *mark = believed(*mark));
        self
    }
}

/// The very last number is a typo or a lie, unless a document has it.
fn believed(mark: u32) -> u32 {
    if mark < MAX_NUMBER { mark } else { 0 }
}

/// Distinguishes the file from one that came with a clone or a copy.
fn first_line(file: &Metadata) -> String {
    format!("reqlore marks {}", local::file_identity(file))
}

/// The highest numbers that documents have.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    highest: Marks,
    /// Those with the last number of all.
    last: BTreeSet<DocumentId>,
}

impl Numbers {
    /// Counts a document's number, if it has one.
    pub(crate) fn count(&mut self, id: &DocumentId) {
        match Reference::of_document(id) {
            Some(Reference { number: MAX_NUMBER, .. }) => drop(self.last.insert(id.clone())),
            Some(Reference { kind, number }) => self.highest.raise(kind, number),
            None => {}
        }
    }

    /// A document is gone; its number stays given, save the last one.
    pub(crate) fn forget(&mut self, id: &DocumentId) {
        self.last.remove(id);
    }

    pub(crate) fn marks(&self) -> Marks {
        let mut marks = self.highest.clone();
        for Reference { kind, number } in self.last.iter().filter_map(Reference::of_document) {
            marks.raise(kind, number);
        }
        marks
    }
}
