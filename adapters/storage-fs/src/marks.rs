//! The highest numbers that items ever had, so that none is given twice.
//!
//! The files themselves tell nearly all: an item that is deleted leaves its number in a tombstone.
//! What is kept in `.reqlore/local` matters when a person removes the newest file by hand; so it is
//! not synced, and a damaged or missing file is no error.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};

use cap_std::fs::{Dir, OpenOptions};
use reqlore_domain::backlog::reference::MAX_NUMBER;
use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::document::DocumentId;
use reqlore_domain::ports::documents::{Change, StoreResult};

use crate::error::failed;
use crate::layout::Root;
use crate::local::{self, LOCAL};
use crate::read::read_file;

/// The file, and what it is called until it is whole.
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

    /// Counts a document's number, if it has one.
    pub(crate) fn count(&mut self, id: &DocumentId) {
        if let Some(Reference { kind, number }) = Reference::of(id) {
            self.raise(kind, number);
        }
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

    /// Those that were kept for a project.
    pub(crate) fn load(root: &Root) -> Self {
        let local = local::find(root).ok().flatten();
        let found = local.and_then(|local| read_file(&local, NAME, NAME).ok().flatten());
        let mut marks = Self::default();
        let Some(found) = found else { return marks };
        for line in String::from_utf8_lossy(&found.bytes).lines() {
            let (prefix, number) = line.split_once(' ').unwrap_or_default();
            let kind = ItemKind::ALL.into_iter().find(|kind| kind.prefix() == prefix);
            let number = number.parse().ok().filter(|number| *number <= MAX_NUMBER);
            if let (Some(kind), Some(number)) = (kind, number) {
                marks.raise(kind, number);
            }
        }
        marks
    }

    /// Keeps them for the next process. Only the holder of the project's lock may.
    pub(crate) fn save(&self, root: &Root) -> StoreResult<()> {
        let local = local::create(root)?;
        self.write(&local).map_err(|error| failed(LOCAL, "keep the highest numbers", error))
    }

    fn write(&self, local: &Dir) -> io::Result<()> {
        let mut text = String::new();
        for (kind, number) in self.iter() {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{} {number}", kind.prefix());
        }
        // Whatever a repository brought along under this name is not written through.
        match local.remove_file(TEMP) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let new = OpenOptions::new().write(true).create_new(true).to_owned();
        local.open_with(TEMP, &new)?.write_all(text.as_bytes())?;
        local.rename(TEMP, local, NAME)
    }

    /// Keeps what a commit raised.
    pub(crate) fn keep(root: &Root, known: &Self, changes: &[Change]) {
        let mut raised = Self::default();
        for change in changes {
            raised.count(change.id());
        }
        if raised.0.is_empty() {
            return;
        }
        let mut kept = Self::load(root);
        if raised.iter().all(|(kind, number)| kept.0.get(&kind).is_some_and(|k| *k >= number)) {
            return;
        }
        kept.merge(known);
        kept.merge(&raised);
        if let Err(error) = kept.save(root) {
            tracing::debug!(%error, "the highest numbers of items were not kept");
        }
    }
}
