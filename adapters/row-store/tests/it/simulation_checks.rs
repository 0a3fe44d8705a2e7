//! Checks after a simulation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use reqlore_contract::audit::verified_rows;
use reqlore_contract::model_store::ModelStore;
use reqlore_contract::test_context;
use reqlore_domain::backlog::{ItemKind, Priority, Reference, Status};
use reqlore_domain::document::{DocumentId, DocumentKind, Version};
use reqlore_domain::ports::Store;
use reqlore_domain::ports::documents::{
    CommitRequest, DocumentChange, DocumentRepository, ReadSet, read_all,
};
use reqlore_domain::ports::history::HistoryQuery;
use reqlore_domain::ports::record_list::{
    RecordCounts, RecordFilter, RecordQuery, RecordSelection,
};
use reqlore_domain::project_key::ProjectKey;

use crate::change_reader::{ChangeReader, Versions, read_versions};
use crate::simulation::{Change, Journal, Knowledge, World, time_of};
use reqlore_row_store::row::Value;
use reqlore_row_store::tables::{DOCUMENTS, HISTORY, PROJECTS};

/// The versions of a document and the tags of their writes, oldest first.
type Past = Vec<(Option<Version>, String)>;
/// By project and document.
type Pasts = BTreeMap<(usize, DocumentId), Past>;

pub(crate) async fn check(world: &World, readers: Vec<(Arc<dyn Store>, ChangeReader)>) {
    let journal = world.journal.take();
    let stores = world.stores();
    let first = &*stores[0];
    let pasts = read_pasts(first, world, &journal).await;
    let applied = check_writes(&journal, &pasts);
    check_reads(&journal, &pasts);
    check_references(&pasts);
    check_rows(world, &journal, &applied);
    check_users(first, &journal).await;
    check_audit(first, &journal, &applied).await;
    check_keys(first, &journal, &applied).await;
    let mut expected = Vec::new();
    for project in &world.projects {
        let versions = read_versions(first, project).await.unwrap();
        check_lists(first, project, &versions).await;
        expected.push(versions);
    }
    for store in &stores {
        for (number, project) in world.projects.iter().enumerate() {
            assert_eq!(read_versions(&**store, project).await.unwrap(), expected[number]);
        }
    }
    assert_eq!(first.find_damage().await.unwrap(), Vec::<String>::new());
    for (_, mut reader) in readers {
        for store in &stores {
            while reader.follow(&**store, 2).await.unwrap() {}
            assert_eq!(reader.versions, expected[0], "a reader that follows changes");
        }
    }
}

async fn read_pasts(store: &dyn Store, world: &World, journal: &Journal) -> Pasts {
    let mut documents = BTreeSet::new();
    for write in journal.writes.values() {
        for (id, _, _) in write.decisions.iter().flatten() {
            documents.insert((write.project, id.clone()));
        }
    }
    let mut pasts = Pasts::new();
    for (project, id) in documents {
        let all = HistoryQuery { after: None, limit: 1000 };
        let page = store.history(&world.projects[project], &id, &all).await.unwrap();
        let mut past = Past::new();
        for entry in page.entries.into_iter().rev() {
            past.push((entry.version, entry.origin.reason.unwrap()));
        }
        pasts.insert((project, id), past);
    }
    pasts
}

/// Every write took effect once and as a whole, or not at all, on the versions that it saw.
/// Returns the tags of those that did.
fn check_writes(journal: &Journal, pasts: &Pasts) -> BTreeSet<String> {
    let mut effects: BTreeMap<&str, Vec<Change>> = BTreeMap::new();
    for ((project, id), past) in pasts {
        let mut before = None;
        let mut revision = None;
        for (version, tag) in past {
            let write = &journal.writes[tag];
            assert_eq!(write.project, *project, "{tag}");
            assert!(write.revision.is_none() || write.revision > revision, "{tag}");
            revision = write.revision.or(revision);
            effects.entry(tag).or_default().push((id.clone(), before, *version));
            before = *version;
        }
    }
    let mut applied = BTreeSet::new();
    let mut revisions = BTreeSet::new();
    for (tag, write) in &journal.writes {
        if let Some(revision) = write.revision {
            assert!(revisions.insert((write.project, revision)), "{tag}: {revision:?} twice");
        }
        let Some(effect) = effects.get(tag.as_str()) else {
            assert_ne!(write.knowledge, Knowledge::Applied, "{tag} is lost: {write:?}");
            continue;
        };
        assert_ne!(write.knowledge, Knowledge::Refused, "{tag} was refused: {effect:?}");
        let is_decided = write.decisions.iter().any(|decision| {
            let mut decision = decision.clone();
            decision.sort();
            decision == *effect
        });
        assert!(is_decided, "{tag}: no decision has {effect:?}: {write:?}");
        applied.insert(tag.clone());
    }
    applied
}

