//! Model test of groups: commits with keys and audit rows have the same effects one by one in the
//! memory store. The contract's model test covers everything else.

use std::sync::Arc;

use futures_util::future::join_all;
use proptest::collection;
use proptest::prelude::*;
use reqlore_contract::archive::read_records;
use reqlore_contract::{run, test_context};
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::{DocumentId, DocumentKind, Version};
use reqlore_domain::ports::Store;
use reqlore_domain::ports::documents::{
    BacklinkQuery, CommitRequest, CommitResult, DocumentChange, DocumentRepository, ReadSet,
    Snapshot, StoreError, StoreResult,
};
use reqlore_domain::ports::idempotency::{IdempotencyKey, IdempotencyRecord};
use reqlore_domain::ports::write_context::{AuditScope, WriteContext};
use reqlore_domain::project_key::ProjectKey;
use reqlore_storage_memory::memory_store;
use tempfile::tempdir;

use super::open_with;

const NAMES: [&str; 5] = ["a", "a\0", "b/c", "dec-000001", "REQ-003-x"];
const TARGETS: [&str; 4] = ["dec-000001", "REQ-001", "REQ-002", ""];
const KINDS: [DocumentKind; 3] =
    [DocumentKind::Entity, DocumentKind::Item(ItemKind::Requirement), DocumentKind::Deleted];
const PROJECTS: [&str; 2] = ["default", "/other"];

/// The number of a document and of its text; `None` deletes the document.
type DocumentEdit = (usize, Option<u32>);

#[derive(Debug, Clone)]
enum ModelStep {
    /// Commits of one group: the project, the edits and the idempotency key.
    Group(Vec<(usize, Vec<DocumentEdit>, Option<usize>)>),
    Restart,
}

fn step() -> impl Strategy<Value = ModelStep> {
    let edit = (0..NAMES.len() * KINDS.len(), proptest::option::weighted(0.7, 0..4u32));
    let edits = collection::vec(edit, 0..4);
    let key = proptest::option::weighted(0.3, 0..5usize);
    prop_oneof![
        9 => collection::vec((0..PROJECTS.len(), edits, key), 1..6).prop_map(ModelStep::Group),
        1 => Just(ModelStep::Restart),
    ]
}

fn id(number: usize) -> DocumentId {
    let name = NAMES[number % NAMES.len()].to_owned();
    DocumentId { kind: KINDS[number / NAMES.len()], name }
}

fn change((number, text): &DocumentEdit) -> DocumentChange {
    let Some(text) = text else { return DocumentChange::Delete { id: id(*number) } };
    // Some metadata is too large to be stored.
    let tags = if *text == 3 { "t".repeat(5000) } else { String::new() };
    let links = format!("of: [dec-000001, REQ-{text}]\ndepends_on: REQ-{text}");
    let front_matter = format!("id: dec-{text:06}\n{links}\ntags: [{tags}]");
    DocumentChange::put(id(*number), format!("---\n{front_matter}\n---\n{}", "x".repeat(9000)))
}

/// Each body contains a hash of the snapshot on which its commit was decided.
fn commit(edits: &[DocumentEdit], key: Option<usize>) -> CommitRequest {
    let changes: Vec<DocumentChange> = edits.iter().map(change).collect();
    let request = format!("{changes:?}");
    // A commit that reads lists writes the pending batch, so most commits read no lists.
    let reads_lists = edits.len() == 3;
    let targets = if reads_lists { &TARGETS[..] } else { &[] };
    let reads = ReadSet {
        documents: changes.iter().map(|change| change.id().clone()).collect(),
        titles_of: reads_lists.then_some(DocumentKind::Entity),
        backlinks: links(targets),
        sequences: ItemKind::ALL.to_vec(),
    };
    let decide = Box::new(move |snapshot: &Snapshot| {
        let Snapshot { documents, titles, backlinks, next_numbers } = snapshot;
        let stored = documents.iter().flatten().count();
        let snapshot_hash = Version::of_bytes(
            format!("{stored} {titles:?} {backlinks:?} {next_numbers:?}").as_bytes(),
        );
        let decided = changes.iter().map(|change| match change {
            DocumentChange::Put { document } => {
                let body = [&document.body[..], snapshot_hash.to_string().as_bytes()].concat();
                DocumentChange::put(document.id.clone(), body)
            }
            DocumentChange::Delete { .. } => change.clone(),
        });
        Ok(decided.collect())
    });
    let idempotency_key =
        key.map(|key| IdempotencyKey { key: key.to_string(), request_hash: request });
    let audited = Some(AuditScope::begin(Arc::new(test_context().at)));
    CommitRequest {
        read_set: reads,
        decide,
        context: WriteContext { idempotency_key, audited, ..test_context() },
    }
}

fn links(targets: &[&str]) -> BacklinkQuery {
    let targets = targets.iter().map(|target| (*target).to_owned()).collect();
    BacklinkQuery { kinds: DocumentKind::ALL.to_vec(), targets }
}

fn outcome(committed: StoreResult<CommitResult>) -> Result<CommitResult, IdempotencyRecord> {
    committed.map_err(|error| match error {
        StoreError::Repeated(record) => *record,
        other => panic!("{other:?}"),
    })
}

async fn contents(store: &impl Store) -> Vec<String> {
    let mut contents = vec![format!("{:?}", read_records(store).await.unwrap())];
    for project in PROJECTS.map(ProjectKey::new) {
        let links = store.backlinks(&project, &links(&TARGETS)).await.unwrap();
        contents.push(format!("{links:?}"));
    }
    for key in 0..5 {
        contents.push(format!("{:?}", store.find_record(&key.to_string()).await.unwrap()));
    }
    contents
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..<_>::default() })]
    #[test]
    fn groups_match_the_memory_store(steps in collection::vec(step(), 1..12)) {
        let folder = tempdir().unwrap();
        let open = || open_with(&folder, Box::new(|_| Ok(())));
        let projects = PROJECTS.map(ProjectKey::new);
        let (memory, mut store) = (memory_store(), open());
        run(async {
            for step in steps {
                let ModelStep::Group(commits) = step else {
                    store.close().unwrap();
                    store = open();
                    continue;
                };
                let (mut expected, mut group) = (Vec::new(), Vec::new());
                for (project, edits, key) in &commits {
                    let project = &projects[*project];
                    expected.push(outcome(memory.commit(project, commit(edits, *key)).await));
                    group.push(store.commit(project, commit(edits, *key)));
                }
                let outcomes = join_all(group).await.into_iter().map(outcome);
                assert_eq!(outcomes.collect::<Vec<_>>(), expected);
            }
            assert_eq!(contents(&store).await, contents(&memory).await);
        });
    }
}
