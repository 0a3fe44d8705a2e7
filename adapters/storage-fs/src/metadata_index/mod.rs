//! In-memory index of document metadata, valid while `stat` or inotify reports no change.
//!
//! Two writes within the clock's resolution can leave the same `stat` result. So a file written
//! less than two seconds before it was read is read again, unless inotify watched it all the time.
//! Files that inotify can't cover are inspected at each refresh: those with hard links, and those
//! with a transient error.

mod body_cache;
pub(crate) mod by_kind;
mod change_history;
mod entity_totals;
pub(crate) mod load;
pub(crate) mod stored_metadata;
pub(crate) mod watch_state;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, ScopedJoinHandle};

use reqlore_domain::document::{Document, DocumentId, DocumentKind, DocumentMeta, Version};
use reqlore_domain::ports::change_page::{ChangePage, ChangePosition, Revision};
use reqlore_domain::ports::documents::{
    BacklinkQuery, DocumentChange, DocumentFilter, MetadataPage, StoreResult,
};
use reqlore_domain::timestamp::Timestamp;

use crate::file_stamp::{ClockTime, FileStamp};
use crate::inotify::{TreeWatcher, WatchQueue};
use crate::layout::{DocumentArea, ProjectTree};
use crate::list_files::{self, ListedFile};
use crate::read_file::FileContent;
use crate::sequence::{HighWaterMarks, IssuedNumbers};
use body_cache::BodyCache;
use by_kind::{FileState, IndexEntry, KindIndex};
use change_history::ChangeHistory;
use load::{CacheRows, CachedIndex, LoadedMetadata, MetadataCache, load_all};
use stored_metadata::MAX_DECODED;
use watch_state::WatchState;

/// The metadata index of one project.
#[derive(Debug, Default)]
pub(crate) struct MetadataIndex {
    changes: ChangeHistory,
    kinds: HashMap<DocumentKind, KindIndex>,
    knowledge: WatchState,
    backlog: WatchState,
    pub(crate) numbers: IssuedNumbers,
    /// Numbers the scans, to find the documents that the last one did not list.
    scan_count: u32,
    bodies: BodyCache,
    watch_queue: WatchQueue,
    is_cache_loaded: bool,
    /// Number of documents that were loaded since the cache was last written.
    unsaved: usize,
}

/// Measured sizes: an index without documents, and a document's metadata with its list entries.
const BASE_BYTES: usize = 2_048;
const DECODED_BYTES: usize = 1_500;
const ENCODED_BYTES: usize = 450;

impl MetadataIndex {
    pub(crate) fn new(watch_queue: WatchQueue) -> Self {
        Self {
            changes: ChangeHistory::default(),
            kinds: HashMap::new(),
            knowledge: WatchState::default(),
            backlog: WatchState::default(),
            numbers: IssuedNumbers::default(),
            scan_count: 0,
            bodies: BodyCache::default(),
            watch_queue,
            is_cache_loaded: false,
            unsaved: 0,
        }
    }

    /// An estimate of the memory that the index uses.
    pub(crate) fn size_bytes(&self) -> usize {
        let mut size = BASE_BYTES + self.bodies.size;
        for kind_index in self.kinds.values() {
            let decoded = kind_index.entries.len().min(MAX_DECODED);
            let encoded = kind_index.entries.len() - decoded;
            size += decoded * DECODED_BYTES + encoded * ENCODED_BYTES;
        }
        size
    }

    /// Returns the version of the document if its stamp alone proves that the file is unchanged.
    pub(crate) fn cached_version(&self, id: &DocumentId, stamp: FileStamp) -> Option<Version> {
        let IndexEntry { metadata, file } =
            self.kinds.get(&id.kind)?.entries.get(id.name.as_str())?;
        let is_unchanged = file.is_stamp_reliable && file.stamp == Some(stamp);
        is_unchanged.then(|| metadata.version())
    }

