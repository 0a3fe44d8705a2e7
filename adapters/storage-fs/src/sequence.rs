//! Sequence high-water marks: the highest number of each item kind, so that no number is reused.
//!
//! Usually the files are enough, because a deleted item leaves its number in a tombstone. The marks
//! in `.reqlore/local` matter when a user removes the newest file by hand. So that file is not
//! synced, and a damaged or missing one is not an error. A mark that is too high would use up its
//! kind for good. So a file that came with a clone or a copy is ignored, and a mark at the limit is
//! valid only while a document has that number. A clone with linked work trees has further marks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{self, Read, Write};

use cap_std::fs::Dir;
use reqlore_domain::backlog::reference::MAX_NUMBER;
use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::document::DocumentId;
use reqlore_domain::ports::documents::{DocumentChange, StoreResult};
use reqlore_durable_fs::folder::{
    FileAccess, create_file, open_file, open_file_has_hard_links, remove_file, rename,
};
use reqlore_durable_fs::read_exact_at;
use reqlore_local_state as local;
use reqlore_local_state::error::failed;
use reqlore_local_state::{self, LOCAL_STATE_DIR, file_identity};

use crate::layout::ProjectRoot;
use crate::system::write_at_once;

const FILE_NAME: &str = "marks";
const TEMP_NAME: &str = ".marks.tmp";

/// The highest number of each kind that ever had an item.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct HighWaterMarks(BTreeMap<ItemKind, u32>);

impl HighWaterMarks {
    pub(crate) fn raise(&mut self, kind: ItemKind, number: u32) {
        let mark = self.0.entry(kind).or_default();
        *mark = (*mark).max(number);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (kind, number) in other.iter() {
            self.raise(kind, number);
        }
    }

    pub(crate) fn next_number(&self, kind: ItemKind) -> u32 {
        self.0.get(&kind).map_or(1, |mark| mark + 1)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ItemKind, u32)> {
        self.0.iter().map(|(kind, number)| (*kind, *number))
    }

    /// Reads a project's marks. Without a valid file there are none.
    pub(crate) fn load(root: &ProjectRoot) -> Self {
        // Without marks, the numbers of the existing documents are enough.
        let Ok(Some(local)) = local::open_existing(&root.dir) else { return Self::default() };
        Self::read(&local, FILE_NAME)
    }

    pub(crate) fn read(folder: &Dir, name: &str) -> Self {
        let mut marks = Self::default();
        let Ok((first, bytes)) = read_with_first_line(folder, name) else { return marks };
        let text = String::from_utf8_lossy(&bytes);
        let mut lines = text.lines();
        if lines.next() != Some(&first) {
            return marks;
        }
        for line in lines {
            let (prefix, number) = line.split_once(' ').unwrap_or_default();
            // Damaged lines are ignored, and the other ones are valid.
            let kind = ItemKind::ALL.into_iter().find(|kind| kind.prefix() == prefix);
            if let (Some(kind), Ok(number)) = (kind, number.parse())
                // A forged number must not overflow in `next_number`.
                && number <= MAX_NUMBER
            {
                marks.raise(kind, number);
            }
        }
        marks
    }

    /// Stores the marks for the next process. The caller holds the project's lock.
    pub(crate) fn save(&self, root: &ProjectRoot) -> StoreResult<()> {
        let local = local::open_or_create(&root.dir)?;
        self.write(&local, FILE_NAME)
            .map_err(|error| failed(LOCAL_STATE_DIR, "save the sequence high-water marks", error))
    }

    pub(crate) fn write(&self, local: &Dir, name: &str) -> io::Result<()> {
        if matches!(self.overwrite(local, name), Ok(true)) {
            return Ok(());
        }
        // A repository may contain a link of this name; removing it avoids writing through it.
        match remove_file(local, TEMP_NAME) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = create_file(local, TEMP_NAME, 0o666)?;
        let identity = file_identity(&file, &file.metadata()?)?;
        file.write_all(self.to_text(&first_line(&identity)).as_bytes())?;
        // Not synced: after a power cut the numbers in the files are enough.
        rename(local, TEMP_NAME, name)
    }

