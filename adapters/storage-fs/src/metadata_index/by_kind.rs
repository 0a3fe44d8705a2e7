//! Index of the documents of one kind: their metadata, change history, references and links.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::BuildHasher;
use std::ops::Bound;
use std::sync::Arc;

use reqlore_domain::document::{DocumentId, DocumentKind, DocumentMeta};
use reqlore_domain::ports::documents::{
    ChangeSet, DocumentFilter, MetadataPage, Revision, UnreadFile,
};

use crate::read_file::FileStamp;

/// The history is reset when it holds this many more names than there are documents.
const MAX_REMOVED_NAMES: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct KindIndex {
    pub(crate) entries: BTreeMap<String, IndexEntry>,
    /// As of the last scan; a change of these files invalidates the watcher.
    pub(crate) unread: Vec<UnreadFile>,
    /// The revision of the first query for changes. Changes are recorded from then on.
    pub(crate) history_start: Option<Revision>,
    /// The revision of each document's last change.
    pub(crate) changed_at: BTreeMap<String, Revision>,
    by_reference: HashLookup,
    by_link_target: HashLookup,
}

impl KindIndex {
    pub(crate) fn insert(&mut self, entry: IndexEntry) {
        let metadata = Arc::clone(&entry.metadata);
        if let Some(old) = self.entries.insert(metadata.id.name.clone(), entry) {
            // The old metadata may have another reference and other links.
            self.remove_lookups(&old.metadata);
        }
        if let Some(reference) = metadata.reference() {
            self.by_reference.add(&reference, &metadata);
        }
        for target in link_targets(&metadata) {
            self.by_link_target.add(&target, &metadata);
        }
    }

    pub(crate) fn remove(&mut self, name: &str) -> Option<IndexEntry> {
        let entry = self.entries.remove(name)?;
        self.remove_lookups(&entry.metadata);
        Some(entry)
    }

    fn remove_lookups(&mut self, metadata: &Arc<DocumentMeta>) {
        if let Some(reference) = metadata.reference() {
            self.by_reference.remove(&reference, metadata);
        }
        for target in link_targets(metadata) {
            self.by_link_target.remove(&target, metadata);
        }
    }

    pub(crate) fn page(&self, filter: &DocumentFilter) -> MetadataPage {
        let all = self.entries.len();
        let total = filter.after_name.is_none().then_some(all);
        let after = filter.after_name.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut entries = self.entries.range::<str, _>((after, Bound::Unbounded));
        let mut metadata = Vec::new();
        // By reference, to find out below whether there are more.
        for (_, entry) in entries.by_ref().take(filter.limit.unwrap_or(all)) {
            metadata.push(Arc::clone(&entry.metadata));
        }
        let has_more = entries.next().is_some();
        let next = match metadata.last() {
            Some(last) if has_more => Some(last.id.name.clone()),
            _ => None,
        };
        MetadataPage { total, next_name: next, metadata, unread: self.unread.clone() }
    }

    /// Returns the documents that changed after the revision `since`. The first call starts the
    /// history.
    pub(crate) fn changes_since(
        &mut self,
        kind: DocumentKind,
        since: Revision,
        revision: Revision,
    ) -> ChangeSet {
        if self.changed_at.len() > self.entries.len() + MAX_REMOVED_NAMES {
            // Callers with an older revision load everything again.
            self.changed_at.clear();
            self.history_start = Some(revision);
        }
        match self.history_start {
            // The usual case: nothing changed, so nothing is searched.
            Some(_) if since == revision => ChangeSet::Since { revision, ids: Vec::new() },
            Some(start) if start <= since && since <= revision => {
                let mut ids = Vec::new();
                for (name, changed_at) in &self.changed_at {
                    if *changed_at > since {
                        ids.push(DocumentId { kind, name: name.clone() });
                    }
                }
                ChangeSet::Since { revision, ids }
            }
            // The revision is unknown: from another process, or from before the history was reset.
            Some(_) => ChangeSet::Reset { revision },
            None => {
                self.history_start = Some(revision);
                ChangeSet::Reset { revision }
            }
        }
    }