    /// Returns the document if its file is unchanged and its body is cached.
    pub(crate) fn cached_document(&self, id: &DocumentId, stamp: FileStamp) -> Option<Document> {
        let version = self.cached_version(id, stamp)?;
        let body = self.bodies.get(id, version)?;
        Some(Document { id: id.clone(), body, version })
    }

    /// Turns a file's content into a document, and reuses the version of an unchanged file.
    pub(crate) fn record_read(&mut self, id: &DocumentId, content: &FileContent) -> Document {
        let stamp = content.stamp;
        if content.is_stable
            && let Some(version) = self.cached_version(id, stamp)
        {
            self.bodies.put(id, version, &content.bytes);
            return Document { id: id.clone(), body: content.bytes.clone(), version };
        }
        let document = Document::new(id.clone(), content.bytes.clone());
        // The content may be older than the index. A section is compared with its file at each
        // refresh; an entity would stay outdated until the next inotify event.
        if content.is_stable && DocumentArea::of_kind(id.kind).is_none() {
            let metadata = DocumentMeta::from_document(&document, stamp.modified_at());
            self.insert(metadata, Some(stamp), content.is_stamp_reliable, false);
        }
        document
    }

    /// Records our own commit. Until a file is read again, its modification time is `time`.
    pub(crate) fn record_commit(
        &mut self,
        changes: &[DocumentChange],
        time: Timestamp,
    ) -> Revision {
        if !changes.is_empty() {
            self.changes.begin_revision();
        }
        for change in changes {
            let id = change.id();
            self.numbers.add(id);
            self.changes.record(id);
            let kind_index = self.kinds.entry(id.kind).or_default();
            match change {
                DocumentChange::Put { document } => {
                    let metadata = DocumentMeta::from_document(document, time);
                    // Dirty until its file is inspected.
                    let last_scan = self.scan_count;
                    kind_index.insert(metadata, FileState { last_scan, ..FileState::default() });
                }
                DocumentChange::Delete { .. } => {
                    kind_index.remove(&id.name);
                    self.numbers.remove(id);
                }
            }
            // An editor may have written since, and its event may have been handled already.
            if let Some(area) = DocumentArea::of_kind(id.kind) {
                self.watch_state(area).dirty.insert(id.clone());
            }
        }
        self.changes.revision()
    }

    fn watch_state(&mut self, area: DocumentArea) -> &mut WatchState {
        match area {
            DocumentArea::Knowledge => &mut self.knowledge,
            DocumentArea::Backlog => &mut self.backlog,
        }
    }

    fn files_mut(&mut self, area: DocumentArea) -> impl Iterator<Item = &mut FileState> {
        let in_area = self
            .kinds
            .iter_mut()
            .filter(move |(kind, _)| DocumentArea::of_kind(**kind) == Some(area));
        in_area.flat_map(|(_, index)| index.entries.values_mut().map(|entry| &mut entry.file))
    }

    /// True if inotify guarantees that the index holds the current metadata of these kinds, all of
    /// which must be in an area.
    pub(crate) fn is_current(&mut self, kinds: &[DocumentKind]) -> bool {
        for area in DocumentArea::of_kinds(kinds) {
            if !self.drain_events(area) || !self.watch_state(area).is_current() {
                return false;
            }
        }
        true
    }

    pub(crate) fn changes_since(
        &mut self,
        since: Option<ChangePosition>,
        limit: usize,
    ) -> ChangePage {
        let documents = self.kinds.values().map(|kind| kind.entries.len()).sum();
        self.changes.changes_since(since, limit, documents)
    }

    /// Returns the metadata of all documents of a kind, sorted by name, as of its last refresh.
    pub(crate) fn all_of_kind(&self, kind: DocumentKind) -> Vec<Arc<DocumentMeta>> {
        self.kinds.get(&kind).into_iter().flat_map(KindIndex::all).collect()
    }

    /// The index of a kind as of its last refresh.
    pub(crate) fn of_kind(&mut self, kind: DocumentKind) -> &mut KindIndex {
        self.kinds.entry(kind).or_default()
    }

