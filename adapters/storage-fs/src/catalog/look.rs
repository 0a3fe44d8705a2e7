//! Bringing the catalog up to date: an area by what its watch names or by a listing, the few other
//! documents one by one.

use std::path::Path;

use reqlore_domain::document::{DocumentId, Kind};
use reqlore_domain::ports::documents::StoreResult;

use super::Catalog;
use crate::area::Area;
use crate::cache::Cache;
use crate::heads::{Seen, read_all};
use crate::layout::Tree;
use crate::walk::{self, Listed};
use crate::watch::Watch;

/// More documents than that are better looked at in a listing.
const MANY: usize = 1_000;

impl Catalog {
    /// Brings kinds up to date: looks at what the watch names, or at everything. `thorough` looks
    /// at everything in any case.
    pub(crate) fn refresh(
        &mut self,
        kinds: &[Kind],
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
        let listed = walk::documents(tree.root, area, &mut |folder, what| {
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
    fn refresh_by_stat(&mut self, kind: Kind, tree: &Tree<'_>) -> StoreResult<()> {
        let ids = match kind {
            Kind::Instructions => vec![DocumentId::instructions()],
            Kind::Docsets => vec![DocumentId::docsets()],
            _ => walk::sections(tree.requirements()?)?,
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
    fn compare(&mut self, kinds: &[Kind], listed: Vec<Listed>, tree: &Tree<'_>, watched: bool) {
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
