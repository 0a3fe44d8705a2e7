//! Index of the documents of one kind: their metadata, references and links.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use reqlore_domain::backlog::Reference;
use reqlore_domain::document::{DocumentId, DocumentKind, DocumentMeta, Version};
use reqlore_domain::ports::documents::{DocumentFilter, MetadataPage};
use reqlore_domain::ports::record_list::{
    RecordCounts, RecordPage, RecordQuery, RecordSelection, UnreadFile,
};
use reqlore_domain::timestamp::Timestamp;

use super::entity_totals::EntityTotals;
use super::stored_metadata::{LookupHashes, StoredMetadata, hash_word};
use crate::file_stamp::FileStamp;

#[derive(Debug, Default)]
pub(crate) struct KindIndex {
    /// By name.
    pub(crate) entries: BTreeMap<Arc<str>, IndexEntry>,
    /// As of the last scan; a change of these files invalidates the watcher.
    pub(crate) unread: Vec<UnreadFile>,
    /// Created by the first lookup, because many commands need none.
    lookups: OnceCell<Lookups>,
    /// Counted by the first question, because it must decode all metadata.
    totals: Option<EntityTotals>,
}

#[derive(Debug, Default)]
struct Lookups {
    by_reference: HashLookup,
    by_link_target: HashLookup,
}

/// The names of documents by the hash of a word, in the order of names.
type HashLookup = BTreeSet<(u64, Arc<str>)>;

impl KindIndex {
    /// Inserts or replaces a document.
    pub(crate) fn insert(&mut self, metadata: DocumentMeta, file: FileState) {
        // The old metadata may have another reference and other links.
        self.remove(&metadata.id.name);
        let name: Arc<str> = Arc::from(metadata.id.name.as_str());
        if let Some(lookups) = self.lookups.get_mut() {
            let hashes = LookupHashes::of_metadata(&metadata);
            lookups.by_reference.extend(hashes.reference.map(|hash| (hash, Arc::clone(&name))));
            let targets = hashes.link_targets.iter().map(|hash| (*hash, Arc::clone(&name)));
            lookups.by_link_target.extend(targets);
        }
        if let (Some(totals), Some(entity)) = (&mut self.totals, &metadata.entity) {
            totals.add(&name, entity);
        }
        let metadata = StoredMetadata::new(metadata, self.entries.len());
        self.entries.insert(name, IndexEntry { metadata, file });
    }

    /// Creates an index of entries that are sorted by name.
    pub(crate) fn new(sorted: Vec<(Arc<str>, IndexEntry)>) -> Self {
        Self { entries: sorted.into_iter().collect(), ..Self::default() }
    }

    fn lookups(&self) -> &Lookups {
        self.lookups.get_or_init(|| {
            let (mut by_reference, mut by_link_target) = (Vec::new(), Vec::new());
            for (name, entry) in &self.entries {
                let LookupHashes { reference, link_targets } = entry.metadata.lookup_hashes();
                by_reference.extend(reference.map(|hash| (hash, Arc::clone(name))));
                by_link_target.extend(link_targets.iter().map(|hash| (*hash, Arc::clone(name))));
            }
            // Collected first: a tree of sorted entries is built faster and takes half the memory.
            Lookups {
                by_reference: by_reference.into_iter().collect(),
                by_link_target: by_link_target.into_iter().collect(),
            }
        })
    }

    /// Adds the documents of the cache file that are missing here. Existing entries are newer.
    pub(crate) fn add_cached(&mut self, mut cached: Self) {
        for name in self.entries.keys() {
            cached.entries.remove(name);
        }
        self.entries.append(&mut cached.entries);
        (self.lookups, self.totals) = Default::default();
    }

    /// The versions of the documents and the times of their files; no time if the file was not
    /// read since our own commit.
    pub(crate) fn files(
        &self,
        kind: DocumentKind,
    ) -> impl Iterator<Item = (DocumentId, (Version, Option<Timestamp>))> {
        self.entries.iter().map(move |(name, IndexEntry { metadata, file })| {
            let modified_at = file.stamp.map(|stamp| stamp.modified_at());
            (DocumentId { kind, name: name.to_string() }, (metadata.version(), modified_at))
        })
    }

    /// Frees memory left unused by inserting many entries in sorted order.
    pub(crate) fn shrink(&mut self) {
        self.entries = std::mem::take(&mut self.entries).into_iter().collect();
    }