    pub(crate) fn page(&self, filter: &DocumentFilter) -> MetadataPage {
        match self.kinds.get(&filter.kind) {
            Some(kind_index) => kind_index.page(filter),
            None => MetadataPage::select(Vec::new(), filter),
        }
    }

    /// Returns the documents with each reference or name, as of the kind's last refresh.
    pub(crate) fn lookup(
        &self,
        kind: DocumentKind,
        words: &[String],
    ) -> Vec<Vec<Arc<DocumentMeta>>> {
        let Some(kind_index) = self.kinds.get(&kind) else { return vec![Vec::new(); words.len()] };
        words.iter().map(|word| kind_index.lookup(word)).collect()
    }

    /// Returns the backlinks of each target, as of the last refresh of the query's kinds.
    pub(crate) fn backlinks(&self, query: &BacklinkQuery) -> Vec<Vec<Arc<DocumentMeta>>> {
        let mut kind_indexes = Vec::new();
        // In the order of all kinds, so that the result does not depend on the query.
        for kind in DocumentKind::ALL {
            if query.kinds.contains(&kind) {
                kind_indexes.extend(self.kinds.get(&kind));
            }
        }
        let mut backlinks = Vec::with_capacity(query.targets.len());
        for target in &query.targets {
            let mut sources = Vec::new();
            for kind_index in &kind_indexes {
                kind_index.append_backlinks(target, &mut sources);
            }
            backlinks.push(sources);
        }
        backlinks
    }

    /// Returns the highest item numbers, as of the backlog's last refresh.
    pub(crate) fn high_water_marks(&self) -> HighWaterMarks {
        self.numbers.high_water_marks()
    }

    fn insert_loaded(&mut self, loaded: LoadedMetadata, is_watched: bool) {
        let LoadedMetadata { metadata, stamp, is_stamp_reliable, is_watchable, .. } = loaded;
        if let Some(area) = DocumentArea::of_kind(metadata.id.kind) {
            let unwatchable = &mut self.watch_state(area).unwatchable;
            if is_watchable {
                unwatchable.remove(&metadata.id);
            } else {
                unwatchable.insert(metadata.id.clone());
            }
        }
        self.insert(metadata, stamp, is_stamp_reliable, is_watched && is_watchable);
    }

    fn insert(
        &mut self,
        metadata: DocumentMeta,
        stamp: Option<FileStamp>,
        is_stamp_reliable: bool,
        is_watched: bool,
    ) {
        self.numbers.add(&metadata.id);
        let kind = metadata.id.kind;
        let kind_index = self.kinds.entry(kind).or_default();
        // Comparing decodes the old metadata, so it is skipped without a reader of changes.
        if self.changes.is_started() {
            let old = kind_index.entries.get(metadata.id.name.as_str());
            if old.is_none_or(|old| !old.metadata.is_equal(&metadata)) {
                self.changes.begin_revision();
                self.changes.record(&metadata.id);
            }
        }
        let last_scan = self.scan_count;
        kind_index.insert(metadata, FileState { stamp, last_scan, is_stamp_reliable, is_watched });
        self.unsaved += 1;
    }

    fn remove(&mut self, id: &DocumentId) {
        self.numbers.remove(id);
        if let Some(area) = DocumentArea::of_kind(id.kind) {
            self.watch_state(area).unwatchable.remove(id);
        }
        let kind_index = self.kinds.entry(id.kind).or_default();
        if kind_index.remove(&id.name) {
            self.changes.begin_revision();
            self.changes.record(id);
        }
    }

