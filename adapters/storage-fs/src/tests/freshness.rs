//! After any edits on disk, a store that kept everything in mind says what a new one sees.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use reqlore_contract::act;
use reqlore_domain::document::{Document, DocumentId, DocumentMeta, Kind};
use reqlore_domain::ports::documents::{
    BacklinkQuery, Change, Changes, Commit, DocumentRepository, Filter, ReadSet, Refresh, Revision,
    StoreResult,
};
use reqlore_domain::project::ProjectKey;

use super::disk::{Disk, Edit, FILES, FOLDERS, TEXTS, edits, mostly_first};
use crate::FsStore;
use crate::layout::{Area, Layout, Root, Tree};
use crate::metadata_index::Catalog;
use crate::read::{Content, Stamp, read_once};
use crate::walk;

/// What is asked.
#[derive(Debug, Clone)]
enum Ask {
    Changes,
    Everything,
    Find,
    Linking,
    Get,
    Versions,
    Put(usize, usize, usize),
    Delete(usize, usize),
    Reopen,
}

#[derive(Debug, Clone)]
enum Step {
    Edit(Edit),
    /// By which of the two stores.
    Ask(usize, Ask),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (d, f) = (mostly_first(FOLDERS), mostly_first(FILES));
    let t = 0..TEXTS.len();
    let ask = prop_oneof![
        6 => Just(Ask::Changes),
        1 => Just(Ask::Everything),
        3 => Just(Ask::Find),
        2 => Just(Ask::Linking),
        2 => Just(Ask::Get),
        1 => Just(Ask::Versions),
        1 => (d.clone(), f.clone(), t).prop_map(|(d, f, t)| Ask::Put(d, f, t)),
        1 => (d, f).prop_map(|(d, f)| Ask::Delete(d, f)),
        1 => Just(Ask::Reopen),
    ];
    let step = prop_oneof![
        edits().prop_map(Step::Edit),
        (0..2_usize, ask).prop_map(|(store, ask)| Step::Ask(store, ask)),
    ];
    prop::collection::vec(step, 1..50)
}

/// All ids that any step may make.
fn ids(disk: &Disk) -> Vec<DocumentId> {
    let all = (0..FOLDERS).flat_map(|folder| (0..FILES - 1).map(move |file| (folder, file)));
    let mut ids: Vec<DocumentId> = all.map(|(folder, file)| disk.id(folder, file)).collect();
    if disk.kinds() == [Kind::Entity] {
        ids.extend(["a/b/b/p", "a/b/b/q", "c/b/p", "c/b/x"].map(DocumentId::entity));
    }
    ids
}

const PROJECT: fn() -> ProjectKey = ProjectKey::default;

type Heads = BTreeMap<DocumentId, Arc<DocumentMeta>>;

/// What a new store without a cache sees.
async fn fresh(disk: &Disk) -> StoreResult<Heads> {
    find(&FsStore::new(&disk.config(false)), disk.kinds()).await
}

async fn find(store: &FsStore, kinds: &[Kind]) -> StoreResult<Heads> {
    let mut all = Heads::new();
    for kind in kinds {
        let page = store.find(&PROJECT(), &Filter::all(*kind)).await?;
        all.extend(page.heads.into_iter().map(|head| (head.id.clone(), head)));
    }
    Ok(all)
}

async fn backlinks(store: &FsStore, kinds: &[Kind]) -> StoreResult<Vec<Vec<Arc<DocumentMeta>>>> {
    let targets = ["US-001", "US-002", "US-003"].map(String::from).to_vec();
    store.backlinks(&PROJECT(), &BacklinkQuery { kinds: kinds.to_vec(), targets }).await
}

/// A store, and what somebody made of what it told.
struct Reader {
    store: FsStore,
    since: BTreeMap<Kind, Revision>,
    mirror: Heads,
}

impl Reader {
    fn new(disk: &Disk) -> Self {
        let store = FsStore::new(&disk.config(true));
        Self { store, since: BTreeMap::new(), mirror: Heads::new() }
    }

    async fn ask(&mut self, disk: &Disk, ask: &Ask) -> TestCaseResult {
        let kinds = disk.kinds();
        match ask {
            Ask::Changes => self.changes(disk, Refresh::Incremental).await?,
            Ask::Everything => self.changes(disk, Refresh::Full).await?,
            Ask::Find => match (find(&self.store, kinds).await, fresh(disk).await) {
                (Ok(found), Ok(fresh)) => prop_assert_eq!(found, fresh),
                (found, fresh) => prop_assert_eq!(found.is_err(), fresh.is_err()),
            },
            Ask::Linking => {
                let new = FsStore::new(&disk.config(false));
                match (backlinks(&self.store, kinds).await, backlinks(&new, kinds).await) {
                    (Ok(found), Ok(fresh)) => prop_assert_eq!(found, fresh),
                    (found, fresh) => prop_assert_eq!(found.is_err(), fresh.is_err()),
                }
            }
            Ask::Get => {
                let new = FsStore::new(&disk.config(false));
                for id in ids(disk) {
                    let (ours, theirs) = (get(&self.store, &id).await, get(&new, &id).await);
                    prop_assert_eq!(ours, theirs, "{}", id);
                }
            }
            Ask::Versions => {
                let new = FsStore::new(&disk.config(false));
                for id in ids(disk) {
                    let asked = std::slice::from_ref(&id);
                    let ours = self.store.versions(&PROJECT(), asked).await;
                    let theirs = get(&new, &id).await.map(|found| found.map(|d| d.version));
                    prop_assert_eq!(ours.ok(), theirs.map(|one| vec![one]), "{}", id);
                }
            }
            Ask::Put(d, f, t) => {
                commit(&self.store, Change::put(disk.id(*d, *f), TEXTS[*t].as_bytes())).await?;
            }
            Ask::Delete(d, f) => {
                commit(&self.store, Change::Delete { id: disk.id(*d, *f) }).await?;
            }
            Ask::Reopen => *self = Self::new(disk),
        }
        Ok(())
    }

