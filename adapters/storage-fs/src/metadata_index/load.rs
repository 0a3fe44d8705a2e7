//! Loads metadata from document files, and caches it on disk for the next process.
//!
//! The cache is in the user's cache folder. A cached entry is valid while its file has the same
//! stamp.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reqlore_domain::document::{Document, DocumentId, DocumentKind, DocumentMeta, Version};
use reqlore_domain::ports::documents::StoreError;
use reqlore_durable_fs::{AtomicWrite, Durability, atomic_write};

use super::by_kind::{FileState, IndexEntry, KindIndex};
use super::change_history::ChangeHistory;
use super::stored_metadata::StoredMetadata;
use crate::file_stamp::{ClockTime, FileStamp};
use crate::layout::ProjectTree;
use crate::list_files;
use crate::read_file::{read_once, retry_partial};
use crate::two_threads::on_two_threads;

/// Metadata read from a file. A file that can't be read has metadata that holds the error.
pub(crate) struct LoadedMetadata {
    pub(crate) metadata: DocumentMeta,
    /// `None` if the next refresh must read the file again.
    pub(crate) stamp: Option<FileStamp>,
    /// The next change of the file will change its stamp.
    pub(crate) is_stamp_reliable: bool,
    /// inotify on the file's folder reports the next change.
    pub(crate) is_watchable: bool,
    is_partial: bool,
}

/// The reason without the document's path, which is shown with the metadata.
fn error_reason(error: &StoreError) -> String {
    match error {
        StoreError::Unavailable { reason, .. }
        | StoreError::Refused { reason, .. }
        | StoreError::Unreadable { reason, .. }
        | StoreError::Busy { reason } => reason.clone(),
        StoreError::Decided(_) | StoreError::Repeated(_) | StoreError::Internal(_) => {
            error.to_string()
        }
    }
}

impl LoadedMetadata {
    pub(crate) fn from_error(
        id: &DocumentId,
        error: &StoreError,
        stamp: Option<FileStamp>,
    ) -> Self {
        // A transient error may end without an event. A link or a folder stays one until replaced.
        let is_transient =
            matches!(error, StoreError::Unavailable { .. } | StoreError::Internal(_));
        let modified = stamp.map(|stamp| stamp.modified_at()).unwrap_or_default();
        let reason = error_reason(error);
        Self {
            metadata: DocumentMeta::placeholder(id.clone(), Version::UNREADABLE, modified, reason),
            stamp: if is_transient { None } else { stamp },
            is_stamp_reliable: false,
            is_watchable: !is_transient,
            is_partial: false,
        }
    }
}

/// Number of documents that are loaded before they are stored, so that memory stays bounded.
const CHUNK_DOCUMENTS: usize = 4_096;

/// Loads the metadata of these documents; `None` for a file that does not exist. Passes each
/// document once to `store`, partially saved files last.
pub(crate) fn load_all(
    ids: &[DocumentId],
    tree: &ProjectTree<'_>,
    mut store: impl FnMut(&DocumentId, Option<LoadedMetadata>),
) {
    let (root, layout) = tree.parts();
    let tree = &ProjectTree::read_only(root, layout);
    let (mut partial_ids, mut partial) = (Vec::new(), Vec::new());
    for chunk in ids.chunks(CHUNK_DOCUMENTS) {
        let loaded = on_two_threads(chunk, |ids| {
            // A tree can't be shared between threads.
            let tree = &ProjectTree::read_only(root, layout);
            ids.iter().map(|id| load_one(id, tree)).collect()
        });
        for (id, loaded) in chunk.iter().zip(loaded) {
            if is_partial(loaded.as_ref()) {
                partial_ids.push(id.clone());
                partial.push(loaded);
            } else {
                store(id, loaded);
            }
        }
    }
    let complete = retry_partial(
        &partial_ids,
        partial,
        |id| load_one(id, tree),
        |loaded| is_partial(loaded.as_ref()),
    );
    for (id, loaded) in partial_ids.iter().zip(complete) {
        store(id, loaded);
    }
}