    /// Adds the documents of the cache file, and continues its history.
    fn insert_cached(&mut self, cached: CachedIndex) {
        // This process may have read and written documents before.
        let mut newer = Vec::new();
        for (kind, kind_index) in &self.kinds {
            for (name, entry) in &kind_index.entries {
                let old = cached.kinds.get(kind).and_then(|cached| cached.metadata(name));
                if old.is_none_or(|old| !entry.metadata.is_equal(&old)) {
                    newer.push(DocumentId { kind: *kind, name: name.to_string() });
                }
            }
        }
        for (kind, cached) in cached.kinds {
            // Only items have numbers.
            if DocumentArea::of_kind(kind) == Some(DocumentArea::Backlog) {
                for name in cached.entries.keys() {
                    self.numbers.add(&DocumentId { kind, name: name.to_string() });
                }
            }
            self.kinds.entry(kind).or_default().add_cached(cached);
        }
        if let Some(history) = cached.history {
            self.changes.resume(history);
            for id in newer {
                self.changes.begin_revision();
                self.changes.record(&id);
            }
        }
        self.is_cache_loaded = true;
    }

    /// True if the cache file should be written now, and not when the index is closed.
    pub(crate) fn has_large_changes(&self) -> bool {
        let total: usize = self.kinds.values().map(|kind| kind.entries.len()).sum();
        self.is_cache_loaded && self.unsaved > MIN_UNSAVED_TO_WRITE.max(total / 20)
    }

    /// Returns the new content of the cache file; `None` if the file is up to date.
    pub(crate) fn take_unsaved(&mut self) -> Option<CacheRows> {
        // Before the cache file is loaded, a write would lose its documents.
        if !self.is_cache_loaded || (self.unsaved == 0 && !self.changes.is_unsaved) {
            return None;
        }
        (self.unsaved, self.changes.is_unsaved) = (0, false);
        // Makes entries with new events dirty: their stamps prove nothing.
        for area in DocumentArea::ALL {
            self.drain_events(area);
        }
        let mut dirty: HashSet<(DocumentKind, &str)> = HashSet::new();
        for id in self.knowledge.dirty.iter().chain(&self.backlog.dirty) {
            dirty.insert((id.kind, &id.name));
        }
        let now = ClockTime::now();
        let mut rows = CacheRows::new(&self.changes);
        for (kind, kind_index) in &self.kinds {
            for (name, IndexEntry { metadata, file }) in &kind_index.entries {
                let stamp = file.stamp.filter(|stamp| {
                    let is_old = file.is_watched && stamp.is_reliable_at(now);
                    (file.is_stamp_reliable || is_old) && !dirty.contains(&(*kind, name))
                });
                if let Some(row) = metadata.row() {
                    rows.push(*kind, name, stamp, &row);
                }
            }
        }
        Some(rows)
    }
}

/// With at most this many new documents, the cache is only written when the index is closed.
const MIN_UNSAVED_TO_WRITE: usize = 256;

/// With more documents that inotify can't cover, a scan is faster than inspecting each.
const MAX_UNWATCHABLE: usize = 1_000;

impl MetadataIndex {
    /// Brings these kinds up to date. Reads what inotify reports, or scans an area if inotify
    /// can't tell or `is_full` is set.
    pub(crate) fn refresh(
        &mut self,
        kinds: &[DocumentKind],
        tree: &ProjectTree<'_>,
        path: &Path,
        cache: &MetadataCache,
        is_full: bool,
    ) -> StoreResult<()> {
        for area in DocumentArea::of_kinds(kinds) {
            self.refresh_area(area, tree, path, cache, is_full)?;
        }
        for kind in kinds {
            if DocumentArea::of_kind(*kind).is_none() {
                self.refresh_by_stat(*kind, tree)?;
            }
        }
        Ok(())
    }

