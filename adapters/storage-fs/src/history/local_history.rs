//! Local history: the latest changes on this machine, kept in `.reqlore/local`.
//!
//! The identity of the file stands before each record, and no author of a text knows it. So damage
//! ends at the next record, and a copied file has none. Nothing is synced: a power cut may lose the
//! newest records, but no document.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use bytes::Bytes;
use memchr::memmem;
use reqlore_domain::document::{Document, DocumentId, DocumentKind, Version};
use reqlore_domain::ports::documents::{DocumentChange, StoreResult};
use reqlore_domain::ports::history::{HistoryEntry, RecentChange};
use reqlore_domain::ports::write_context::{ChangeOrigin, WriteContext};
use reqlore_domain::timestamp::Timestamp;
use reqlore_local_state::private_file::{PrivateFile, local_folder, writable_local_folder};
use serde::{Deserialize, Serialize, Serializer};

use super::merged_entries::{EntrySource, ListedEntry};
use crate::layout::ProjectRoot;
use crate::stage_and_swap::{LoadedDocument, LoadedDocuments};

const FILE_NAME: &str = "history";
/// The file before the current one. The one before that is dropped.
const OLDER_NAME: &str = "history.old";
/// The name of a rewritten file until it is complete.
const TEMP_NAME: &str = "history.new";
/// Maximum size of each of the two files.
const MAX_FILE_BYTES: usize = if cfg!(test) { 64 << 10 } else { 16 << 20 };

/// A change of one document.
#[derive(Serialize, Deserialize)]
struct RecordedChange<'a> {
    id: DocumentId,
    at: Timestamp,
    /// User, tool and reason.
    origin: [Option<String>; 3],
    /// When the file got the state before.
    before_at: Timestamp,
    #[serde(borrow)]
    before: RecordedState<'a>,
    #[serde(borrow)]
    after: RecordedState<'a>,
}

/// A version with its text, unless that was purged or too large; `None` without a document.
type RecordedState<'a> = Option<(Version, Option<RecordedText<'a>>)>;

#[derive(Clone, Copy, Deserialize)]
struct RecordedText<'a>(&'a [u8]);

impl Serialize for RecordedText<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Much faster than byte by byte.
        serializer.serialize_bytes(self.0)
    }
}

/// Records a commit. The caller holds the project's lock. A failure is logged: the documents do not
/// depend on it.
pub(crate) fn record_commit(
    root: &ProjectRoot,
    context: &WriteContext,
    base: &LoadedDocuments,
    changes: &[DocumentChange],
) {
    let ChangeOrigin { user, tool, reason } = context.origin();
    let mut recorded = Vec::new();
    for change in changes {
        let old = base.get(change.id()).and_then(Option::as_ref);
        let modified_at = |old: &LoadedDocument| old.stamp.modified_at();
        let change = RecordedChange {
            id: change.id().clone(),
            at: context.at,
            origin: [user.clone(), tool.clone(), reason.clone()],
            before_at: old.map_or(context.at, modified_at),
            before: old.map(|old| state_of(&old.document)),
            after: match change {
                DocumentChange::Put { document } => Some(state_of(document)),
                DocumentChange::Delete { .. } => None,
            },
        };
        if version_of(change.before) != version_of(change.after) {
            recorded.push(change);
        }
    }
    if let Err(error) = append(root, recorded) {
        tracing::warn!(%error, "the local history was not written");
    }
}