    /// Returns the documents with this reference or name, sorted by name.
    pub(crate) fn lookup(&self, word: &str) -> Vec<Arc<DocumentMeta>> {
        let mut matches = Vec::new();
        for metadata in self.by_reference.get(word) {
            // Another reference may have the same hash.
            if has_reference(metadata, word) {
                matches.push(Arc::clone(metadata));
            }
        }
        // A document whose name is also its reference is in the list already.
        if let Some(entry) = self.entries.get(word)
            && !has_reference(&entry.metadata, word)
        {
            matches.push(Arc::clone(&entry.metadata));
        }
        matches.sort_by(|a, b| a.id.name.cmp(&b.id.name));
        matches
    }

    /// Appends the documents that link to a target, sorted by name.
    pub(crate) fn append_backlinks(&self, target: &str, sources: &mut Vec<Arc<DocumentMeta>>) {
        for metadata in self.by_link_target.get(target) {
            // Another target may have the same hash.
            if metadata.links().iter().any(|link| link.1 == target) {
                sources.push(Arc::clone(metadata));
            }
        }
    }
}

fn has_reference(metadata: &DocumentMeta, word: &str) -> bool {
    metadata.reference().as_deref() == Some(word)
}

/// A document's link targets, each once.
fn link_targets(metadata: &DocumentMeta) -> BTreeSet<Cow<'_, str>> {
    metadata.links().into_iter().map(|(_, target)| target).collect()
}

/// Metadata by the hash of a word, sorted by document name. Different words may share a hash, so
/// callers compare the word itself.
#[derive(Debug, Default)]
struct HashLookup {
    by_hash: HashMap<u64, Vec<Arc<DocumentMeta>>>,
}

impl HashLookup {
    fn add(&mut self, word: &str, metadata: &Arc<DocumentMeta>) {
        let sorted = self.by_hash.entry(self.by_hash.hasher().hash_one(word)).or_default();
        if let Err(index) = find_position(sorted, metadata) {
            sorted.insert(index, Arc::clone(metadata));
        }
    }

    fn remove(&mut self, word: &str, metadata: &DocumentMeta) {
        let hash = self.by_hash.hasher().hash_one(word);
        let Some(sorted) = self.by_hash.get_mut(&hash) else { return };
        if let Ok(index) = find_position(sorted, metadata) {
            sorted.remove(index);
        }
        // Words that no document has any more must not take memory.
        if sorted.is_empty() {
            self.by_hash.remove(&hash);
        }
    }

    fn get(&self, word: &str) -> &[Arc<DocumentMeta>] {
        self.by_hash.get(&self.by_hash.hasher().hash_one(word)).map_or(&[], Vec::as_slice)
    }
}

/// Returns the index of a document by its name; `Err` holds the index to insert it at.
fn find_position(sorted: &[Arc<DocumentMeta>], metadata: &DocumentMeta) -> Result<usize, usize> {
    sorted.binary_search_by(|other| other.id.name.cmp(&metadata.id.name))
}

#[derive(Debug)]
pub(crate) struct IndexEntry {
    pub(crate) metadata: Arc<DocumentMeta>,
    /// `None` after our own write: the content is known but the new file's stamp is not.
    pub(crate) stamp: Option<FileStamp>,
    /// The next change of the file will change its stamp.
    pub(crate) is_stamp_reliable: bool,
    /// inotify has watched the file since it was read.
    pub(crate) is_watched: bool,
    /// The number of the last scan that found the file.
    pub(crate) last_scan: u64,
}

impl IndexEntry {
    /// Creates an entry that is not valid until its file is inspected.
    pub(crate) fn new(metadata: DocumentMeta, last_scan: u64) -> Self {
        Self {
            metadata: Arc::new(metadata),
            stamp: None,
            is_stamp_reliable: false,
            is_watched: false,
            last_scan,
        }
    }
}
