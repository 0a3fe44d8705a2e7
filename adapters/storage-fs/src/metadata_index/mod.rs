//! Metadata of a project's documents, valid as long as `stat` or the watch confirms it, and the
//! revision at which each document last changed.
//!
//! A file written less than two seconds before it was read is read again, unless the watch saw it
//! all the time: within the clock's resolution two writes can look alike. Files that the watch
//! can't see (with names in other folders, or with an error that may pass) are inspected each time.
//! Revisions start at a random number, so that one of an earlier process is recognized as unknown.

mod by_kind;
pub(crate) mod load;

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use reqlore_domain::document::{Document, DocumentId, DocumentKind, DocumentMeta, Version};
use reqlore_domain::ports::documents::{
    BacklinkQuery, ChangeSet, DocumentChange, DocumentFilter, MetadataPage, Revision, StoreResult,
};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;

use crate::layout::{Area, Tree};
use crate::marks::{Marks, Numbers};
use crate::read::{Content, Now, Stamp};
use crate::walk::{self, Listed};
use crate::watch::Watch;
use by_kind::{Entry, List};
use load::{Cache, Saved, Seen, read_all};

/// One project's.
#[derive(Debug)]
pub(crate) struct Catalog {
    revision: Revision,
    lists: HashMap<DocumentKind, List>,
    knowledge: Ground,
    backlog: Ground,
    /// The highest ever seen.
    numbers: Numbers,
    /// Counts listings, to see what is gone.
    listings: u64,
    bodies: BodyCache,
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
            bodies: BodyCache::default(),
        }
    }
}

impl Catalog {
    /// The version of a file that looks like this, where its stamp alone can be believed.
    pub(crate) fn believed(&self, id: &DocumentId, stamp: Stamp) -> Option<Version> {
        let entry = self.lists.get(&id.kind)?.entries.get(&id.name)?;
        (entry.settled && entry.stamp == Some(stamp)).then_some(entry.head.version)
    }

    /// The document of a file that has not changed since it was read, if its body is cached.
    pub(crate) fn cached(&self, id: &DocumentId, stamp: Stamp) -> Option<Document> {
        let version = self.believed(id, stamp)?;
        let body = self.bodies.get(id, version)?;
        Some(Document { id: id.clone(), body, version })
    }

