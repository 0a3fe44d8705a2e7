//! The documents of one kind as the catalog knows them: heads by name and by reference, and which
//! changed when.

use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher;
use std::ops::Bound;
use std::sync::Arc;

use reqlore_domain::document::{DocumentId, Head, Kind};
use reqlore_domain::ports::documents::{Changes, Filter, Page, Revision};

use crate::read::Stamp;

/// History remembers at most so many more names than there are; then it begins anew.
const GONE: usize = 10_000;

/// The documents of one kind.
#[derive(Debug, Default)]
pub(crate) struct List {
    pub(crate) entries: BTreeMap<String, Entry>,
    /// All there was has been looked at.
    pub(crate) listed: bool,
    /// Set once somebody asked what changed: all there is was known then.
    pub(crate) since: Option<Revision>,
    pub(crate) changed: BTreeMap<String, Revision>,
    /// Those that claim a reference, by its hash.
    references: HashMap<u64, Vec<Arc<Head>>>,
}

impl List {
    pub(crate) fn put(&mut self, entry: Entry) {
        let head = Arc::clone(&entry.head);
        if let Some(old) = self.entries.insert(head.id.name.clone(), entry) {
            self.release(&old.head);
        }
        if let Some(hash) = head.reference().map(|reference| self.hash(reference)) {
            self.references.entry(hash).or_default().push(head);
        }
    }

    pub(crate) fn remove(&mut self, name: &str) -> Option<Entry> {
        let entry = self.entries.remove(name)?;
        self.release(&entry.head);
        Some(entry)
    }

    fn release(&mut self, head: &Arc<Head>) {
        let Some(hash) = head.reference().map(|reference| self.hash(reference)) else { return };
        if let Some(heads) = self.references.get_mut(&hash) {
            heads.retain(|other| !Arc::ptr_eq(other, head));
            if heads.is_empty() {
                self.references.remove(&hash);
            }
        }
    }

    fn hash(&self, reference: &str) -> u64 {
        self.references.hasher().hash_one(reference)
    }

    /// A part of the heads.
    pub(crate) fn page(&self, filter: &Filter) -> Page {
        let total = self.entries.len();
        let after = filter.after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut entries = self.entries.range::<str, _>((after, Bound::Unbounded));
        let limit = filter.limit.unwrap_or(total);
        let heads = entries.by_ref().take(limit).map(|(_, entry)| Arc::clone(&entry.head));
        let heads: Vec<Arc<Head>> = heads.collect();
        let next = heads.last().filter(|_| entries.next().is_some());
        Page { total, next: next.map(|head| head.id.name.clone()), heads }
    }

    /// What changed since a revision; history begins when this is first asked.
    pub(crate) fn answer(&mut self, kind: Kind, since: Revision, revision: Revision) -> Changes {
        if self.changed.len() > self.entries.len() + GONE {
            self.changed.clear();
            self.since = Some(revision);
        }
        match self.since {
            Some(_) if since == revision => Changes::Since { revision, ids: Vec::new() },
            Some(first) if first <= since && since <= revision => {
                let after = self.changed.iter().filter(|(_, at)| **at > since);
                let ids = after.map(|(name, _)| DocumentId { kind, name: name.clone() }).collect();
                Changes::Since { revision, ids }
            }
            Some(_) => Changes::Reset { revision },
            None => {
                self.since = Some(revision);
                Changes::Reset { revision }
            }
        }
    }

    /// What a word names, by name.
    pub(crate) fn named(&self, word: &str) -> Vec<Arc<Head>> {
        let claims = self.references.get(&self.hash(word)).into_iter().flatten();
        let mut heads: Vec<Arc<Head>> =
            claims.filter(|head| head.reference() == Some(word)).map(Arc::clone).collect();
        let own = self.entries.get(word).filter(|own| own.head.reference() != Some(word));
        heads.extend(own.map(|own| Arc::clone(&own.head)));
        heads.sort_by(|a, b| a.id.name.cmp(&b.id.name));
        heads
    }
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) head: Arc<Head>,
    /// `None` after a write of ours: its content is known and its stamp is not.
    pub(crate) stamp: Option<Stamp>,
    /// The stamp would show the next change.
    pub(crate) settled: bool,
    /// The watch saw it since it was read.
    pub(crate) watched: bool,
    pub(crate) listing: u64,
}
