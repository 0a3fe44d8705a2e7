//! What is known of a project's documents: heads, believed as long as `stat` or the watch vouches
//! for them, and when each last changed.
//!
//! A file that was written less than two seconds before it was read is read again, unless the watch
//! saw it all the time: within the clock's grain two writes can look alike. What the watch can't
//! see (a file with names in other folders, a fault that may pass) is looked at each time. History
//! of a kind begins when somebody first asks for it. Revisions start at a random number, so that
//! one of an earlier process is recognised as unknown. Open: a file that gets a name outside only
//! after it was read, and is written by that name, is found by the next look at everything.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::Path;
use std::sync::Arc;

use reqlore_domain::document::{Document, DocumentId, Head, Kind, Version};
use reqlore_domain::ports::documents::{Change, Changes, Filter, Page, Revision, StoreResult};

use crate::cache::{Cache, Saved};
use crate::heads::{Seen, read_all};
use crate::layout::Tree;
use crate::list::{Entry, List};
use crate::read::{Content, Now, Stamp};
use crate::walk::{self, Listed};
use crate::watch::{News, Watch};

/// More entities than that are better looked at in a listing.
const MANY: usize = 1_000;

/// One project's.
#[derive(Debug)]
pub(crate) struct Catalog {
    revision: Revision,
    lists: HashMap<Kind, List>,
    /// Over the entities.
    watch: Option<Watch>,
    /// What the watch named, or we wrote, and nobody has looked at yet.
    touched: BTreeSet<String>,
    /// Entities for which the watch can't vouch.
    unwatchable: BTreeSet<String>,
    /// Counts listings, to see what is gone.
    listings: u64,
    /// How many entities were read since the cache was last written.
    pub(crate) unsaved: usize,
    loaded: bool,
}

