//! What is known of a project's documents: heads, believed as long as `stat` or the watch vouches
//! for them, and when each last changed.
//!
//! A file that was written less than two seconds before it was read is read again, unless the watch
//! saw it all the time: within the clock's grain two writes can look alike. History of a kind
//! begins when somebody first asks for it. Revisions start at a random number, so that one of an
//! earlier process is recognised as unknown.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use reqlore_domain::document::{Document, DocumentId, Head, Kind, Version};
use reqlore_domain::ports::documents::{Change, Changes, Revision, StoreResult};
use reqlore_domain::project::ProjectKey;

use crate::cache::{Cache, Saved};
use crate::layout::Tree;
use crate::read::{Content, Stamp, read_settled};
use crate::walk::{self, Listed};
use crate::watch::{News, Watch};

/// The catalogs of all projects that were asked for.
#[derive(Debug, Default)]
pub(crate) struct Catalogs {
    projects: Mutex<HashMap<ProjectKey, Arc<Mutex<Catalog>>>>,
}

impl Catalogs {
    pub(crate) fn of(&self, project: &ProjectKey) -> Arc<Mutex<Catalog>> {
        let mut projects = self.projects.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(projects.entry(project.clone()).or_default())
    }

    /// Those there are.
    pub(crate) fn all(&self) -> Vec<(ProjectKey, Arc<Mutex<Catalog>>)> {
        let projects = self.projects.lock().unwrap_or_else(PoisonError::into_inner);
        projects.iter().map(|(key, catalog)| (key.clone(), Arc::clone(catalog))).collect()
    }
}

/// One project's.
#[derive(Debug)]
pub(crate) struct Catalog {
    revision: Revision,
    lists: HashMap<Kind, List>,
    /// Over the entities.
    watch: Option<Watch>,
    /// What the watch named and nobody has looked at yet.
    touched: BTreeSet<String>,
    /// Counts listings, to see what is gone.
    listings: u64,
    /// How many entities were read since the cache was last written.
    pub(crate) unsaved: usize,
    loaded: bool,
}

/// The documents of one kind.
#[derive(Debug, Default)]
struct List {
    entries: BTreeMap<String, Entry>,
    /// Set once somebody asked what changed: all there is was known then.
    since: Option<Revision>,
    changed: BTreeMap<String, Revision>,
}

#[derive(Debug)]
struct Entry {
    head: Arc<Head>,
    /// `None` after a write of ours: its content is known and its stamp is not.
    stamp: Option<Stamp>,
    /// The stamp would show the next change.
    settled: bool,
    /// The watch saw it since it was read.
    watched: bool,
    listing: u64,
}