fn append(root: &ProjectRoot, mut changes: Vec<RecordedChange<'_>>) -> StoreResult<()> {
    if changes.is_empty() {
        return Ok(());
    }
    let mut size = 0;
    for change in &mut changes {
        for (_, text) in [&mut change.before, &mut change.after].into_iter().flatten() {
            size += text.map_or(0, |text| text.0.len());
            // One file must have room for all of them.
            *text = text.filter(|_| size <= MAX_FILE_BYTES);
        }
    }
    let local = match local_folder(&root.dir)? {
        Some(local) => local,
        None => writable_local_folder(&root.dir)?,
    };
    let current = PrivateFile::new(&local, FILE_NAME);
    match current.open_to_append() {
        Ok(Some(mut opened)) if opened.metadata.len() + size as u64 <= MAX_FILE_BYTES as u64 => {
            let bytes = encode(&opened.identity, &changes);
            let written = bytes.and_then(|bytes| opened.file.write_all(&bytes));
            return written.map_err(|error| current.failed("write it", error));
        }
        Ok(Some(_)) => current.rename(OLDER_NAME)?,
        // A file that another user or program put there.
        _ => current.remove()?,
    }
    current.create(|identity| encode(identity, &changes)).map(drop)
}

/// Encodes changes for the file with this identity: the identity, a checksum and the record.
fn encode(identity: &str, changes: &[RecordedChange<'_>]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for change in changes {
        let record = postcard::to_allocvec(change).map_err(io::Error::other)?;
        bytes.extend_from_slice(identity.as_bytes());
        bytes.extend_from_slice(&crc32fast::hash(&record).to_le_bytes());
        bytes.extend_from_slice(&record);
    }
    Ok(bytes)
}

/// The files of a project.
#[derive(Default)]
pub(super) struct LocalHistory {
    /// The older one first.
    files: Vec<RecordFile>,
    /// Something that is not a file of this user is in the place of one.
    pub(super) is_blocked: bool,
}

struct RecordFile {
    name: &'static str,
    identity: String,
    bytes: Vec<u8>,
}

impl RecordFile {
    /// Decodes the undamaged records.
    fn changes(&self) -> Vec<RecordedChange<'_>> {
        let mut ends: Vec<usize> = memmem::find_iter(&self.bytes, &self.identity).collect();
        ends.push(self.bytes.len());
        let mut changes = Vec::new();
        for range in ends.windows(2) {
            let bytes = &self.bytes[range[0] + self.identity.len()..range[1]];
            if let Some((checksum, record)) = bytes.split_first_chunk()
                && crc32fast::hash(record) == u32::from_le_bytes(*checksum)
                && let Ok(change) = postcard::from_bytes(record)
            {
                changes.push(change);
            }
        }
        changes
    }
}

impl LocalHistory {
    /// Reads the files. One that cannot be trusted or read has no records.
    pub(super) fn read(root: &ProjectRoot) -> Self {
        let mut history = Self::default();
        let local = match local_folder(&root.dir) {
            Ok(Some(local)) => local,
            local => return Self { is_blocked: local.is_err(), ..history },
        };
        // The current one first: a writer may rename it in between.
        for name in [FILE_NAME, OLDER_NAME] {
            let opened = PrivateFile::new(&local, name).open();
            history.is_blocked |= opened.is_err();
            let Ok(Some(opened)) = opened else { continue };
            let (identity, mut bytes) = (opened.identity, Vec::new());
            let read = opened.file.take(2 * MAX_FILE_BYTES as u64).read_to_end(&mut bytes);
            if read.is_ok() && history.files.iter().all(|file| file.identity != identity) {
                history.files.insert(0, RecordFile { name, identity, bytes });
            }
        }
        history
    }

