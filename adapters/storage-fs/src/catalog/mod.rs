//! What is known of a project's documents: heads, believed as long as `stat` or the watch vouches
//! for them, and when each last changed.
//!
//! A file that was written less than two seconds before it was read is read again, unless the watch
//! saw it all the time: within the clock's grain two writes can look alike. What the watch can't
//! see (a file with names in other folders, a fault that may pass) is looked at each time. History
//! of a kind begins when somebody first asks for it. Revisions start at a random number, so that
//! one of an earlier process is recognised as unknown. Open: a file that gets a name outside only
//! after it was read, and is written by that name, is found by the next look at everything.

mod look;

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use reqlore_domain::document::{Document, DocumentId, DocumentMeta, Kind, Version};
use reqlore_domain::ports::documents::{BacklinkQuery, Change, Changes, Filter, Page, Revision};
use reqlore_domain::time::Timestamp;

use crate::area::Area;
use crate::cache::Saved;
use crate::ground::Ground;
use crate::heads::Seen;
use crate::list::{Entry, List};
use crate::marks::{Marks, Numbers};
use crate::read::{Content, Now, Stamp};

/// One project's.
#[derive(Debug)]
pub(crate) struct Catalog {
    revision: Revision,
    lists: HashMap<Kind, List>,
    knowledge: Ground,
    backlog: Ground,
    /// The highest ever seen.
    numbers: Numbers,
    /// Counts listings, to see what is gone.
    listings: u64,
}

impl Default for Catalog {
    fn default() -> Self {
        let random = RandomState::new().build_hasher().finish();
        Self {
            revision: Revision(random >> 16),
            lists: HashMap::new(),
            knowledge: Ground::default(),
            backlog: Ground::default(),
            numbers: Numbers::default(),
            listings: 0,
        }
    }
}

impl Catalog {
    /// The version of a file that looks like this, where its stamp alone can be believed.
    pub(crate) fn believed(&self, id: &DocumentId, stamp: Stamp) -> Option<Version> {
        let entry = self.lists.get(&id.kind)?.entries.get(&id.name)?;
        (entry.settled && entry.stamp == Some(stamp)).then_some(entry.head.version)
    }

    /// The document of a file that was read; its version is not computed again when it is known.
    pub(crate) fn document(&mut self, id: &DocumentId, content: &Content) -> Document {
        let stamp = Stamp::of(&content.metadata);
        if content.steady
            && let Some(version) = self.believed(id, stamp)
        {
            return Document { id: id.clone(), body: content.bytes.clone(), version };
        }
        let document = Document::new(id.clone(), content.bytes.clone());
        // These bytes may be older than what is known by now. Sections are compared with their
        // files at each look; an entity would be believed as long as the watch is quiet.
        if content.steady && Area::of(id.kind).is_none() {
            let (head, settled) = (DocumentMeta::of(&document, stamp.modified()), content.settled);
            self.learn(head, Some(stamp), settled, false);
        }
        document
    }

    /// What a commit of ours wrote; until it is read again it is as old as the act.
    pub(crate) fn record(&mut self, changes: &[Change], at: Timestamp) -> Revision {
        if !changes.is_empty() {
            self.revision.0 += 1;
        }
        for change in changes {
            let id = change.id();
            self.numbers.count(id);
            let list = self.lists.entry(id.kind).or_default();
            if list.since.is_some() {
                list.changed.insert(id.name.clone(), self.revision);
            }
            match change {
                Change::Put { document } => {
                    let head = Arc::new(DocumentMeta::of(document, at));
                    let entry = Entry {
                        head,
                        stamp: None,
                        settled: false,
                        watched: false,
                        listing: self.listings,
                    };
                    list.put(entry);
                }
                Change::Delete { .. } => {
                    list.remove(&id.name);
                    self.numbers.forget(id);
                }
            }
            // Somebody may have written after us and been seen before we came here.
            if let Some(area) = Area::of(id.kind) {
                self.ground(area).touched.insert(id.clone());
            }
        }
        self.revision
    }

    fn ground(&mut self, area: Area) -> &mut Ground {
        match area {
            Area::Knowledge => &mut self.knowledge,
            Area::Backlog => &mut self.backlog,
        }
    }

    /// The documents of an area that are known.
    fn entries(&mut self, area: Area) -> impl Iterator<Item = &mut Entry> {
        let lists = self.lists.iter_mut().filter(move |(kind, _)| Area::of(**kind) == Some(area));
        lists.flat_map(|(_, list)| list.entries.values_mut())
    }

    /// Does the watch vouch that all there is of these kinds is known?
    pub(crate) fn is_vouched(&mut self, kinds: &[Kind]) -> bool {
        let is_watched = kinds.iter().all(|kind| Area::of(*kind).is_some());
        is_watched
            && Area::among(kinds).all(|area| self.drain(area) && self.ground(area).is_known())
    }

    /// The answer from what is known.
    pub(crate) fn answer(&mut self, kind: Kind, since: Revision) -> Changes {
        self.lists.entry(kind).or_default().answer(kind, since, self.revision)
    }