    fn refresh_area(
        &mut self,
        area: DocumentArea,
        tree: &ProjectTree<'_>,
        path: &Path,
        cache: &MetadataCache,
        is_full: bool,
    ) -> StoreResult<()> {
        // Before anything is read, so that later changes cause new events.
        let is_watcher_valid = self.drain_events(area);
        let state = self.watch_state(area);
        let is_scan_needed =
            is_full || !state.is_scanned || state.unwatchable.len() > MAX_UNWATCHABLE;
        if is_watcher_valid && !is_scan_needed {
            self.refresh_dirty(area, tree);
            return Ok(());
        }
        self.invalidate(area, is_full);
        // Taken out, so that after an error nothing is valid because of it.
        let mut watcher = self.watch_state(area).watcher.take();
        if watcher.is_none() {
            watcher = TreeWatcher::start(&self.watch_queue, tree.root, path, area);
        }
        let is_cache_loaded = self.is_cache_loaded;
        let (listed, cached) = thread::scope(|scope| {
            let builder = thread::Builder::new();
            // Loading takes as long as listing.
            let loading =
                (!is_cache_loaded).then(|| builder.spawn_scoped(scope, || cache.load(path)));
            let listed =
                list_files::list_documents(tree.root, area, None, &mut |handle, folder| {
                    if let Some(watcher) = &mut watcher {
                        watcher.add_folder(handle, folder);
                    }
                });
            // Without a thread, or after a panic, all documents are read.
            let cached = loading.map(|loading| match loading.map(ScopedJoinHandle::join) {
                Ok(Ok(cached)) => cached,
                _ => CachedIndex::default(),
            });
            (listed, cached)
        });
        if let Some(cached) = cached {
            self.insert_cached(cached);
        }
        // A watcher that misses a folder is useless; the next refresh tries a new one.
        let watcher = watcher.filter(TreeWatcher::is_complete);
        let listed = listed?;
        for kind in area.kinds() {
            self.kinds.entry(*kind).or_default().unread.clear();
        }
        for (kind, file) in listed.unread {
            self.kinds.entry(kind).or_default().unread.push(file);
        }
        self.apply_scan(area.kinds(), listed.documents, tree, watcher.is_some());
        let state = self.watch_state(area);
        state.is_scanned = true;
        state.watcher = watcher;
        Ok(())
    }

    /// Drains the inotify queue of an area; false if the watcher is no longer valid.
    fn drain_events(&mut self, area: DocumentArea) -> bool {
        let is_valid = self.watch_state(area).drain_events();
        if !is_valid {
            for file in self.files_mut(area) {
                file.is_watched = false;
            }
        }
        is_valid
    }

    /// Invalidates the stamps of dirty documents. A full refresh does not rely on inotify either.
    fn invalidate(&mut self, area: DocumentArea, is_full: bool) {
        if is_full {
            for file in self.files_mut(area) {
                file.is_watched = false;
            }
        }
        for id in std::mem::take(&mut self.watch_state(area).dirty) {
            if let Some(kind_index) = self.kinds.get_mut(&id.kind)
                && let Some(entry) = kind_index.entries.get_mut(id.name.as_str())
            {
                // A second write within the clock's resolution may have left the same stamp.
                entry.file.stamp = None;
            }
        }
    }

    /// Refreshes a kind outside the areas by inspecting each of its few files.
    fn refresh_by_stat(&mut self, kind: DocumentKind, tree: &ProjectTree<'_>) -> StoreResult<()> {
        let listed = list_by_stat(kind, tree)?;
        self.apply_scan(&[kind], listed, tree, false);
        Ok(())
    }

    /// True if the stamps of all files of a kind outside the areas prove that the index is current.
    pub(crate) fn is_current_by_stat(&self, kind: DocumentKind, tree: &ProjectTree<'_>) -> bool {
        let Ok(listed) = list_by_stat(kind, tree) else { return false };
        let known = self.kinds.get(&kind).map_or(0, |kind| kind.entries.len());
        // A removed file is not listed, so the counts differ.
        listed.len() == known
            && listed.iter().all(|file| self.cached_version(&file.id, file.stamp).is_some())
    }