/// Each read returned a version that was current at some time between its start and its end, and no
/// older one than reads before it.
fn check_reads(journal: &Journal, pasts: &Pasts) {
    // The time of the end, and the least number of entries that later reads see.
    let mut seen: BTreeMap<(usize, &DocumentId), Vec<(usize, usize)>> = BTreeMap::new();
    for ((project, id), past) in pasts {
        let ends = seen.entry((*project, id)).or_default();
        for (number, (_, tag)) in past.iter().enumerate() {
            let write = &journal.writes[tag];
            if write.knowledge == Knowledge::Applied {
                ends.push((write.ended, number + 1));
            }
        }
    }
    let none = Past::new();
    let mut reads: Vec<_> = journal.reads.iter().collect();
    reads.sort_by_key(|read| read.started);
    for read in reads {
        let past = pasts.get(&(read.project, read.id.clone())).unwrap_or(&none);
        let ends = seen.entry((read.project, &read.id)).or_default();
        let before = ends.iter().filter(|(ended, _)| *ended < read.started);
        let least = before.map(|(_, number)| *number).max().unwrap_or(0);
        let mut numbers = least..=past.len();
        let found = numbers.find(|number| {
            let entry = number.checked_sub(1).map(|entry| &past[entry]);
            entry.and_then(|(version, _)| *version) == read.version
        });
        let number = found.unwrap_or_else(|| panic!("{read:?} is older than {least} of {past:?}"));
        if let Some(entry) = number.checked_sub(1) {
            assert!(journal.writes[&past[entry].1].started < read.ended, "{read:?}: early");
        }
        ends.push((read.ended, number));
    }
}

fn check_references(pasts: &Pasts) {
    let mut owners = BTreeMap::new();
    for ((project, id), past) in pasts {
        if let Some(reference) = Reference::from_document(id).filter(|_| !past.is_empty()) {
            let other = owners.insert((project, reference), id);
            assert!(other.is_none(), "{reference} is {id} and {other:?}");
        }
    }
}

/// Revisions have no gaps, and the entries of each history have the numbers from 1 on.
fn check_rows(world: &World, journal: &Journal, applied: &BTreeSet<String>) {
    let mut revisions = Vec::new();
    let column = PROJECTS.index_of("revision").unwrap();
    let projects = world.database.rows(&PROJECTS);
    for row in projects.values() {
        revisions.push(row.value(column));
    }
    let mut counts = [0, 0];
    for tag in applied {
        counts[journal.writes[tag].project] += 1;
    }
    let mut counts: Vec<Value<'_>> =
        counts.iter().filter(|n| **n > 0).copied().map(Value::Integer).collect();
    counts.sort();
    revisions.sort();
    assert_eq!(revisions, counts, "one revision for each write");
    let past = world.database.rows(&HISTORY);
    for (key, row) in &*world.database.rows(&DOCUMENTS) {
        let ended = past.range(key.clone()..).take_while(|(entry, _)| entry.starts_with(key));
        let mut numbers: Vec<Value<'_>> = ended.map(|(entry, _)| entry.value(3)).collect();
        if row.value(DOCUMENTS.index_of("version").unwrap()) != Value::Null {
            numbers.push(row.value(DOCUMENTS.index_of("number").unwrap()));
        }
        let all: Vec<Value<'_>> =
            (1..=numbers.len()).map(|n| Value::Integer(i64::try_from(n).unwrap())).collect();
        assert_eq!(numbers, all, "{key:?}");
    }
}

async fn check_users(store: &dyn Store, journal: &Journal) {
    let users = store.list_users().await.unwrap();
    for (tag, (name, knowledge)) in &journal.users {
        let found = users.iter().find(|user| user.name == *name);
        let is_creator = found.is_some_and(|user| user.created_at == time_of(tag));
        match knowledge {
            Knowledge::Applied => assert!(is_creator, "{tag}: {found:?}"),
            Knowledge::Refused => assert!(!is_creator, "{tag}: {found:?}"),
            Knowledge::Unknown => {}
        }
    }
}

