//! The documents of one kind, what changed among them, and their references and links.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::BuildHasher;
use std::ops::Bound;
use std::sync::Arc;

use reqlore_domain::document::{DocumentId, DocumentKind, DocumentMeta};
use reqlore_domain::ports::documents::{ChangeSet, DocumentFilter, MetadataPage, Revision};

use crate::read::Stamp;

/// History remembers at most so many more names than there are; then it begins anew.
const GONE: usize = 10_000;

/// The documents of one kind.
#[derive(Debug, Default)]
pub(crate) struct List {
    pub(crate) entries: BTreeMap<String, Entry>,
    /// Set once somebody asked what changed: all there is was known then.
    pub(crate) since: Option<Revision>,
    pub(crate) changed: BTreeMap<String, Revision>,
    /// Those that claim a reference, by its hash.
    references: Index,
    /// Those that lead somewhere, by the hash of where.
    targets: Index,
}

impl List {
    pub(crate) fn put(&mut self, entry: Entry) {
        let head = Arc::clone(&entry.head);
        if let Some(old) = self.entries.insert(head.id.name.clone(), entry) {
            self.release(&old.head);
        }
        if let Some(reference) = head.reference() {
            self.references.add(&reference, &head);
        }
        for target in targets(&head) {
            self.targets.add(&target, &head);
        }
    }

    pub(crate) fn remove(&mut self, name: &str) -> Option<Entry> {
        let entry = self.entries.remove(name)?;
        self.release(&entry.head);
        Some(entry)
    }

    fn release(&mut self, head: &Arc<DocumentMeta>) {
        if let Some(reference) = head.reference() {
            self.references.remove(&reference, head);
        }
        for target in targets(head) {
            self.targets.remove(&target, head);
        }
    }

    /// A part of the heads.
    pub(crate) fn page(&self, filter: &DocumentFilter) -> MetadataPage {
        let total = self.entries.len();
        let after = filter.after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut entries = self.entries.range::<str, _>((after, Bound::Unbounded));
        let limit = filter.limit.unwrap_or(total);
        let heads = entries.by_ref().take(limit).map(|(_, entry)| Arc::clone(&entry.head));
        let heads: Vec<Arc<DocumentMeta>> = heads.collect();
        let next = heads.last().filter(|_| entries.next().is_some());
        MetadataPage { total, next: next.map(|head| head.id.name.clone()), metadata: heads }
    }

    /// What changed since a revision; history begins when this is first asked.
    pub(crate) fn answer(
        &mut self,
        kind: DocumentKind,
        since: Revision,
        revision: Revision,
    ) -> ChangeSet {
        if self.changed.len() > self.entries.len() + GONE {
            self.changed.clear();
            self.since = Some(revision);
        }
        match self.since {
            Some(_) if since == revision => ChangeSet::Since { revision, ids: Vec::new() },
            Some(first) if first <= since && since <= revision => {
                let after = self.changed.iter().filter(|(_, at)| **at > since);
                let ids = after.map(|(name, _)| DocumentId { kind, name: name.clone() }).collect();
                ChangeSet::Since { revision, ids }
            }
            Some(_) => ChangeSet::Reset { revision },
            None => {
                self.since = Some(revision);
                ChangeSet::Reset { revision }
            }
        }
    }

    /// What a word names, by name.
    pub(crate) fn lookup(&self, word: &str) -> Vec<Arc<DocumentMeta>> {
        let is_its = |head: &DocumentMeta| head.reference().as_deref() == Some(word);
        let mut heads: Vec<Arc<DocumentMeta>> =
            self.references.of(word).iter().filter(|head| is_its(head)).map(Arc::clone).collect();
        let own = self.entries.get(word).filter(|own| !is_its(&own.head));
        heads.extend(own.map(|own| Arc::clone(&own.head)));
        heads.sort_by(|a, b| a.id.name.cmp(&b.id.name));
        heads
    }

    /// Who leads to a target, by name.
    pub(crate) fn backlinks(&self, target: &str) -> impl Iterator<Item = Arc<DocumentMeta>> {
        let leads_there =
            move |head: &DocumentMeta| head.links().iter().any(|link| link.1 == target);
        self.targets.of(target).iter().filter(move |head| leads_there(head)).map(Arc::clone)
    }
}

/// Where a document leads, each place once.
fn targets(head: &DocumentMeta) -> BTreeSet<Cow<'_, str>> {
    head.links().into_iter().map(|(_, target)| target).collect()
}

/// Metadata by the hash of a word, which another word may have as well; sorted by name.
#[derive(Debug, Default)]
struct Index {
    heads: HashMap<u64, Vec<Arc<DocumentMeta>>>,
}

impl Index {
    fn add(&mut self, word: &str, head: &Arc<DocumentMeta>) {
        let heads = self.heads.entry(self.heads.hasher().hash_one(word)).or_default();
        if let Err(at) = position(heads, head) {
            heads.insert(at, Arc::clone(head));
        }
    }

    fn remove(&mut self, word: &str, head: &DocumentMeta) {
        let hash = self.heads.hasher().hash_one(word);
        let Some(heads) = self.heads.get_mut(&hash) else { return };
        if let Ok(at) = position(heads, head) {
            heads.remove(at);
        }
        if heads.is_empty() {
            self.heads.remove(&hash);
        }
    }

    fn of(&self, word: &str) -> &[Arc<DocumentMeta>] {
        self.heads.get(&self.heads.hasher().hash_one(word)).map_or(&[], Vec::as_slice)
    }
}

/// The place of a document among others, or the place to insert it.
fn position(heads: &[Arc<DocumentMeta>], head: &DocumentMeta) -> Result<usize, usize> {
    heads.binary_search_by(|known| known.id.name.cmp(&head.id.name))
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) head: Arc<DocumentMeta>,
    /// `None` after a write of ours: its content is known and its stamp is not.
    pub(crate) stamp: Option<Stamp>,
    /// The stamp would show the next change.
    pub(crate) settled: bool,
    /// The watch saw it since it was read.
    pub(crate) watched: bool,
    pub(crate) listing: u64,
}

impl Entry {
    /// Metadata whose file was not seen yet.
    pub(crate) fn new(head: DocumentMeta, listing: u64) -> Self {
        Self { head: Arc::new(head), stamp: None, settled: false, watched: false, listing }
    }
}