    /// All heads of a kind, by name, as they were when it was last brought up to date.
    pub(crate) fn heads(&self, kind: Kind) -> Vec<Arc<DocumentMeta>> {
        let entries = self.lists.get(&kind).map(|list| list.entries.values());
        entries.into_iter().flatten().map(|entry| Arc::clone(&entry.head)).collect()
    }

    /// A part of them.
    pub(crate) fn page(&self, filter: &Filter) -> Page {
        let list = self.lists.get(&filter.kind);
        list.map_or_else(|| Page::of(Vec::new(), filter), |list| list.page(filter))
    }

    /// What each of these words names, as it was when the kind was last brought up to date.
    pub(crate) fn lookup(&self, kind: Kind, words: &[String]) -> Vec<Vec<Arc<DocumentMeta>>> {
        let Some(list) = self.lists.get(&kind) else { return vec![Vec::new(); words.len()] };
        words.iter().map(|word| list.lookup(word)).collect()
    }

    /// Who leads to each target, as it was when these kinds were last brought up to date. None but
    /// those that are watched lead anywhere.
    pub(crate) fn backlinks(&self, links: &BacklinkQuery) -> Vec<Vec<Arc<DocumentMeta>>> {
        let kinds = Kind::ALL.into_iter().filter(|kind| links.kinds.contains(kind));
        let lists: Vec<&List> = kinds.filter_map(|kind| self.lists.get(&kind)).collect();
        let linking = |to: &String| lists.iter().flat_map(|list| list.backlinks(to)).collect();
        links.targets.iter().map(linking).collect()
    }

    /// The highest numbers, as they were when the backlog was last brought up to date.
    pub(crate) fn marks(&self) -> Marks {
        self.numbers.marks()
    }

    /// Takes in what was read just now.
    fn see(&mut self, seen: Seen, watched: bool) {
        let Seen { head, stamp, settled, watchable, .. } = seen;
        if let Some(area) = Area::of(head.id.kind) {
            let unwatchable = &mut self.ground(area).unwatchable;
            if watchable {
                unwatchable.remove(&head.id);
            } else {
                unwatchable.insert(head.id.clone());
            }
        }
        self.learn(head, stamp, settled, watched && watchable);
    }

    fn learn(&mut self, head: DocumentMeta, stamp: Option<Stamp>, settled: bool, watched: bool) {
        self.numbers.count(&head.id);
        let (kind, name) = (head.id.kind, head.id.name.clone());
        let list = self.lists.entry(kind).or_default();
        let known = list.entries.get(&name);
        if list.since.is_some() && known.is_none_or(|known| *known.head != head) {
            self.revision.0 += 1;
            list.changed.insert(name.clone(), self.revision);
        }
        let entry = Entry { head: Arc::new(head), stamp, settled, watched, listing: self.listings };
        list.put(entry);
        if let Some(area) = Area::of(kind) {
            self.ground(area).unsaved += 1;
        }
    }

    fn forget(&mut self, id: &DocumentId) {
        self.numbers.forget(id);
        if let Some(area) = Area::of(id.kind) {
            self.ground(area).unwatchable.remove(id);
        }
        let list = self.lists.entry(id.kind).or_default();
        if list.remove(&id.name).is_some() && list.since.is_some() {
            self.revision.0 += 1;
            list.changed.insert(id.name.clone(), self.revision);
        }
    }

    fn load(&mut self, saved: Vec<Saved>) {
        for Saved { head, stamp } in saved {
            self.numbers.count(&head.id);
            let list = self.lists.entry(head.id.kind).or_default();
            let entry = Entry {
                stamp: Some(stamp),
                settled: true,
                watched: false,
                listing: 0,
                head: Arc::new(head),
            };
            list.put(entry);
        }
    }

    /// How many documents of an area were read since the cache was last written, and how many there
    /// are.
    pub(crate) fn unsaved(&mut self, area: Area) -> (usize, usize) {
        let lists = area.kinds().iter().filter_map(|kind| self.lists.get(kind));
        let all = lists.map(|list| list.entries.len()).sum();
        (self.ground(area).unsaved, all)
    }

    /// The documents of an area whose stamps can be trusted by the next process.
    pub(crate) fn savable(&mut self, area: Area) -> Vec<(Arc<DocumentMeta>, Stamp)> {
        self.drain(area);
        self.ground(area).unsaved = 0;
        let touched = std::mem::take(&mut self.ground(area).touched);
        let now = Now::read();
        let entries = self.entries(area).filter(|entry| !touched.contains(&entry.head.id));
        let trusted = entries.filter_map(|entry| {
            let stamp = entry.stamp?;
            let trusted = entry.settled || (entry.watched && stamp.is_settled(now));
            trusted.then(|| (Arc::clone(&entry.head), stamp))
        });
        let trusted = trusted.collect();
        self.ground(area).touched = touched;
        trusted
    }
}