    async fn changes(&mut self, disk: &Disk, look: Refresh) -> TestCaseResult {
        for kind in disk.kinds() {
            self.changes_of(*kind, disk, look).await?;
        }
        Ok(())
    }

    async fn changes_of(&mut self, kind: Kind, disk: &Disk, look: Refresh) -> TestCaseResult {
        let since = self.since.get(&kind).copied().unwrap_or_default();
        let changes = self.store.changes(&PROJECT(), kind, since, look).await;
        let (changes, mut now) = match (changes, fresh(disk).await) {
            (Ok(changes), Ok(now)) => (changes, now),
            (changes, fresh) => {
                prop_assert_eq!(changes.is_err(), fresh.is_err());
                return Ok(());
            }
        };
        now.retain(|id, _| id.kind == kind);
        let known = std::mem::take(&mut self.mirror).into_iter();
        let (mut known, others): (Heads, Heads) = known.partition(|(id, _)| id.kind == kind);
        let (Changes::Since { revision, .. } | Changes::Reset { revision }) = changes;
        self.since.insert(kind, revision);
        if let Changes::Since { ids, .. } = changes {
            for id in ids {
                match now.get(&id) {
                    Some(head) => known.insert(id, Arc::clone(head)),
                    None => known.remove(&id),
                };
            }
            prop_assert_eq!(&known, &now);
        }
        self.mirror = others;
        self.mirror.extend(now);
        Ok(())
    }
}

async fn get(store: &FsStore, id: &DocumentId) -> Option<Option<Document>> {
    let found = store.get(&PROJECT(), std::slice::from_ref(id)).await;
    found.ok().map(|found| found.into_iter().next().flatten())
}

/// A commit that was answered is on the disk.
async fn commit(store: &FsStore, change: Change) -> TestCaseResult {
    let reads = ReadSet::of(vec![change.id().clone()]);
    let (id, version) = (change.id().clone(), change.version());
    let decide = Box::new(move |_: &_| Ok(vec![change.clone()]));
    if store.commit(&PROJECT(), Commit { reads, decide, act: act() }).await.is_ok() {
        let found = get(store, &id).await.flatten();
        prop_assert_eq!(found.map(|document| document.version), version, "{}", id);
    }
    Ok(())
}

fn play(area: Area, steps: &[Step]) -> TestCaseResult {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let disk = Disk::new(area);
        let mut readers = [Reader::new(&disk), Reader::new(&disk)];
        for step in steps {
            match step {
                Step::Edit(edit) => disk.apply(edit),
                Step::Ask(store, ask) => readers[*store].ask(&disk, ask).await?,
            }
        }
        for reader in &mut readers {
            reader.ask(&disk, &Ask::Changes).await?;
            reader.ask(&disk, &Ask::Find).await?;
        }
        Ok(())
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(96) })]

    #[test]
    fn whatever_happens_on_disk_is_seen_by_the_next_call(steps in steps()) {
        play(Area::Knowledge, &steps)?;
    }

    #[test]
    fn whatever_happens_to_items_is_seen_by_the_next_call(steps in steps()) {
        play(Area::Backlog, &steps)?;
    }
}

#[test]
fn a_cached_body_is_returned_only_for_the_same_stamp() {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::open(&folder.path().canonicalize().unwrap()).unwrap();
    let requirements = folder.path().join("docs/dev/req");
    std::fs::create_dir_all(&requirements).unwrap();
    std::fs::write(requirements.join("AGENTS.md"), "# Agents").unwrap();
    std::fs::write(requirements.join("a.md"), "old").unwrap();
    let layout = Layout::new(None);
    let id = DocumentId::section("a");
    let place = Tree::new(&root, &layout).place(&id).unwrap().unwrap();
    let content = read_once(&place).unwrap().unwrap();
    let stamp = Stamp::of(&content.metadata);
    let mut catalog = Catalog::default();
    // A file this new is not trusted by its stamp alone.
    catalog.document(&id, &content);
    assert_eq!(catalog.cached(&id, stamp), None);
    let settled = Content { settled: true, ..content };
    for _ in 0..2 {
        catalog.document(&id, &settled);
    }
    assert_eq!(catalog.cached(&id, stamp).unwrap().body, "old");
    std::fs::write(requirements.join("a.md"), "newer").unwrap();
    let changed = walk::stamp(&place.dir, &place.name).unwrap();
    assert_eq!(catalog.cached(&id, changed), None);
}