fn is_partial(loaded: Option<&LoadedMetadata>) -> bool {
    loaded.is_some_and(|loaded| loaded.is_partial)
}

fn load_one(id: &DocumentId, tree: &ProjectTree<'_>) -> Option<LoadedMetadata> {
    let location = match tree.locate(id) {
        Ok(location) => location?,
        Err(error) => return Some(LoadedMetadata::from_error(id, &error, None)),
    };
    // Before the stamp is taken: reading may take long.
    let now = ClockTime::now();
    let stamp = list_files::stat_file(&location.dir, &location.name)?;
    let content = match read_once(&location) {
        Ok(content) => content?,
        Err(error) => {
            let mut loaded = LoadedMetadata::from_error(id, &error, Some(stamp));
            loaded.is_stamp_reliable = stamp.is_reliable_at(now);
            return Some(loaded);
        }
    };
    // From the open file: the name may belong to another file since the first stamp.
    let stamp = content.stamp;
    let document = Document::new(id.clone(), content.bytes);
    Some(LoadedMetadata {
        metadata: DocumentMeta::from_document(&document, stamp.modified_at()),
        // A file that was written while it was read is read again by the next refresh.
        stamp: if content.is_stable { Some(stamp) } else { None },
        is_stamp_reliable: content.is_stamp_reliable,
        is_watchable: !stamp.has_hard_links(),
        is_partial: content.is_partial,
    })
}

/// Prefix of cache files that are still being written.
const TEMP_PREFIX: &str = ".metadata-";

/// The metadata cache on disk; without a folder nothing is cached.
#[derive(Debug, Clone, Default)]
pub(crate) struct MetadataCache {
    pub(crate) parent_dir: Option<PathBuf>,
}

/// The content of a cache file: the history, then a row for each document, those of a kind in the
/// order of names.
#[derive(Debug, Default)]
pub(crate) struct CacheRows {
    bytes: Vec<u8>,
    /// The end of the row that was read last.
    position: usize,
}

/// The content of a cache file, decoded.
#[derive(Debug, Default)]
pub(crate) struct CachedIndex {
    pub(crate) history: Option<ChangeHistory>,
    pub(crate) kinds: HashMap<DocumentKind, KindIndex>,
}

/// Kind and name, the stamp of the file if it proves that the file is unchanged, and the length of
/// the metadata that follows.
type RowStart<'a> = (DocumentKind, &'a str, Option<FileStamp>, usize);

impl CacheRows {
    pub(crate) fn new(history: &ChangeHistory) -> Self {
        Self { bytes: postcard::to_allocvec(history).unwrap_or_default(), position: 0 }
    }

    /// Appends a document with its metadata as [`StoredMetadata::row`].
    pub(crate) fn push(
        &mut self,
        kind: DocumentKind,
        name: &str,
        stamp: Option<FileStamp>,
        row: &[u8],
    ) {
        let start: RowStart<'_> = (kind, name, stamp, row.len());
        if let Ok(start) = postcard::to_allocvec(&start) {
            self.bytes.extend(start);
            self.bytes.extend(row);
        }
    }

    /// Reads the history, which is first.
    fn read_history(&mut self) -> Option<ChangeHistory> {
        let bytes = self.bytes.get(self.position..)?;
        let (history, rest) = postcard::take_from_bytes(bytes).ok()?;
        self.position = self.bytes.len() - rest.len();
        Some(history)
    }

