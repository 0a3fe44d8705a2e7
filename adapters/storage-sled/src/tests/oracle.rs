//! Any history, against the simplest correct store; with restarts in between.

use std::fs::File;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use proptest::collection;
use proptest::prelude::*;
use reqlore_contract::archive::read_records;
use reqlore_contract::{act, run};
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::{DocumentId, Kind, Version};
use reqlore_domain::ports::Store;
use reqlore_domain::ports::documents::{
    BacklinkQuery, Change, Changes, Commit, Committed, DocumentRepository, Filter, ReadSet,
    Refresh, Revision, Snapshot, StoreError, StoreResult,
};
use reqlore_domain::ports::idempotency::{IdempotencyKey, IdempotencyRecord};
use reqlore_domain::ports::write_context::{AuditScope, WriteContext};
use reqlore_domain::project::ProjectKey;
use reqlore_storage_memory::MemoryStore;
use tempfile::tempdir;

use super::config;
use crate::{PATIENCE, SledStore};

const NAMES: [&str; 5] = ["a", "a\0", "b/c", "dec-000001", "REQ-003-x"];
const TARGETS: [&str; 4] = ["dec-000001", "REQ-001", "REQ-002", ""];
const PROJECTS: [&str; 2] = ["default", "/other"];

/// Of a document, by its number: the reference of its text, or none to delete it.
type Edit = (usize, Option<u32>);

#[derive(Debug, Clone)]
enum Step {
    /// Commits that are queued together, so that they are one group: of which project, what, and
    /// under which key.
    Commits(Vec<(usize, Vec<Edit>, Option<usize>)>),
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let change = (0..NAMES.len() * Kind::ALL.len(), proptest::option::weighted(0.7, 0..4u32));
    let changes = collection::vec(change, 0..4);
    let key = proptest::option::weighted(0.3, 0..5usize);
    prop_oneof![
        9 => collection::vec((0..2usize, changes, key), 1..6).prop_map(Step::Commits),
        1 => Just(Step::Restart),
    ]
}

fn id(number: usize) -> DocumentId {
    let name = NAMES[number % NAMES.len()].to_owned();
    DocumentId { kind: Kind::ALL[number / NAMES.len()], name }
}

fn change((number, text): Edit) -> Change {
    // Some heads are so large that they are made from the body.
    let tags = |text| if text == 3 { "t".repeat(5000) } else { String::new() };
    let text = text.map(|text| {
        let head =
            format!("id: dec-{text:06}\nof: [dec-000001, REQ-{text}]\ndepends_on: REQ-{text}");
        format!("---\n{head}\ntags: [{}]\n---\n{}", tags(text), "x".repeat(9000))
    });
    match text {
        Some(text) => Change::put(id(number), Bytes::from(text)),
        None => Change::Delete { id: id(number) },
    }
}

/// What is put tells what the decision saw.
fn commit(changes: &[Change], key: Option<usize>) -> Commit {
    let documents = changes.iter().map(|change| change.id().clone()).collect();
    let heads = (changes.len() % 2 == 1).then_some(Kind::Entity);
    let targets = if changes.len() == 2 { &TARGETS[..] } else { &[] };
    let numbers = ItemKind::ALL.to_vec();
    let changes_named = format!("{changes:?}");
    let changes = changes.to_vec();
    let decide = Box::new(move |snapshot: &Snapshot| {
        let there = snapshot.documents.iter().flatten().count();
        let Snapshot { heads, links, numbers, .. } = snapshot;
        // Its hash, because what it makes is seen by the next one.
        let seen = Version::of(format!("{there} {heads:?} {links:?} {numbers:?}").as_bytes());
        let decided = changes.iter().map(|change| match change {
            Change::Put { document } => {
                let body = [&document.body[..], seen.to_string().as_bytes()].concat();
                Change::put(document.id.clone(), body)
            }
            Change::Delete { .. } => change.clone(),
        });
        Ok(decided.collect())
    });
    let links = links(targets);
    let once = key.map(|key| IdempotencyKey { key: key.to_string(), request: changes_named });
    let audited = Some(AuditScope::begin(Arc::new(act().at)));
    let act = WriteContext { once, audited, ..act() };
    Commit { reads: ReadSet { documents, heads, links, numbers }, decide, act }
}