    /// Compares the index with a complete listing of some kinds: loads new and changed documents,
    /// and removes those that are not listed.
    fn apply_scan(
        &mut self,
        kinds: &[DocumentKind],
        listed: Vec<ListedFile>,
        tree: &ProjectTree<'_>,
        is_watched: bool,
    ) {
        self.scan_count = self.scan_count.wrapping_add(1);
        let scan = self.scan_count;
        let mut outdated = Vec::new();
        for ListedFile { id, stamp } in listed {
            let kind_index = self.kinds.entry(id.kind).or_default();
            let Some(IndexEntry { file, .. }) = kind_index.entries.get_mut(id.name.as_str()) else {
                outdated.push(id);
                continue;
            };
            // A young file's stamp is valid only as long as inotify would report a change.
            if file.stamp != Some(stamp) || !(file.is_stamp_reliable || file.is_watched) {
                outdated.push(id);
                continue;
            }
            file.last_scan = scan;
            // A write by a name in another folder causes no event here.
            if stamp.has_hard_links()
                && let Some(area) = DocumentArea::of_kind(id.kind)
            {
                self.watch_state(area).unwatchable.insert(id);
            }
        }
        load_all(&outdated, tree, |_, loaded| {
            if let Some(loaded) = loaded {
                self.insert_loaded(loaded, is_watched);
            }
        });
        for kind in kinds {
            let mut removed = Vec::new();
            let kind_index = self.kinds.entry(*kind).or_default();
            for (name, entry) in &kind_index.entries {
                if entry.file.last_scan != scan {
                    removed.push(DocumentId { kind: *kind, name: name.to_string() });
                }
            }
            if outdated.len() > kind_index.entries.len() / 2 {
                kind_index.shrink();
            }
            for id in removed {
                self.remove(&id);
            }
        }
    }

    /// Loads the dirty documents, and those that inotify can't cover if their stamp differs.
    fn refresh_dirty(&mut self, area: DocumentArea, tree: &ProjectTree<'_>) {
        let dirty = std::mem::take(&mut self.watch_state(area).dirty);
        let unwatchable = match area {
            DocumentArea::Knowledge => &self.knowledge.unwatchable,
            DocumentArea::Backlog => &self.backlog.unwatchable,
        };
        let mut ids = Vec::new();
        for id in unwatchable {
            if !dirty.contains(id) && !self.is_unchanged(id, tree) {
                ids.push(id.clone());
            }
        }
        ids.extend(dirty);
        load_all(&ids, tree, |id, loaded| match loaded {
            Some(loaded) => self.insert_loaded(loaded, true),
            None => self.remove(id),
        });
    }

    /// True if the stamp of the document's file proves that it is unchanged.
    fn is_unchanged(&self, id: &DocumentId, tree: &ProjectTree<'_>) -> bool {
        let Ok(Some(location)) = tree.locate(id) else { return false };
        match list_files::stat_file(&location.dir, &location.name) {
            Some(stamp) => self.cached_version(id, stamp).is_some(),
            None => false,
        }
    }
}

/// Lists the few files of a kind outside the areas.
fn list_by_stat(kind: DocumentKind, tree: &ProjectTree<'_>) -> StoreResult<Vec<ListedFile>> {
    match kind {
        DocumentKind::Template => {
            let ids = list_files::template_ids(tree.root)?;
            Ok(ids.iter().flat_map(|id| list_single(id, tree)).collect())
        }
        DocumentKind::Section => list_files::list_sections(tree.requirements()?),
        DocumentKind::Docsets => Ok(list_single(&DocumentId::docsets(), tree)),
        DocumentKind::Schema => Ok(list_single(&DocumentId::schema(), tree)),
        _ => Ok(list_single(&DocumentId::instructions(), tree)),
    }
}

/// Lists a document that has a kind of its own. A rejected file (a link, a folder) is not listed;
/// reading it reports the problem.
fn list_single(id: &DocumentId, tree: &ProjectTree<'_>) -> Vec<ListedFile> {
    let Ok(Some(location)) = tree.locate(id) else { return Vec::new() };
    let stamp = list_files::stat_file(&location.dir, &location.name);
    stamp.into_iter().map(|stamp| ListedFile { id: id.clone(), stamp }).collect()
}