/// The audit log has one row for each audited write, and each appended event once.
async fn check_audit(store: &dyn Store, journal: &Journal, applied: &BTreeSet<String>) {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for row in verified_rows(store).await {
        *counts.entry(row.parse_event().unwrap().correlation_id).or_default() += 1;
    }
    let users = store.list_users().await.unwrap();
    for (tag, write) in &journal.writes {
        let expected = usize::from(write.is_audited && applied.contains(tag));
        assert_eq!(counts.remove(tag).unwrap_or_default(), expected, "audit rows of {tag}");
    }
    for tag in journal.users.keys() {
        let expected = usize::from(users.iter().any(|user| user.created_at == time_of(tag)));
        assert_eq!(counts.remove(tag).unwrap_or_default(), expected, "audit rows of {tag}");
    }
    for (tag, knowledge) in &journal.events {
        let count = counts.remove(tag).unwrap_or_default();
        let is_right = match knowledge {
            Knowledge::Applied => count == 1,
            Knowledge::Refused => count == 0,
            Knowledge::Unknown => count <= 1,
        };
        assert!(is_right, "{tag}: {knowledge:?}, {count} rows");
    }
    assert!(counts.is_empty(), "{counts:?}");
}

async fn check_keys(store: &dyn Store, journal: &Journal, applied: &BTreeSet<String>) {
    for (tag, write) in &journal.writes {
        let Some(key) = &write.key else { continue };
        let record = store.find_record(key).await.unwrap();
        assert_eq!(record.is_some(), applied.contains(tag), "the record of {tag}");
        let answer = record.and_then(|record| record.answer);
        if write.response.is_some() {
            assert_eq!(answer.as_deref(), write.response.as_deref(), "the response of {tag}");
        }
    }
}

/// Lists and counts are those of the model, if it has got all documents at once.
async fn check_lists(store: &dyn Store, project: &ProjectKey, versions: &Versions) {
    let ids: Vec<DocumentId> = versions.keys().cloned().collect();
    let documents = store.get(project, &ids).await.unwrap();
    let mut changes = Vec::new();
    for document in documents.into_iter().flatten() {
        changes.push(DocumentChange::Put { document });
    }
    let model = ModelStore::default();
    let commit = CommitRequest {
        read_set: ReadSet::of_documents(ids),
        decide: Box::new(move |_| Ok(changes.clone())),
        context: test_context(),
    };
    model.commit(project, commit).await.unwrap();
    let kind = ItemKind::Requirement;
    let mut queries: Vec<_> =
        filters().map(|filter| RecordQuery { filter, ..RecordQuery::of_items(kind, 1000) }).into();
    let parents = [1, 2, 3, 4].map(|number| Reference { kind: ItemKind::UserStory, number });
    let mut children = RecordQuery::of_items(kind, 0).count_by(RecordCounts::ChildStatus);
    children.filter.parents = Some(parents.into());
    queries.extend([children, RecordQuery::of_entities(None, 0).count_by(RecordCounts::Kind)]);
    for entity_kind in [None, Some("decision".to_owned())] {
        let query = RecordQuery::of_entities(entity_kind, 9);
        queries.push(query.clone().count_by(RecordCounts::Tag));
        queries.push(RecordQuery { selection: RecordSelection::Untagged, ..query });
    }
    for query in queries {
        let found = store.list(project, &query).await.unwrap();
        let expected = model.list(project, &query).await.unwrap();
        assert_eq!(found, expected, "{query:?}");
    }
    for kind in DocumentKind::ALL {
        let expected = read_all(&model, project, kind).await.unwrap().0.len();
        assert_eq!(read_all(store, project, kind).await.unwrap().0.len(), expected);
    }
}

fn filters() -> [RecordFilter; 4] {
    let none = RecordFilter::default();
    let story = Reference { kind: ItemKind::UserStory, number: 2 };
    [
        none.clone(),
        RecordFilter { status: Some(Status::Active), ..none.clone() },
        RecordFilter { priority: Priority::new(1), ..none.clone() },
        RecordFilter { parents: Some([story].into()), ..none },
    ]
}