    /// The document of a file that was read; its version is not computed again when it is known.
    pub(crate) fn document(&mut self, id: &DocumentId, content: &Content) -> Document {
        let stamp = Stamp::of(&content.metadata);
        if content.steady
            && let Some(version) = self.believed(id, stamp)
        {
            self.bodies.put(id, version, &content.bytes);
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
    pub(crate) fn record(&mut self, changes: &[DocumentChange], at: Timestamp) -> Revision {
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
                DocumentChange::Put { document } => {
                    list.put(Entry::new(DocumentMeta::of(document, at), self.listings));
                }
                DocumentChange::Delete { .. } => {
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
    pub(crate) fn is_vouched(&mut self, kinds: &[DocumentKind]) -> bool {
        let is_watched = kinds.iter().all(|kind| Area::of(*kind).is_some());
        is_watched
            && Area::among(kinds).all(|area| self.drain(area) && self.ground(area).is_known())
    }

    /// The answer from what is known.
    pub(crate) fn answer(&mut self, kind: DocumentKind, since: Revision) -> ChangeSet {
        self.lists.entry(kind).or_default().answer(kind, since, self.revision)
    }

    /// All heads of a kind, by name, as they were when it was last brought up to date.
    pub(crate) fn heads(&self, kind: DocumentKind) -> Vec<Arc<DocumentMeta>> {
        let entries = self.lists.get(&kind).map(|list| list.entries.values());
        entries.into_iter().flatten().map(|entry| Arc::clone(&entry.head)).collect()
    }

    /// A part of them.
    pub(crate) fn page(&self, filter: &DocumentFilter) -> MetadataPage {
        let list = self.lists.get(&filter.kind);
        list.map_or_else(|| MetadataPage::of(Vec::new(), filter), |list| list.page(filter))
    }

    /// What each of these words names, as it was when the kind was last brought up to date.
    pub(crate) fn lookup(
        &self,
        kind: DocumentKind,
        words: &[String],
    ) -> Vec<Vec<Arc<DocumentMeta>>> {
        let Some(list) = self.lists.get(&kind) else { return vec![Vec::new(); words.len()] };
        words.iter().map(|word| list.lookup(word)).collect()
    }

    /// Who leads to each target, as it was when these kinds were last brought up to date. None but
    /// those that are watched lead anywhere.
    pub(crate) fn backlinks(&self, links: &BacklinkQuery) -> Vec<Vec<Arc<DocumentMeta>>> {
        let kinds = DocumentKind::ALL.into_iter().filter(|kind| links.kinds.contains(kind));
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
        list.put(Entry { stamp, settled, watched, ..Entry::new(head, self.listings) });
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
            list.put(Entry { stamp: Some(stamp), settled: true, ..Entry::new(head, 0) });
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

/// Bodies of the documents that are read most: sections, AGENTS.md and the docsets' configuration.
/// A version is a hash of the body, so an entry is valid for as long as it names one.
#[derive(Debug, Default)]
struct BodyCache {
    bodies: HashMap<DocumentId, (Version, Bytes)>,
    size: usize,
}

impl BodyCache {
    /// Most bytes of one project.
    const MAX_BYTES: usize = 256 * 1024;

    fn get(&self, id: &DocumentId, version: Version) -> Option<Bytes> {
        let (cached, body) = self.bodies.get(id)?;
        (*cached == version).then(|| body.clone())
    }

    fn put(&mut self, id: &DocumentId, version: Version, body: &Bytes) {
        if Area::of(id.kind).is_some() || body.len() > Self::MAX_BYTES {
            return;
        }
        if self.size + body.len() > Self::MAX_BYTES {
            *self = Self::default();
        }
        self.size += body.len();
        if let Some((_, old)) = self.bodies.insert(id.clone(), (version, body.clone())) {
            self.size -= old.len();
        }
    }
}

/// More documents than that are better looked at in a listing.
const MANY: usize = 1_000;

impl Catalog {
    /// Brings kinds up to date: looks at what the watch names, or at everything. `thorough` looks
    /// at everything in any case.
    pub(crate) fn refresh(
        &mut self,
        kinds: &[DocumentKind],
        tree: &Tree<'_>,
        path: &Path,
        cache: &Cache,
        thorough: bool,
    ) -> StoreResult<()> {
        for area in Area::among(kinds) {
            self.refresh_area(area, tree, path, cache, thorough)?;
        }
        for kind in kinds.iter().filter(|kind| Area::of(**kind).is_none()) {
            self.refresh_by_stat(*kind, tree)?;
        }
        Ok(())
    }

    fn refresh_area(
        &mut self,
        area: Area,
        tree: &Tree<'_>,
        path: &Path,
        cache: &Cache,
        thorough: bool,
    ) -> StoreResult<()> {
        if !std::mem::replace(&mut self.ground(area).loaded, true) {
            self.load(cache.load(path, area));
        }
        let vouched = self.drain(area);
        let ground = self.ground(area);
        if vouched && ground.listed && !thorough && ground.unwatchable.len() <= MANY {
            self.look(area, tree);
            return Ok(());
        }
        self.doubt(area, thorough);
        // Until everything was compared the watch vouches for nothing.
        let watch = self.ground(area).watch.take();
        let mut watch = watch.or_else(|| Watch::start(tree.root, path, area));
        let listed = walk::documents(tree.root, area, None, &mut |folder, what| {
            if let Some(watch) = &mut watch {
                watch.add(folder, what);
            }
        });
        let watch = watch.filter(Watch::sees_all);
        self.compare(area.kinds(), listed?, tree, watch.is_some());
        let ground = self.ground(area);
        ground.listed = true;
        ground.watch = watch;
        Ok(())
    }

    /// Takes in what the watch has to tell; false when it can't vouch any more.
    pub(super) fn drain(&mut self, area: Area) -> bool {
        let vouches = self.ground(area).drain();
        if !vouches {
            self.entries(area).for_each(|entry| entry.watched = false);
        }
        vouches
    }

    /// What the watch named is not believed, whatever its stamp says; and a thorough look believes
    /// no watch.
    fn doubt(&mut self, area: Area, thorough: bool) {
        if thorough {
            self.entries(area).for_each(|entry| entry.watched = false);
        }
        for id in std::mem::take(&mut self.ground(area).touched) {
            let list = self.lists.get_mut(&id.kind);
            if let Some(entry) = list.and_then(|list| list.entries.get_mut(&id.name)) {
                entry.stamp = None;
            }
        }
    }

    /// Sections and the like are few: each is looked at.
    fn refresh_by_stat(&mut self, kind: DocumentKind, tree: &Tree<'_>) -> StoreResult<()> {
        let ids = match kind {
            DocumentKind::Instructions => vec![DocumentId::instructions()],
            DocumentKind::Docsets => vec![DocumentId::docsets()],
            _ => walk::sections(tree.requirements()?, None)?,
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
            listed.extend(stamp.map(|stamp| Listed { id, stamp }));
        }
        self.compare(&[kind], listed, tree, false);
        Ok(())
    }

    /// Compares with a listing of all there is of some kinds: reads what is new or changed, drops
    /// what is gone.
    fn compare(
        &mut self,
        kinds: &[DocumentKind],
        listed: Vec<Listed>,
        tree: &Tree<'_>,
        watched: bool,
    ) {
        self.listings += 1;
        let listing = self.listings;
        let mut unknown = Vec::new();
        for Listed { id, stamp } in listed {
            let list = self.lists.entry(id.kind).or_default();
            match list.entries.get_mut(&id.name) {
                Some(entry) if entry.stamp == Some(stamp) && (entry.settled || entry.watched) => {
                    entry.listing = listing;
                    if let Some(area) = Area::of(id.kind).filter(|_| stamp.has_other_names()) {
                        self.ground(area).unwatchable.insert(id);
                    }
                }
                _ => unknown.push(id),
            }
        }
        for seen in read_all(&unknown, tree).into_iter().flatten() {
            self.see(seen, watched);
        }
        for kind in kinds {
            let list = self.lists.entry(*kind).or_default();
            let gone = list.entries.values().filter(|entry| entry.listing != listing);
            let gone: Vec<DocumentId> = gone.map(|entry| entry.head.id.clone()).collect();
            for id in gone {
                self.forget(&id);
            }
        }
    }

    /// Looks at the documents that the watch named, and at those for which it can't vouch.
    fn look(&mut self, area: Area, tree: &Tree<'_>) {
        let touched = std::mem::take(&mut self.ground(area).touched);
        let differs = |id: &&DocumentId| {
            let place = tree.place(id).ok().flatten();
            let stamp = place.and_then(|place| walk::stamp(&place.dir, &place.name));
            let known = self.lists.get(&id.kind).and_then(|list| list.entries.get(&id.name));
            let known = known.filter(|entry| entry.settled);
            stamp.is_none() || known.and_then(|entry| entry.stamp) != stamp
        };
        let unwatchable = match area {
            Area::Knowledge => &self.knowledge.unwatchable,
            Area::Backlog => &self.backlog.unwatchable,
        };
        let doubtful = unwatchable.iter().filter(|id| !touched.contains(id)).filter(differs);
        let ids: Vec<DocumentId> = doubtful.chain(&touched).cloned().collect();
        for (id, seen) in ids.iter().zip(read_all(&ids, tree)) {
            match seen {
                Some(seen) => self.see(seen, true),
                None => self.forget(id),
            }
        }
    }
}

/// What happened since the last look.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum News {
    Quiet,
    /// These documents changed, came or went.
    Touched(BTreeSet<DocumentId>),
    /// The watch can't tell; it is of no use any more.
    Lost,
}

/// How far what is known of an area can be believed.
#[derive(Debug, Default)]
pub(crate) struct Ground {
    pub(crate) watch: Option<Watch>,
    /// What the watch named, or we wrote, and nobody has looked at yet.
    pub(crate) touched: BTreeSet<DocumentId>,
    /// Documents for which the watch can't vouch.
    pub(crate) unwatchable: BTreeSet<DocumentId>,
    /// The cache was read.
    pub(crate) loaded: bool,
    /// All there was has been looked at.
    pub(crate) listed: bool,
    /// How many documents were read since the cache was last written.
    pub(crate) unsaved: usize,
}

impl Ground {
    /// Takes in what the watch has to tell; false when it can't vouch any more.
    pub(crate) fn drain(&mut self) -> bool {
        match self.watch.as_mut().map_or(News::Lost, Watch::news) {
            News::Quiet => true,
            News::Touched(ids) => {
                self.touched.extend(ids);
                true
            }
            News::Lost => {
                self.watch = None;
                false
            }
        }
    }

    /// Is all there is known, after the watch was asked?
    pub(crate) fn is_known(&self) -> bool {
        self.listed && self.touched.is_empty() && self.unwatchable.is_empty()
    }
}

/// Each project has one; whoever holds it brings it up to date.
#[derive(Debug, Default)]
pub(crate) struct Catalogs {
    projects: Mutex<HashMap<ProjectKey, Arc<Mutex<Catalog>>>>,
}

/// So many are kept; beyond that those that nobody uses just now are forgotten. A watch is a handle
/// of which a process has few.
const MOST: usize = 16;

impl Catalogs {
    pub(crate) fn of(&self, project: &ProjectKey) -> Arc<Mutex<Catalog>> {
        let mut projects = self.projects.lock().unwrap_or_else(PoisonError::into_inner);
        if projects.len() >= MOST && !projects.contains_key(project) {
            projects.retain(|_, catalog| Arc::strong_count(catalog) > 1);
        }
        Arc::clone(projects.entry(project.clone()).or_default())
    }

    /// Those there are.
    pub(crate) fn all(&self) -> Vec<(ProjectKey, Arc<Mutex<Catalog>>)> {
        let projects = self.projects.lock().unwrap_or_else(PoisonError::into_inner);
        projects.iter().map(|(key, catalog)| (key.clone(), Arc::clone(catalog))).collect()
    }
}