fn links(targets: &[&str]) -> BacklinkQuery {
    let targets = targets.iter().map(|target| (*target).to_owned()).collect();
    BacklinkQuery { kinds: Kind::ALL.to_vec(), targets }
}

/// What a commit led to, if it was not done before.
fn told(outcome: StoreResult<Committed>) -> Result<Committed, IdempotencyRecord> {
    outcome.map_err(|error| match error {
        StoreError::Repeated(earlier) => *earlier,
        other => panic!("{other:?}"),
    })
}

/// Everything that a store can be asked.
async fn seen(store: &impl Store) -> Vec<String> {
    let mut seen = Vec::new();
    let all: Vec<DocumentId> = (0..NAMES.len() * Kind::ALL.len()).map(id).collect();
    for project in PROJECTS.map(ProjectKey::new) {
        seen.push(format!("{:?}", store.get(&project, &all).await.unwrap()));
        seen.push(format!("{:?}", store.versions(&project, &all).await.unwrap()));
        seen.push(format!("{:?}", store.backlinks(&project, &links(&TARGETS)).await.unwrap()));
        for kind in Kind::ALL {
            for limit in [None, Some(1), Some(9)] {
                let filter = Filter { kind, after: limit.map(|_| "a".to_owned()), limit };
                seen.push(format!("{:?}", store.find(&project, &filter).await.unwrap()));
            }
            let words = ["dec-000001", "dec-000002", "a", "b/c", ""].map(str::to_owned);
            seen.push(format!("{:?}", store.lookup(&project, kind, &words).await.unwrap()));
            for since in 0..16 {
                let look = Refresh::Incremental;
                let changes = store.changes(&project, kind, Revision(since), look).await.unwrap();
                seen.push(match changes {
                    Changes::Since { revision, mut ids } => {
                        ids.sort();
                        format!("{revision:?} {ids:?}")
                    }
                    Changes::Reset { revision } => format!("reset {revision:?}"),
                });
            }
        }
    }
    seen.push(format!("{:?}", read_records(store).await.unwrap()));
    seen.push(format!("{:?}", store.rows(0, usize::MAX).await.unwrap()));
    for key in 0..5 {
        seen.push(format!("{:?}", store.find_record(&key.to_string()).await.unwrap()));
    }
    seen
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..<_>::default() })]
    #[test]
    fn any_history_is_that_of_the_simplest_store(steps in collection::vec(step(), 1..12)) {
        let folder = tempdir().unwrap();
        let open = || {
            let sync = Box::new(|_: &File| Ok(()));
            Arc::new(SledStore::open_with(&config(folder.path()), sync, PATIENCE).unwrap())
        };
        let (oracle, mut store) = (MemoryStore::default(), open());
        run(async {
            for step in steps {
                match step {
                    Step::Restart => {
                        store.close().unwrap();
                        store = open();
                    }
                    Step::Commits(commits) => {
                        let commits = commits.into_iter().map(|(project, changes, key)| {
                            let changes = changes.into_iter().map(change).collect::<Vec<_>>();
                            (ProjectKey::new(PROJECTS[project]), changes, key)
                        });
                        let commits: Vec<_> = commits.collect();
                        let mut expected = Vec::new();
                        for (project, changes, key) in &commits {
                            let outcome = oracle.commit(project, commit(changes, *key)).await;
                            expected.push(told(outcome));
                        }
                        let all = commits.iter().map(|(project, changes, key)| {
                            store.commit(project, commit(changes, *key))
                        });
                        let outcomes = join_all(all).await.into_iter().map(told);
                        assert_eq!(outcomes.collect::<Vec<_>>(), expected);
                    }
                }
            }
            assert_eq!(seen(&*store).await, seen(&oracle).await);
        });
    }
}