    /// Returns false if there is no such document.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        let Some((name, entry)) = self.entries.remove_entry(name) else { return false };
        if let Some(lookups) = self.lookups.get_mut() {
            let LookupHashes { reference, link_targets } = entry.metadata.lookup_hashes();
            if let Some(hash) = reference {
                lookups.by_reference.remove(&(hash, Arc::clone(&name)));
            }
            for hash in link_targets {
                lookups.by_link_target.remove(&(hash, Arc::clone(&name)));
            }
        }
        if let Some(totals) = &mut self.totals
            && let Some(entity) = &entry.metadata.to_metadata(&name).entity
        {
            totals.remove(&name, entity);
        }
        true
    }

    /// All metadata, sorted by name. Metadata that is not kept is decoded and dropped one by one.
    pub(crate) fn all(&self) -> impl Iterator<Item = Arc<DocumentMeta>> {
        self.entries.iter().map(|(name, entry)| entry.metadata.to_metadata(name))
    }

    fn totals(&mut self) -> &EntityTotals {
        let entries = &self.entries;
        self.totals.get_or_insert_with(|| {
            let mut totals = EntityTotals::default();
            for (name, entry) in entries {
                if let Some(entity) = &entry.metadata.to_metadata(name).entity {
                    totals.add(name, entity);
                }
            }
            totals
        })
    }

    pub(crate) fn list(&mut self, query: &RecordQuery) -> RecordPage {
        let kind = query.filter.entity_kind.as_deref();
        let page = match (&query.selection, query.counts) {
            (RecordSelection::Listed, RecordCounts::Kind | RecordCounts::Tag)
                if query.is_plain() && query.limit == 0 =>
            {
                self.totals().counts(kind, query.counts)
            }
            (RecordSelection::Untagged, _) if query.is_plain() => {
                let (names, total) = self.totals().untagged(kind, query.limit);
                let metadata = names.iter().filter_map(|name| self.metadata(name)).collect();
                RecordPage { metadata, total, ..RecordPage::default() }
            }
            _ => match &query.filter.parents {
                Some(parents) => RecordPage::select(self.children(parents), query),
                None => RecordPage::select(self.all(), query),
            },
        };
        RecordPage { unread: self.unread.clone(), ..page }
    }

    /// The documents that link to a parent, sorted by name.
    fn children<'a>(
        &self,
        parents: impl IntoIterator<Item = &'a Reference>,
    ) -> Vec<Arc<DocumentMeta>> {
        let mut children = Vec::new();
        for parent in parents {
            self.append_backlinks(&parent.to_string(), &mut children);
        }
        children.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        children.dedup_by(|a, b| a.id == b.id);
        children
    }

    pub(crate) fn page(&self, filter: &DocumentFilter) -> MetadataPage {
        let after = filter.after_name.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut entries = self.entries.range::<str, _>((after, Bound::Unbounded));
        let mut metadata = Vec::new();
        // By reference, to find out below whether there are more.
        for (name, entry) in entries.by_ref().take(filter.limit) {
            metadata.push(entry.metadata.to_metadata(name));
        }
        let has_more = entries.next().is_some();
        let next = match metadata.last() {
            Some(last) if has_more => Some(last.id.name.clone()),
            _ => None,
        };
        MetadataPage { next_name: next, metadata, unread: self.unread.clone() }
    }

    /// Returns the documents with this reference or name, sorted by name.
    pub(crate) fn lookup(&self, word: &str) -> Vec<Arc<DocumentMeta>> {
        let mut matches = self.find_by_hash(&self.lookups().by_reference, word);
        // A hash may belong to several references.
        matches.retain(|metadata| has_reference(metadata, word));
        // A document whose name is also its reference is in the list already.
        if let Some(metadata) = self.metadata(word)
            && !has_reference(&metadata, word)
        {
            matches.push(metadata);
        }
        matches.sort_by(|a, b| a.id.name.cmp(&b.id.name));
        matches
    }

    /// Appends the documents that link to a target, sorted by name.
    pub(crate) fn append_backlinks(&self, target: &str, sources: &mut Vec<Arc<DocumentMeta>>) {
        for metadata in self.find_by_hash(&self.lookups().by_link_target, target) {
            // Another target may have the same hash.
            if metadata.links().iter().any(|link| link.1 == target) {
                sources.push(metadata);
            }
        }
    }

    pub(crate) fn metadata(&self, name: &str) -> Option<Arc<DocumentMeta>> {
        Some(self.entries.get(name)?.metadata.to_metadata(name))
    }

    fn find_by_hash(&self, lookup: &HashLookup, word: &str) -> Vec<Arc<DocumentMeta>> {
        let hash = hash_word(word);
        let mut found = Vec::new();
        for (other, name) in lookup.range((hash, Arc::from(""))..) {
            if *other != hash {
                break;
            }
            found.extend(self.metadata(name));
        }
        found
    }
}

fn has_reference(metadata: &DocumentMeta, word: &str) -> bool {
    metadata.reference().as_deref() == Some(word)
}

#[derive(Debug)]
pub(crate) struct IndexEntry {
    pub(crate) metadata: StoredMetadata,
    pub(crate) file: FileState,
}

/// State of the file that an entry was read from.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FileState {
    /// `None` after our own write: the content is known but the new file's stamp is not.
    pub(crate) stamp: Option<FileStamp>,
    /// The number of the last scan that found the file.
    pub(crate) last_scan: u32,
    /// The next change of the file will change its stamp.
    pub(crate) is_stamp_reliable: bool,
    /// inotify has watched the file since it was read.
    pub(crate) is_watched: bool,
}
