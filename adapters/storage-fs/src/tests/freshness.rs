//! After any edits on disk, a store that kept everything in mind says what a new one sees.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use reqlore_contract::act;
use reqlore_domain::document::{Document, DocumentId, Head, Kind};
use reqlore_domain::ports::documents::{
    Change, Changes, Commit, DocumentRepository, Filter, Look, Reads, Revision, StoreResult,
};
use reqlore_domain::project::ProjectKey;

use super::disk::{Disk, Edit, FILES, FOLDERS, TEXTS, edits, mostly_first};
use crate::FsStore;

/// What is asked.
#[derive(Debug, Clone)]
enum Ask {
    Changes,
    Everything,
    Find,
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
    let (d, f) = (mostly_first(FOLDERS.len()), mostly_first(FILES.len()));
    let t = 0..TEXTS.len();
    let ask = prop_oneof![
        6 => Just(Ask::Changes),
        1 => Just(Ask::Everything),
        3 => Just(Ask::Find),
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
fn ids() -> Vec<DocumentId> {
    let files = FILES.iter().filter(|file| !file.starts_with('.'));
    let files = files.map(|file| file.trim_end_matches(".md"));
    let folders = FOLDERS.iter().chain(&["a/b/b", "c/b"]);
    let all = folders.flat_map(|folder| files.clone().map(move |file| (folder, file)));
    all.map(|(folder, file)| DocumentId::entity(format!("{folder}/{file}").trim_matches('/')))
        .collect()
}

const PROJECT: fn() -> ProjectKey = ProjectKey::default;

/// What a new store without a cache sees.
async fn fresh(disk: &Disk) -> StoreResult<Vec<Arc<Head>>> {
    find(&FsStore::new(&disk.config(false))).await
}

async fn find(store: &FsStore) -> StoreResult<Vec<Arc<Head>>> {
    Ok(store.find(&PROJECT(), &Filter::all(Kind::Entity)).await?.heads)
}

fn by_name(heads: Vec<Arc<Head>>) -> BTreeMap<String, Arc<Head>> {
    heads.into_iter().map(|head| (head.id.name.clone(), head)).collect()
}

/// A store, and what somebody made of what it told.
struct Reader {
    store: FsStore,
    since: Revision,
    mirror: BTreeMap<String, Arc<Head>>,
}

impl Reader {
    fn new(disk: &Disk) -> Self {
        let store = FsStore::new(&disk.config(true));
        Self { store, since: Revision::default(), mirror: BTreeMap::new() }
    }

    async fn ask(&mut self, disk: &Disk, ask: &Ask) -> TestCaseResult {
        match ask {
            Ask::Changes => self.changes(disk, Look::Changed).await?,
            Ask::Everything => self.changes(disk, Look::Everything).await?,
            Ask::Find => match (find(&self.store).await, fresh(disk).await) {
                (Ok(found), Ok(fresh)) => prop_assert_eq!(found, fresh),
                (found, fresh) => prop_assert_eq!(found.is_err(), fresh.is_err()),
            },
            Ask::Get => {
                let new = FsStore::new(&disk.config(false));
                for id in ids() {
                    let (ours, theirs) = (get(&self.store, &id).await, get(&new, &id).await);
                    prop_assert_eq!(ours, theirs, "{}", id);
                }
            }
            Ask::Versions => {
                let new = FsStore::new(&disk.config(false));
                for id in ids() {
                    let asked = std::slice::from_ref(&id);
                    let ours = self.store.versions(&PROJECT(), asked).await;
                    let theirs = get(&new, &id).await.map(|found| found.map(|d| d.version));
                    prop_assert_eq!(ours.ok(), theirs.map(|one| vec![one]), "{}", id);
                }
            }
            Ask::Put(d, f, t) => {
                let id = DocumentId::entity(entity(*d, *f));
                commit(&self.store, Change::put(id, TEXTS[*t].as_bytes())).await?;
            }
            Ask::Delete(d, f) => {
                let id = DocumentId::entity(entity(*d, *f));
                commit(&self.store, Change::Delete { id }).await?;
            }
            Ask::Reopen => *self = Self::new(disk),
        }
        Ok(())
    }

    async fn changes(&mut self, disk: &Disk, look: Look) -> TestCaseResult {
        let changes = self.store.changes(&PROJECT(), Kind::Entity, self.since, look).await;
        let (changes, mut now) = match (changes, fresh(disk).await) {
            (Ok(changes), Ok(now)) => (changes, by_name(now)),
            (changes, fresh) => {
                prop_assert_eq!(changes.is_err(), fresh.is_err());
                return Ok(());
            }
        };
        match changes {
            Changes::Reset { revision } => {
                self.mirror = now;
                self.since = revision;
            }
            Changes::Since { revision, ids } => {
                for id in &ids {
                    match now.get(&id.name) {
                        Some(head) => self.mirror.insert(id.name.clone(), head.clone()),
                        None => self.mirror.remove(&id.name),
                    };
                }
                prop_assert_eq!(&mut self.mirror, &mut now);
                self.since = revision;
            }
        }
        Ok(())
    }
}

fn entity(folder: usize, file: usize) -> String {
    let path = format!("{}/{}", FOLDERS[folder], FILES[file]);
    path.trim_matches('/').trim_end_matches(".md").to_owned()
}

async fn get(store: &FsStore, id: &DocumentId) -> Option<Option<Document>> {
    let found = store.get(&PROJECT(), std::slice::from_ref(id)).await;
    found.ok().map(|found| found.into_iter().next().flatten())
}

/// A commit that was answered is on the disk.
async fn commit(store: &FsStore, change: Change) -> TestCaseResult {
    let reads = Reads::of(vec![change.id().clone()]);
    let (id, version) = (change.id().clone(), change.version());
    let decide = Box::new(move |_: &_| Ok(vec![change.clone()]));
    if store.commit(&PROJECT(), Commit { reads, decide, act: act() }).await.is_ok() {
        let found = get(store, &id).await.flatten();
        prop_assert_eq!(found.map(|document| document.version), version, "{}", id);
    }
    Ok(())
}

fn play(steps: &[Step]) -> TestCaseResult {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let disk = Disk::new();
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
        play(&steps)?;
    }
}