    /// The changes of all documents, oldest first.
    fn changes(&self) -> Vec<RecordedChange<'_>> {
        self.files.iter().flat_map(RecordFile::changes).collect()
    }

    /// The entries of a document, newest first. A state before a change that no record has is an
    /// edit by hand or a checkout.
    pub(super) fn entries(&self, id: &DocumentId) -> Vec<ListedEntry> {
        let mut entries: Vec<ListedEntry> = Vec::new();
        for change in self.changes() {
            if !change.is_of(id) {
                continue;
            }
            let last = entries.last().and_then(|last| last.entry.version);
            if last != version_of(change.before) {
                let entry = entry_of(change.before, change.before_at, ChangeOrigin::default());
                entries.push(ListedEntry { entry, source: EntrySource::FoundState, commit: None });
            }
            let source = EntrySource::Change;
            entries.push(ListedEntry { entry: change.entry(), source, commit: None });
        }
        entries.reverse();
        entries
    }

    /// Returns the text of a version of a document.
    pub(super) fn text(&self, id: &DocumentId, version: Version) -> Option<Bytes> {
        let changes = self.changes().into_iter().filter(|change| change.is_of(id));
        let mut states = changes.flat_map(|change| [change.before, change.after]).flatten();
        let text = states.find_map(|(found, text)| text.filter(|_| found == version));
        text.map(|text| Bytes::copy_from_slice(text.0))
    }

    /// Returns the changes of all documents since a time, newest first.
    pub(super) fn recent_changes(&self, since: Timestamp, limit: usize) -> Vec<RecentChange> {
        let mut changes = Vec::new();
        for (number, change) in (0..).zip(self.changes()) {
            if change.at >= since {
                changes.push((change.id.clone(), number, change.entry()));
            }
        }
        RecentChange::newest_first(changes, limit)
    }

    /// Returns the last recorded change of each document, and whether the document existed at a
    /// time.
    pub(super) fn last_changes(
        &self,
        since: Timestamp,
    ) -> BTreeMap<DocumentId, (HistoryEntry, bool)> {
        let mut last: BTreeMap<DocumentId, (HistoryEntry, bool)> = BTreeMap::new();
        for change in self.changes() {
            let existed = if change.at < since {
                change.after.is_some()
            } else {
                let before = change.before.is_some() && change.before_at < since;
                last.get(&change.id).map_or(before, |(_, existed)| *existed)
            };
            last.insert(change.id.clone(), (change.entry(), existed));
        }
        last
    }

    /// Erases the texts of these versions of a document. The bytes of damaged records are dropped.
    pub(super) fn purge(
        &self,
        root: &ProjectRoot,
        id: &DocumentId,
        is_purged: impl Fn(Version) -> bool,
    ) -> StoreResult<()> {
        let local = writable_local_folder(&root.dir)?;
        for file in &self.files {
            let mut changes = file.changes();
            for change in changes.iter_mut().filter(|change| change.is_of(id)) {
                for (version, text) in [&mut change.before, &mut change.after].into_iter().flatten()
                {
                    *text = text.filter(|_| !is_purged(*version));
                }
            }
            let temp = PrivateFile::new(&local, TEMP_NAME);
            // Of a killed process.
            temp.remove()?;
            temp.create(|identity| encode(identity, &changes))?;
            temp.rename(file.name)?;
        }
        Ok(())
    }
}

impl RecordedChange<'_> {
    /// An item's name is unique, so one that was moved to another folder is followed.
    fn is_of(&self, id: &DocumentId) -> bool {
        fn file_name(id: &DocumentId) -> Option<&str> {
            id.name.rsplit('/').next()
        }
        let is_item = matches!(id.kind, DocumentKind::Item(_)) && self.id.kind == id.kind;
        self.id == *id || is_item && file_name(&self.id) == file_name(id)
    }

    fn entry(&self) -> HistoryEntry {
        let [user, tool, reason] = self.origin.clone();
        entry_of(self.after, self.at, ChangeOrigin { user, tool, reason })
    }
}

fn entry_of(state: RecordedState<'_>, at: Timestamp, origin: ChangeOrigin) -> HistoryEntry {
    let is_purged = matches!(state, Some((_, None)));
    HistoryEntry { version: version_of(state), at, origin, is_purged }
}

fn state_of(document: &Document) -> (Version, Option<RecordedText<'_>>) {
    (document.version, Some(RecordedText(&document.body)))
}

fn version_of(state: RecordedState<'_>) -> Option<Version> {
    state.map(|(version, _)| version)
}