    /// Overwrites the existing file with one write. Returns false if it is missing or not our own.
    ///
    /// A rename would be slower: some file systems then write the file to disk at once, and each
    /// commit would wait for that. Numbers only grow, so no rest of the old text follows the new.
    fn overwrite(&self, local: &Dir, name: &str) -> io::Result<bool> {
        let Some(file) = open_file(local, name, FileAccess::Update)?.file() else {
            return Ok(false);
        };
        let metadata = file.metadata()?;
        let expected = first_line(&file_identity(&file, &metadata)?);
        let text = self.to_text(&expected);
        let mut first_bytes = vec![0; expected.len()];
        let is_ours = metadata.is_file()
            // A second name may be outside the project, where nothing must change.
            && !open_file_has_hard_links(&file, &metadata)?
            // A longer file would keep the end of its old text.
            && metadata.len() <= text.len() as u64
            && read_exact_at(&file, &mut first_bytes, 0).is_ok()
            && first_bytes == expected.as_bytes();
        Ok(is_ours && write_at_once(&file, text.as_bytes())? == text.len())
    }

    fn to_text(&self, first_line: &str) -> String {
        let mut text = format!("{first_line}\n");
        for (kind, number) in self.iter() {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{} {number}", kind.prefix());
        }
        text
    }

    /// Stores the high-water marks that a commit raised, also in `shared`: the folder and file of
    /// all work trees of the clone. Only logs a failure, because the items' files have the numbers.
    pub(crate) fn save_committed(
        root: &ProjectRoot,
        shared: Option<(&Dir, &str)>,
        changes: &[DocumentChange],
    ) {
        let mut committed = IssuedNumbers::default();
        for change in changes {
            committed.add(change.id());
        }
        if committed.highest.0.is_empty() {
            return;
        }
        let mut before = Self::load(root);
        if let Some((folder, name)) = shared {
            before.merge(&Self::read(folder, name).without_exhausted());
        }
        let mut marks = before.clone();
        for (kind, number) in committed.highest.iter() {
            // A mark at the limit must not survive the correction of a typing error.
            if let Some(mark) = marks.0.get_mut(&kind) {
                *mark = trusted_mark(*mark);
            }
            marks.raise(kind, number);
        }
        if marks == before {
            return;
        }
        if let Err(error) = marks.save(root) {
            tracing::warn!(%error, "the sequence high-water marks were not saved");
        }
        if let Some((folder, name)) = shared
            && let Err(error) = marks.write(folder, name)
        {
            tracing::warn!(%error, "the marks in the common Git folder were not saved");
        }
    }

    /// Removes the marks at the limit, which are valid only while a document has that number.
    pub(crate) fn without_exhausted(mut self) -> Self {
        for mark in self.0.values_mut() {
            *mark = trusted_mark(*mark);
        }
        self
    }
}

/// A mark at the limit is a typing error or forged, unless a document has that number.
fn trusted_mark(mark: u32) -> u32 {
    if mark < MAX_NUMBER { mark } else { 0 }
}

/// The first line identifies the file itself, so that a clone or a copy of it is not valid.
fn first_line(identity: &str) -> String {
    format!("reqlore marks {identity}")
}

/// Reads a file of marks. Returns the first line that it must have, and its bytes.
fn read_with_first_line(folder: &Dir, name: &str) -> io::Result<(String, Vec<u8>)> {
    /// Ours are much shorter.
    const MAX_BYTES: u64 = 64 << 10;
    let opened = open_file(folder, name, FileAccess::Read)?.file();
    let file = opened.ok_or(io::ErrorKind::NotFound)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let first = first_line(&file_identity(&file, &metadata)?);
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok((first, bytes))
}

/// The item numbers of the documents that this process has seen.
#[derive(Debug, Default)]
pub(crate) struct IssuedNumbers {
    /// Of the documents whose number is below the limit.
    pub(crate) highest: HighWaterMarks,
    /// The documents whose number is the limit.
    with_last_number: BTreeSet<DocumentId>,
}

impl IssuedNumbers {
    /// Adds a document's number, if it has one.
    pub(crate) fn add(&mut self, id: &DocumentId) {
        match Reference::from_document(id) {
            // Kept by document, so that removing the document frees the number.
            Some(Reference { number: MAX_NUMBER, .. }) => {
                self.with_last_number.insert(id.clone());
            }
            Some(Reference { kind, number }) => self.highest.raise(kind, number),
            None => {}
        }
    }

    /// Removes a document. Its number stays issued, unless it is the limit.
    pub(crate) fn remove(&mut self, id: &DocumentId) {
        self.with_last_number.remove(id);
    }

    pub(crate) fn high_water_marks(&self) -> HighWaterMarks {
        let mut marks = self.highest.clone();
        for id in &self.with_last_number {
            if let Some(Reference { kind, number }) = Reference::from_document(id) {
                marks.raise(kind, number);
            }
        }
        marks
    }
}
