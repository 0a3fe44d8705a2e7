//! Any history of operations gives the same answers as the simplest store, restarts included.
//!
//! So many operations as `REQLORE_MODEL_OPERATIONS` says, some hundreds without it. A failure is
//! shrunk to the shortest history that still differs.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};
use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::document::{DocumentId, DocumentKind, DocumentMeta};
use reqlore_domain::error::{Error, ErrorKind};
use reqlore_domain::ports::archive::{Archive, ArchiveRecord};
use reqlore_domain::ports::documents::{
    BacklinkQuery, ChangeSet, CommitRequest, DocumentChange, DocumentFilter, MetadataPage, ReadSet,
    Refresh, Revision, Snapshot, StoreError, StoreResult,
};
use reqlore_domain::project_key::ProjectKey;
use reqlore_storage_memory::MemoryStore;

use crate::archive::read_records;
use crate::{Storage, Store, act};

/// A history is at most so long.
const LONGEST: usize = 40;

#[derive(Debug, Clone)]
enum Operation {
    Commit { project: bool, changes: Vec<(usize, Option<usize>)>, refuse: bool },
    Get { project: bool, ids: Vec<usize> },
    Find { project: bool, kind: DocumentKind, after: Option<usize>, limit: Option<usize> },
    Named { project: bool, kind: DocumentKind, words: Vec<usize> },
    Linking { project: bool, kinds: Vec<DocumentKind>, words: Vec<usize> },
    Create { project: bool, kind: ItemKind },
    Changes { kind: DocumentKind },
    Everything,
    Restart,
}

fn ids() -> Vec<DocumentId> {
    let entities = ["a", "decisions/dec-1d2c8f", "decisions/b", "n\u{f6}te/deep/x"];
    let mut ids = vec![DocumentId::instructions(), DocumentId::docsets()];
    ids.extend(["a", "b", "Z9"].map(DocumentId::section));
    ids.extend(entities.map(DocumentId::entity));
    let item = |(kind, name): (usize, &str)| DocumentId {
        kind: DocumentKind::ITEMS.get(kind).copied().unwrap_or(DocumentKind::Deleted),
        name: name.to_owned(),
    };
    ids.extend(
        [(0, "EP-001"), (1, "US-003-3f9a1c"), (2, "REQ-001"), (2, "REQ-001-3f9a1c")].map(item),
    );
    ids.extend([(2, "notes"), (3, "AC-002"), (4, "REQ-001"), (4, "US-009-aaaaaa")].map(item));
    ids
}

/// The last one is so long that a database may keep it in pieces.
const BODIES: [&str; 9] = [
    ITEM,
    "---\ntitle: T\nuser_story: US-3\ncreated_at: 2026-01-01\nupdated_at: 2026-01-01\n---\n",
    "# Title\r\n\r\n**1.** text\r\n",
    "---\nid: dec-1d2c8f\ntags: [x, y]\nlinks: [iss-aaaa, dec-1d2c8f]\n---\nbody\n",
    "---\nid: a\ntitle: \u{fc}\n---\n",
    "---\nid: [\n---\nbroken",
    "\u{feff}no end",
    "docsets:\n  react:\n",
    LONG,
];

const ITEM: &str = "---\ntitle: I\nepic: EP-1\nuser_story: US-003\ndepends_on: [REQ-1]\n\
                    created_at: 2026-01-01\nupdated_at: 2026-01-02\n---\nSee dec-1d2c8f, EP-001.\n";

const LONG: &str = match std::str::from_utf8(&[b'x'; 20_000]) {
    Ok(long) => long,
    Err(_) => "",
};

const WORDS: [&str; 11] = [
    "dec-1d2c8f",
    "a",
    "decisions/b",
    "iss-aaaa",
    "",
    "n\u{f6}te/deep/x",
    "EP-001",
    "REQ-001",
    "US-003",
    "US-003-3f9a1c",
    "notes",
];

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let id = 0..ids().len();
    let kind = proptest::sample::select(DocumentKind::ALL.to_vec());
    let item_kind = proptest::sample::select(ItemKind::ALL.to_vec());
    let words = proptest::collection::vec(0..WORDS.len(), 0..4);
    let change = (id.clone(), proptest::option::weighted(0.8, 0..BODIES.len()));
    let changes = proptest::collection::vec(change, 0..4);
    let operation = prop_oneof![
        8 => (any::<bool>(), changes, proptest::bool::weighted(0.1)).prop_map(
            |(project, changes, refuse)| Operation::Commit { project, changes, refuse }
        ),
        3 => (any::<bool>(), proptest::collection::vec(id.clone(), 0..5))
            .prop_map(|(project, ids)| Operation::Get { project, ids }),
        3 => (any::<bool>(), kind.clone(), proptest::option::of(id), proptest::option::of(0..4usize))
            .prop_map(|(project, kind, after, limit)| {
                Operation::Find { project, kind, after, limit }
            }),
        3 => (any::<bool>(), kind.clone(), words.clone())
            .prop_map(|(project, kind, words)| Operation::Named { project, kind, words }),
        3 => (any::<bool>(), proptest::collection::vec(kind.clone(), 0..9), words)
            .prop_map(|(project, kinds, words)| Operation::Linking { project, kinds, words }),
        2 => (any::<bool>(), item_kind)
            .prop_map(|(project, kind)| Operation::Create { project, kind }),
        3 => kind.prop_map(|kind| Operation::Changes { kind }),
        1 => Just(Operation::Everything),
        1 => Just(Operation::Restart),
    ];
    proptest::collection::vec(operation, 1..LONGEST)
}