impl Default for Catalog {
    fn default() -> Self {
        let random = RandomState::new().build_hasher().finish();
        Self {
            revision: Revision(random >> 16),
            lists: HashMap::new(),
            watch: None,
            touched: BTreeSet::new(),
            unwatchable: BTreeSet::new(),
            listings: 0,
            unsaved: 0,
            loaded: false,
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
        if content.steady && id.kind != Kind::Entity {
            let (head, settled) = (Head::of(&document), content.settled);
            self.learn(head, Some(stamp), settled, false);
        }
        document
    }

    /// What a commit of ours wrote.
    pub(crate) fn record(&mut self, changes: &[Change]) -> Revision {
        if !changes.is_empty() {
            self.revision.0 += 1;
        }
        for change in changes {
            let id = change.id();
            let list = self.lists.entry(id.kind).or_default();
            if list.since.is_some() {
                list.changed.insert(id.name.clone(), self.revision);
            }
            match change {
                Change::Put { document } => {
                    let head = Arc::new(Head::of(document));
                    let entry = Entry {
                        head,
                        stamp: None,
                        settled: false,
                        watched: false,
                        listing: self.listings,
                    };
                    list.put(entry);
                }
                Change::Delete { .. } => drop(list.remove(&id.name)),
            }
            // Somebody may have written after us and been seen before we came here.
            if id.kind == Kind::Entity {
                self.touched.insert(id.name.clone());
            }
        }
        self.revision
    }

    /// What changed since a revision, when the watch vouches that nothing else did.
    pub(crate) fn quick(&mut self, kind: Kind, since: Revision) -> Option<Changes> {
        self.is_vouched(kind).then(|| self.answer(kind, since))
    }

    /// Does the watch vouch that all there is of a kind is known?
    pub(crate) fn is_vouched(&mut self, kind: Kind) -> bool {
        let known = self.lists.get(&kind).is_some_and(|list| list.listed);
        let watched = kind == Kind::Entity && known;
        watched && self.drain() && self.touched.is_empty() && self.unwatchable.is_empty()
    }

    /// The answer from what is known.
    pub(crate) fn answer(&mut self, kind: Kind, since: Revision) -> Changes {
        self.lists.entry(kind).or_default().answer(kind, since, self.revision)
    }

    /// All heads of a kind, by name, as they were when it was last brought up to date.
    pub(crate) fn heads(&self, kind: Kind) -> Vec<Arc<Head>> {
        let entries = self.lists.get(&kind).map(|list| list.entries.values());
        entries.into_iter().flatten().map(|entry| Arc::clone(&entry.head)).collect()
    }

    /// A part of them.
    pub(crate) fn page(&self, filter: &Filter) -> Page {
        let list = self.lists.get(&filter.kind);
        list.map_or_else(|| Page::of(Vec::new(), filter), |list| list.page(filter))
    }

    /// What each of these words names, as it was when the kind was last brought up to date.
    pub(crate) fn named(&self, kind: Kind, words: &[String]) -> Vec<Vec<Arc<Head>>> {
        let Some(list) = self.lists.get(&kind) else { return vec![Vec::new(); words.len()] };
        words.iter().map(|word| list.named(word)).collect()
    }

    /// Brings a kind up to date: looks at what the watch names, or at everything. `thorough` looks
    /// at everything in any case.
    pub(crate) fn refresh(
        &mut self,
        kind: Kind,
        tree: &Tree<'_>,
        path: &Path,
        cache: &Cache,
        thorough: bool,
    ) -> StoreResult<()> {
        if kind != Kind::Entity {
            return self.refresh_by_stat(kind, tree);
        }
        if !self.loaded {
            self.loaded = true;
            self.load(cache.load(path));
        }
        let vouched = self.drain();
        let listed_before = self.lists.get(&kind).is_some_and(|list| list.listed);
        if vouched && listed_before && !thorough && self.unwatchable.len() <= MANY {
            self.look(tree);
            return Ok(());
        }
        self.doubt(thorough);
        // Until everything was compared the watch vouches for nothing.
        let mut watch = self.watch.take().or_else(|| Watch::start(tree.root, path));
        let listed = walk::entities(tree.root, &mut |folder, path| {
            if let Some(watch) = &mut watch {
                watch.add(folder, path);
            }
        });
        let watch = watch.filter(Watch::sees_all);
        self.compare(kind, listed?, tree, watch.is_some());
        self.watch = watch;
        Ok(())
    }

    /// Takes in what the watch has to tell; false when it can't vouch any more.
    fn drain(&mut self) -> bool {
        match self.watch.as_mut().map_or(News::Lost, Watch::news) {
            News::Quiet => true,
            News::Touched(names) => {
                self.touched.extend(names);
                true
            }
            News::Lost => {
                self.watch = None;
                let list = self.lists.entry(Kind::Entity).or_default();
                list.entries.values_mut().for_each(|entry| entry.watched = false);
                false
            }
        }
    }

    /// What the watch named is not believed, whatever its stamp says; and a thorough look believes
    /// no watch.
    fn doubt(&mut self, thorough: bool) {
        let list = self.lists.entry(Kind::Entity).or_default();
        if thorough {
            list.entries.values_mut().for_each(|entry| entry.watched = false);
        }
        for name in std::mem::take(&mut self.touched) {
            if let Some(entry) = list.entries.get_mut(&name) {
                entry.stamp = None;
            }
        }
    }

    /// Sections and the like are few: each is looked at.
    fn refresh_by_stat(&mut self, kind: Kind, tree: &Tree<'_>) -> StoreResult<()> {
        let ids = match kind {
            Kind::Instructions => vec![DocumentId::instructions()],
            Kind::Docsets => vec![DocumentId::docsets()],
            Kind::Section | Kind::Entity => walk::sections(tree.requirements()?)?,
        };
        let mut listed = Vec::with_capacity(ids.len());
        for id in ids {
            // What is refused (a link, a folder) is listed with its fault.
            let stamp = match tree.place(&id) {
                Ok(Some(place)) => walk::stamp(&place.dir, &place.name),
                Ok(None) => None,
                Err(error) => {
                    let seen = Seen::fault(&id, &error, None);
                    self.learn(seen.head, None, false, false);
                    continue;
                }
            };
            listed.extend(stamp.map(|stamp| Listed { name: id.name, stamp }));
        }
        self.compare(kind, listed, tree, false);
        Ok(())
    }

    /// Compares with a listing of all there is: reads what is new or changed, drops what is gone.
    fn compare(&mut self, kind: Kind, listed: Vec<Listed>, tree: &Tree<'_>, watched: bool) {
        self.listings += 1;
        let listing = self.listings;
        let mut unknown = Vec::new();
        for Listed { name, stamp } in listed {
            let list = self.lists.entry(kind).or_default();
            match list.entries.get_mut(&name) {
                Some(entry) if entry.stamp == Some(stamp) && (entry.settled || entry.watched) => {
                    entry.listing = listing;
                    if kind == Kind::Entity && stamp.has_other_names() {
                        self.unwatchable.insert(name);
                    }
                }
                _ => unknown.push(DocumentId { kind, name }),
            }
        }
        for seen in read_all(&unknown, tree).into_iter().flatten() {
            self.see(seen, watched);
        }
        let list = self.lists.entry(kind).or_default();
        let gone = list.entries.iter().filter(|(_, entry)| entry.listing != listing);
        let gone: Vec<String> = gone.map(|(name, _)| name.clone()).collect();
        list.listed = true;
        for name in gone {
            self.forget(kind, &name);
        }
    }

    /// Looks at the entities that the watch named, and at those for which it can't vouch.
    fn look(&mut self, tree: &Tree<'_>) {
        let mut names = std::mem::take(&mut self.touched);
        let list = self.lists.entry(Kind::Entity).or_default();
        let differs = |name: &&String| {
            let place = tree.place(&DocumentId::entity(*name)).ok().flatten();
            let stamp = place.and_then(|place| walk::stamp(&place.dir, &place.name));
            let known = list.entries.get(*name).filter(|entry| entry.settled);
            stamp.is_none() || known.and_then(|entry| entry.stamp) != stamp
        };
        names.extend(self.unwatchable.iter().filter(differs).cloned());
        let ids: Vec<DocumentId> = names.into_iter().map(DocumentId::entity).collect();
        for (id, seen) in ids.iter().zip(read_all(&ids, tree)) {
            match seen {
                Some(seen) => self.see(seen, true),
                None => self.forget(Kind::Entity, &id.name),
            }
        }
    }

    /// Takes in what was read just now.
    fn see(&mut self, seen: Seen, watched: bool) {
        let Seen { head, stamp, settled, watchable, .. } = seen;
        if head.id.kind == Kind::Entity && !watchable {
            self.unwatchable.insert(head.id.name.clone());
        } else {
            self.unwatchable.remove(&head.id.name);
        }
        self.learn(head, stamp, settled, watched && watchable);
    }

    fn learn(&mut self, head: Head, stamp: Option<Stamp>, settled: bool, watched: bool) {
        let (kind, name) = (head.id.kind, head.id.name.clone());
        let list = self.lists.entry(kind).or_default();
        let known = list.entries.get(&name);
        if list.since.is_some() && known.is_none_or(|known| *known.head != head) {
            self.revision.0 += 1;
            list.changed.insert(name.clone(), self.revision);
        }
        if kind == Kind::Entity {
            self.unsaved += 1;
        }
        let entry = Entry { head: Arc::new(head), stamp, settled, watched, listing: self.listings };
        list.put(entry);
    }

    fn forget(&mut self, kind: Kind, name: &str) {
        if kind == Kind::Entity {
            self.unwatchable.remove(name);
        }
        let list = self.lists.entry(kind).or_default();
        if list.remove(name).is_some() && list.since.is_some() {
            self.revision.0 += 1;
            list.changed.insert(name.to_owned(), self.revision);
        }
    }

    fn load(&mut self, saved: Vec<Saved>) {
        let list = self.lists.entry(Kind::Entity).or_default();
        for Saved { head, stamp } in saved {
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

    /// The entities whose stamps can be trusted by the next process.
    pub(crate) fn savable(&mut self) -> Vec<(Arc<Head>, Stamp)> {
        self.drain();
        self.unsaved = 0;
        let now = Now::read();
        let entries = self.lists.get(&Kind::Entity).map(|list| list.entries.iter());
        let entries = entries.into_iter().flatten();
        let entries = entries.filter(|(name, _)| !self.touched.contains(*name));
        let trusted = entries.filter_map(|(_, entry)| {
            let stamp = entry.stamp?;
            let trusted = entry.settled || (entry.watched && stamp.is_settled(now));
            trusted.then(|| (Arc::clone(&entry.head), stamp))
        });
        trusted.collect()
    }

    /// How many entities there are.
    pub(crate) fn entities(&self) -> usize {
        self.lists.get(&Kind::Entity).map_or(0, |list| list.entries.len())
    }
}