    /// Reads the next document. `None` at the end and at an invalid row.
    fn read_next(&mut self) -> Option<(DocumentKind, &str, Option<FileStamp>, &[u8])> {
        let bytes = self.bytes.get(self.position..)?;
        let (start, rest): (RowStart<'_>, _) = postcard::take_from_bytes(bytes).ok()?;
        let (kind, name, stamp, length) = start;
        let (row, rest) = rest.split_at_checked(length)?;
        self.position = self.bytes.len() - rest.len();
        Some((kind, name, stamp, row))
    }

    #[cfg(all(test, unix))]
    pub(crate) fn stamps(&mut self) -> Vec<Option<FileStamp>> {
        let mut stamps = Vec::new();
        self.read_history();
        while let Some((_, _, stamp, _)) = self.read_next() {
            stamps.push(stamp);
        }
        stamps
    }
}

/// Each version has a file of its own, so that two versions do not replace each other's.
const CACHE_FILE: &str = concat!("metadata-", env!("CARGO_PKG_VERSION"), ".bin");

/// The first bytes of a cache file. `7` is the file format; the second number changes when the same
/// document gets other metadata.
fn file_header() -> Vec<u8> {
    format!("reqlore metadata 7.{}, {}\n", DocumentMeta::FORMAT, env!("CARGO_PKG_VERSION"))
        .into_bytes()
}

impl MetadataCache {
    /// Reads the cache of the project at `path`; empty without a valid cache file.
    pub(crate) fn load(&self, path: &Path) -> CachedIndex {
        self.read_rows(path).and_then(decode_rows).unwrap_or_default()
    }

    fn read_rows(&self, path: &Path) -> Option<CacheRows> {
        let bytes = fs::read(self.project_dir(path)?.join(CACHE_FILE)).ok()?;
        let rest = bytes.strip_prefix(file_header().as_slice())?;
        let (checksum, body) = rest.split_first_chunk()?;
        // The cache is written without a sync, so a power cut may damage it.
        if *checksum != crc32fast::hash(body).to_le_bytes() {
            tracing::info!("metadata cache: the checksum is wrong; rebuilding the cache");
            return None;
        }
        let position = bytes.len() - body.len();
        Some(CacheRows { bytes, position })
    }

    /// Writes the cache. Failing costs the next process time, nothing else.
    pub(crate) fn save(&self, path: &Path, rows: &CacheRows) {
        let Some(dir) = self.project_dir(path) else { return };
        let body = &rows.bytes;
        let checksum = crc32fast::hash(body).to_le_bytes();
        let contents = [&*file_header(), &checksum, body].concat();
        let options = AtomicWrite {
            temp_prefix: OsStr::new(TEMP_PREFIX),
            durability: Durability::Cache,
            is_private: true,
        };
        let written = fs::create_dir_all(&dir).and_then(|()| {
            // Before a new one is created.
            remove_stale_temp_files(&dir);
            atomic_write(&dir.join(CACHE_FILE), &contents, options)
        });
        if let Err(error) = written {
            tracing::debug!(%error, "metadata cache: could not write it");
        }
    }

    fn project_dir(&self, path: &Path) -> Option<PathBuf> {
        let parent_dir = self.parent_dir.as_ref()?;
        // A path has slashes and may be too long for a file name.
        let key = Version::of_bytes(path.as_os_str().as_encoded_bytes());
        Some(parent_dir.join(format!("files-{key}")))
    }
}

/// `None` if a row is invalid: the history must not be used without all documents.
fn decode_rows(mut rows: CacheRows) -> Option<CachedIndex> {
    let history = rows.read_history()?;
    let mut kinds: HashMap<DocumentKind, Vec<(Arc<str>, IndexEntry)>> = HashMap::new();
    while let Some((kind, name, stamp, row)) = rows.read_next() {
        let entries = kinds.entry(kind).or_default();
        let metadata = StoredMetadata::from_row(name, row, entries.len())?;
        // Scans are numbered from 1, so the next one removes an entry that it does not list.
        let is_stamp_reliable = stamp.is_some();
        let file = FileState { stamp, is_stamp_reliable, ..FileState::default() };
        entries.push((Arc::from(name), IndexEntry { metadata, file }));
    }
    if rows.position != rows.bytes.len() {
        return None;
    }
    let kinds = kinds.into_iter().map(|(kind, entries)| (kind, KindIndex::new(entries))).collect();
    Some(CachedIndex { history: Some(history), kinds })
}

/// Removes the temporary files of killed processes. A running process whose file is removed writes
/// its cache the next time.
fn remove_stale_temp_files(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(TEMP_PREFIX)) {
            let _ = fs::remove_file(entry.path());
        }
    }
}