/// Plays histories on fresh stores until enough operations were compared.
pub fn check(open: impl Fn() -> Pin<Box<dyn Future<Output = Storage>>>) {
    let enough = wanted();
    let compared = std::cell::Cell::new(0);
    let cases = u32::try_from(enough / (LONGEST / 2) + 1).unwrap();
    let config =
        Config { cases, failure_persistence: None, max_shrink_iters: 200, ..Config::default() };
    let outcome = TestRunner::new(config).run(&operations(), |history| {
        compared.set(compared.get() + history.len());
        crate::run(play(open(), &history)).map_err(TestCaseError::fail)
    });
    match outcome {
        Ok(()) => println!("{} operations, no difference", compared.get()),
        Err(TestError::Fail(why, history)) => panic!("{why}\nafter {history:#?}"),
        Err(TestError::Abort(why)) => panic!("{why}"),
    }
}

#[expect(clippy::disallowed_methods, reason = "how long is told by whoever runs the tests")]
fn wanted() -> usize {
    let wanted = std::env::var("REQLORE_MODEL_OPERATIONS").ok();
    wanted.and_then(|wanted| wanted.parse().ok()).unwrap_or(300)
}

/// A store under test and what was asked of it.
struct Side {
    store: Arc<dyn Store>,
    projects: [ProjectKey; 2],
    /// Since when the changes of a kind are asked for, and up to when they were told last.
    since: HashMap<DocumentKind, Revision>,
    until: HashMap<DocumentKind, Revision>,
}

async fn play(
    open: Pin<Box<dyn Future<Output = Storage>>>,
    history: &[Operation],
) -> Result<(), String> {
    let storage = open.await;
    let projects = [storage.project.clone(), storage.other.clone()];
    let memory: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let mut expected = Side::new(memory, projects.clone());
    let mut found = Side::new(Arc::clone(&storage.store), projects);
    for (at, operation) in history.iter().enumerate() {
        if let (Operation::Restart, Some(reopen)) = (operation, &storage.reopen) {
            found.store = Arc::new(MemoryStore::default());
            found.store = reopen().await.map_err(|error| format!("reopen: {error}"))?;
            continue;
        }
        let answers = (expected.answer(operation).await, found.answer(operation).await);
        if let (Operation::Changes { kind }, (RESET, _) | (_, RESET)) =
            (operation, (answers.0.as_str(), answers.1.as_str()))
        {
            // It can't be told any more: both begin anew.
            for side in [&mut expected, &mut found] {
                side.since.insert(*kind, side.until[kind]);
            }
        } else if answers.0 != answers.1 {
            let (expected, found) = answers;
            return Err(format!("step {at}, {operation:?}: {found}\nbut memory: {expected}"));
        }
    }
    Ok(())
}

const RESET: &str = "reset";

impl Side {
    fn new(store: Arc<dyn Store>, projects: [ProjectKey; 2]) -> Self {
        Self { store, projects, since: HashMap::new(), until: HashMap::new() }
    }

    fn project(&self, first: bool) -> &ProjectKey {
        &self.projects[usize::from(!first)]
    }