impl Default for Catalog {
    fn default() -> Self {
        let random = RandomState::new().build_hasher().finish();
        Self {
            revision: Revision(random >> 16),
            lists: HashMap::new(),
            watch: None,
            touched: BTreeSet::new(),
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
        if content.steady {
            self.learn(Head::of(&document), Some(stamp), false);
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
                    list.entries.insert(id.name.clone(), entry);
                }
                Change::Delete { .. } => drop(list.entries.remove(&id.name)),
            }
        }
        self.revision
    }

    /// What changed since a revision, when the watch vouches that nothing else did.
    pub(crate) fn quick(&mut self, kind: Kind, since: Revision) -> Option<Changes> {
        if kind != Kind::Entity || self.lists.get(&kind)?.since.is_none() {
            return None;
        }
        (self.drain() && self.touched.is_empty()).then(|| self.answer(kind, since))
    }

    /// The answer from what is known.
    pub(crate) fn answer(&mut self, kind: Kind, since: Revision) -> Changes {
        let revision = self.revision;
        let list = self.lists.entry(kind).or_default();
        match list.since {
            Some(first) if first <= since && since <= revision => {
                let after = list.changed.iter().filter(|(_, at)| **at > since);
                let ids = after.map(|(name, _)| DocumentId { kind, name: name.clone() }).collect();
                Changes::Since { revision, ids }
            }
            Some(_) => Changes::Reset { revision },
            None => {
                list.since = Some(revision);
                Changes::Reset { revision }
            }
        }
    }

    /// All heads of a kind, by name, as they were when it was last brought up to date.
    pub(crate) fn heads(&self, kind: Kind) -> Vec<Head> {
        let entries = self.lists.get(&kind).map(|list| list.entries.values());
        entries.into_iter().flatten().map(|entry| Head::clone(&entry.head)).collect()
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
        let listed_before = self.lists.get(&kind).is_some_and(|list| list.since.is_some());
        if vouched && listed_before && !thorough {
            let touched = std::mem::take(&mut self.touched);
            return touched.iter().try_for_each(|name| self.look(tree, name));
        }
        self.doubt_touched();
        if self.watch.is_none() {
            self.watch = Watch::start(tree.root, path);
        }
        let mut watch = self.watch.take();
        let listed = walk::entities(tree.root, &mut |folder, path| {
            if let Some(watch) = &mut watch {
                watch.add(folder, path);
            }
        });
        self.watch = watch.filter(Watch::sees_all);
        self.compare(kind, listed?, tree);
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

    /// What the watch named is not believed, whatever its stamp says.
    fn doubt_touched(&mut self) {
        let list = self.lists.entry(Kind::Entity).or_default();
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
                    self.learn(unread(&id, &error.to_string()), None, false);
                    continue;
                }
            };
            listed.extend(stamp.map(|stamp| Listed { name: id.name, stamp }));
        }
        self.compare(kind, listed, tree);
        Ok(())
    }

    /// Compares with a listing of all there is: reads what is new or changed, drops what is gone.
    fn compare(&mut self, kind: Kind, listed: Vec<Listed>, tree: &Tree<'_>) {
        self.listings += 1;
        let listing = self.listings;
        let mut unknown = Vec::new();
        for Listed { name, stamp } in listed {
            let list = self.lists.entry(kind).or_default();
            match list.entries.get_mut(&name) {
                Some(entry) if entry.stamp == Some(stamp) && (entry.settled || entry.watched) => {
                    entry.listing = listing;
                }
                _ => unknown.push(DocumentId { kind, name }),
            }
        }
        let watched = self.watch.is_some();
        for (head, stamp) in read_all(&unknown, tree).into_iter().flatten() {
            self.learn(head, stamp, watched);
        }
        let list = self.lists.entry(kind).or_default();
        let gone = list.entries.iter().filter(|(_, entry)| entry.listing != listing);
        let gone: Vec<String> = gone.map(|(name, _)| name.clone()).collect();
        for name in gone {
            self.forget(kind, &name);
        }
    }

    /// Looks at one entity that the watch named.
    fn look(&mut self, tree: &Tree<'_>, name: &str) -> StoreResult<()> {
        let id = DocumentId::entity(name);
        let there = tree.place(&id)?.and_then(|place| walk::stamp(&place.dir, &place.name));
        match there.and_then(|_| read(&id, tree)) {
            Some((head, stamp)) => self.learn(head, stamp, true),
            None => self.forget(Kind::Entity, name),
        }
        Ok(())
    }

    fn learn(&mut self, head: Head, stamp: Option<Stamp>, watched: bool) {
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
        let settled = stamp.is_some_and(|stamp| stamp.is_settled());
        let entry = Entry { head: Arc::new(head), stamp, settled, watched, listing: self.listings };
        list.entries.insert(name, entry);
    }

    fn forget(&mut self, kind: Kind, name: &str) {
        let list = self.lists.entry(kind).or_default();
        if list.entries.remove(name).is_some() && list.since.is_some() {
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
            list.entries.insert(entry.head.id.name.clone(), entry);
        }
    }

    /// The entities whose stamps can be trusted by the next process.
    pub(crate) fn take_unsaved(&mut self) -> Vec<(Arc<Head>, Stamp)> {
        self.drain();
        self.unsaved = 0;
        let entries = self.lists.get(&Kind::Entity).map(|list| list.entries.iter());
        let entries = entries.into_iter().flatten();
        let entries = entries.filter(|(name, _)| !self.touched.contains(*name));
        let trusted = entries.filter_map(|(_, entry)| {
            let stamp = entry.stamp?;
            let trusted = entry.settled || (entry.watched && stamp.is_settled());
            trusted.then(|| (Arc::clone(&entry.head), stamp))
        });
        trusted.collect()
    }

    /// How many entities there are.
    pub(crate) fn entities(&self) -> usize {
        self.lists.get(&Kind::Entity).map_or(0, |list| list.entries.len())
    }
}

type Read = Option<(Head, Option<Stamp>)>;

/// Reads files, many of them on two threads.
fn read_all(ids: &[DocumentId], tree: &Tree<'_>) -> Vec<Read> {
    const FEW: usize = 64;
    if ids.len() <= FEW {
        return ids.iter().map(|id| read(id, tree)).collect();
    }
    let (left, right) = ids.split_at(ids.len() / 2);
    let (root, layout) = tree.parts();
    std::thread::scope(|scope| {
        let other = scope.spawn(move || {
            let tree = Tree::new(root, layout);
            right.iter().map(|id| read(id, &tree)).collect::<Vec<_>>()
        });
        let mut all: Vec<Read> = left.iter().map(|id| read(id, tree)).collect();
        all.extend(other.join().unwrap_or_default());
        all
    })
}

/// Reads a file that is listed; a fault is part of the head.
fn read(id: &DocumentId, tree: &Tree<'_>) -> Read {
    let read = || -> StoreResult<Read> {
        let Some(place) = tree.place(id)? else { return Ok(None) };
        let stamp = walk::stamp(&place.dir, &place.name);
        let content = match read_settled(&place) {
            Ok(Some(content)) => content,
            Ok(None) => return Ok(None),
            Err(error) => return Ok(Some((unread(id, &error.to_string()), stamp))),
        };
        let stamp = content.steady.then(|| Stamp::of(&content.metadata));
        Ok(Some((Head::of(&Document::new(id.clone(), content.bytes)), stamp)))
    };
    read().unwrap_or_else(|error| Some((unread(id, &error.to_string()), None)))
}

fn unread(id: &DocumentId, reason: &str) -> Head {
    Head::unread(id.clone(), Version::of(b""), reason.to_owned())
}