    /// The answer as text, without what may differ: revisions, times and places.
    async fn answer(&mut self, operation: &Operation) -> String {
        let all = ids();
        match operation {
            Operation::Commit { project, changes, refuse } => {
                let commit = commit(changes, *refuse);
                let committed = self.store.commit(self.project(*project), commit).await;
                told(committed.map(|committed| committed.versions))
            }
            Operation::Get { project, ids } => {
                let ids: Vec<DocumentId> = ids.iter().map(|at| all[*at].clone()).collect();
                let project = self.project(*project);
                let documents = self.store.get(project, &ids).await;
                format!("{} {}", told(documents), told(self.store.versions(project, &ids).await))
            }
            Operation::Find { project, kind, after, limit } => {
                let after = after.map(|at| all[at].name.clone());
                let filter =
                    DocumentFilter { kind: *kind, after, limit: limit.map(|limit| limit + 1) };
                let page = self.store.find(self.project(*project), &filter).await;
                told(page.map(|page| MetadataPage {
                    metadata: page.metadata.iter().map(without_times).collect(),
                    ..page
                }))
            }
            Operation::Named { project, kind, words } => {
                let words: Vec<String> = words.iter().map(|at| WORDS[*at].to_owned()).collect();
                let named = self.store.lookup(self.project(*project), *kind, &words).await;
                told::<Vec<Vec<Arc<DocumentMeta>>>>(timeless(named))
            }
            Operation::Linking { project, kinds, words } => {
                let targets = words.iter().map(|at| WORDS[*at].to_owned()).collect();
                let links = BacklinkQuery { kinds: kinds.clone(), targets };
                told(timeless(self.store.backlinks(self.project(*project), &links).await))
            }
            Operation::Create { project, kind } => {
                let commit = create(*kind);
                let committed = self.store.commit(self.project(*project), commit).await;
                told(committed.map(|committed| committed.versions))
            }
            Operation::Changes { kind } => self.changes(*kind).await,
            Operation::Everything => told(everything(&*self.store, &self.projects[0]).await),
            Operation::Restart => String::new(),
        }
    }

    /// What changed in the first project since both began to ask.
    async fn changes(&mut self, kind: DocumentKind) -> String {
        let since = self.since.get(&kind).copied();
        let project = &self.projects[0];
        let changes = self
            .store
            .changes(project, kind, since.unwrap_or_default(), Refresh::Incremental)
            .await;
        let (ChangeSet::Since { revision, .. } | ChangeSet::Reset { revision }) = match &changes {
            Ok(changes) => changes,
            Err(error) => return format!("failed: {error}"),
        };
        self.until.insert(kind, *revision);
        match changes {
            Ok(ChangeSet::Since { mut ids, .. }) if since.is_some() => {
                ids.sort();
                format!("{ids:?}")
            }
            _ => RESET.to_owned(),
        }
    }
}

fn commit(changes: &[(usize, Option<usize>)], refuse: bool) -> CommitRequest {
    let all = ids();
    let mut documents: Vec<DocumentId> = Vec::new();
    let mut decided = Vec::new();
    for (at, body) in changes {
        let id = all[*at].clone();
        // A document changes once in a commit.
        if documents.contains(&id) {
            continue;
        }
        documents.push(id.clone());
        decided.push(match body {
            Some(body) => DocumentChange::put(id, BODIES[*body]),
            None => DocumentChange::Delete { id },
        });
    }
    let decide = move |_: &_| {
        if refuse {
            return Err(Error::new(ErrorKind::Conflict, "refused"));
        }
        Ok(decided.clone())
    };
    CommitRequest {
        reads: ReadSet {
            documents,
            metadata_of: Some(DocumentKind::Section),
            ..ReadSet::default()
        },
        decide: Box::new(decide),
        context: act(),
    }
}

/// Makes an item of the next free number, with that number in its text.
fn create(kind: ItemKind) -> CommitRequest {
    let decide = move |snapshot: &Snapshot| {
        let reference = Reference { kind, number: snapshot.next_numbers[0] };
        let text = format!("---\ntitle: {reference}\ncreated_at: 2026-01-01\n---\n");
        Ok(vec![DocumentChange::put(reference.document("cccccc"), text)])
    };
    let reads = ReadSet { sequences: vec![kind], ..ReadSet::default() };
    CommitRequest { reads, decide: Box::new(decide), context: act() }
}

/// Times may be a file's own.
fn without_times(head: &Arc<DocumentMeta>) -> Arc<DocumentMeta> {
    let mut head = DocumentMeta::clone(head);
    if let Some(item) = &mut head.item {
        let item = Arc::make_mut(item);
        (item.created_at, item.updated_at) = Default::default();
    }
    Arc::new(head)
}

fn timeless(
    named: StoreResult<Vec<Vec<Arc<DocumentMeta>>>>,
) -> StoreResult<Vec<Vec<Arc<DocumentMeta>>>> {
    Ok(named?.iter().map(|heads| heads.iter().map(without_times).collect()).collect())
}

/// The bytes of the first project's documents, as a copy sees them.
async fn everything(store: &dyn Archive, first: &ProjectKey) -> StoreResult<Vec<String>> {
    let mut all = Vec::new();
    for record in read_records(store).await? {
        match record {
            ArchiveRecord::Document(record) if record.project == *first => {
                all.push(format!("{:?}", record.document));
            }
            ArchiveRecord::HighWaterMark(mark) if mark.project == *first => {
                all.push(format!("{:?} {}", mark.kind, mark.number));
            }
            _ => {}
        }
    }
    Ok(all)
}

fn told<T: std::fmt::Debug>(answer: StoreResult<T>) -> String {
    match answer {
        Ok(answer) => format!("{answer:?}"),
        Err(StoreError::Decided(error)) => format!("refused: {error}"),
        Err(error) => format!("failed: {error}"),
    }
}
