//! Earlier versions of documents, as databases keep them, and files until Git takes over.
//!
//! The history of files in Git is tested with real repositories.

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use reqlore_domain::document::{Document, DocumentId, DocumentKind, Version};
use reqlore_domain::error::{Error, ErrorKind};
use reqlore_domain::ports::archive::ArchiveRecord;
use reqlore_domain::ports::change_page::ChangePage;
use reqlore_domain::ports::documents::{
    CommitRequest, DocumentChange, ReadSet, Refresh, StoreError,
};
use reqlore_domain::ports::history::{
    HistoryEntry, HistoryNote, HistoryPage, HistoryQuery, RecentChange,
};
use reqlore_domain::ports::write_context::ChangeOrigin;
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use reqlore_storage_memory::memory_store;

use crate::archive::read_records;
use crate::audit::{audited_context, keyed, verified_rows};
use crate::{OpenStorage, Storage, Store, test_context};

fn id() -> DocumentId {
    DocumentId::section("a")
}

/// A context whose time is this number of seconds.
fn at(seconds: i64) -> WriteContext {
    WriteContext { at: Timestamp::new(seconds, 0), ..test_context() }
}

async fn change(s: &Storage, change: DocumentChange, context: WriteContext) {
    let read_set = ReadSet::of_documents(vec![change.id().clone()]);
    let decide = Box::new(move |_: &_| Ok(vec![change.clone()]));
    s.store.commit(&s.project, CommitRequest { read_set, decide, context }).await.unwrap();
}

async fn put(s: &Storage, body: &'static str, seconds: i64) {
    change(s, DocumentChange::put(id(), body), at(seconds)).await;
}

async fn page(store: &dyn Store, project: &ProjectKey, query: &HistoryQuery) -> HistoryPage {
    let page = store.history(project, &id(), query).await.unwrap();
    // The files of the suite are in no repository.
    assert!(page.notes.iter().all(|note| *note == HistoryNote::NoGit), "{page:?}");
    page
}

async fn entries_of(store: &dyn Store, project: &ProjectKey) -> Vec<HistoryEntry> {
    let page = page(store, project, &HistoryQuery { after: None, limit: 1_000 }).await;
    assert_eq!(page.next, None);
    page.entries
}

async fn entries(s: &Storage) -> Vec<HistoryEntry> {
    entries_of(&*s.store, &s.project).await
}

/// The texts of a history, newest first: `None` for a deletion, "-" for a purged text.
async fn texts_of(store: &dyn Store, project: &ProjectKey, id: &DocumentId) -> Vec<Option<String>> {
    let query = HistoryQuery { after: None, limit: 1_000 };
    let mut texts = Vec::new();
    for entry in store.history(project, id, &query).await.unwrap().entries {
        let Some(version) = entry.version else {
            texts.push(None);
            continue;
        };
        let document = store.document_at(project, id, version).await.unwrap();
        let Some(document) = document.filter(|_| !entry.is_purged) else {
            assert!(entry.is_purged, "{version} has no text");
            texts.push(Some("-".to_owned()));
            continue;
        };
        assert_eq!((&document.id, document.version), (id, version));
        texts.push(Some(String::from_utf8(document.body.to_vec()).unwrap()));
    }
    texts
}

async fn texts(s: &Storage) -> Vec<Option<String>> {
    texts_of(&*s.store, &s.project, &id()).await
}

fn some(texts: &[&str]) -> Vec<Option<String>> {
    texts.iter().map(|text| Some((*text).to_owned())).collect()
}

pub async fn history_lists_versions_newest_first(s: &Storage) {
    assert_eq!(entries(s).await, []);
    put(s, "one", 1).await;
    let mut silent = at(2);
    silent.reason = String::new();
    change(s, DocumentChange::put(id(), "two"), silent).await;
    let origin = |reason: Option<&str>| ChangeOrigin {
        user: Some("tester".to_owned()),
        tool: Some("contract".to_owned()),
        reason: reason.map(str::to_owned),
    };
    let entry = |text: &str, seconds, origin| HistoryEntry {
        version: Some(Version::of_bytes(text.as_bytes())),
        at: Timestamp::new(seconds, 0),
        origin,
        is_purged: false,
    };
    let expected = [entry("two", 2, origin(None)), entry("one", 1, origin(Some("contract test")))];
    assert_eq!(entries(s).await, expected);
    let Some(reopened) = s.reopen_store().await else { return };
    assert_eq!(entries_of(&*reopened, &s.project).await, expected);
}

pub async fn earlier_text_is_read_by_version(s: &Storage) {
    // Longer than a piece of a value, and not UTF-8.
    let long = Bytes::from(["x".repeat(20_000).as_bytes(), b"\xff"].concat());
    let changes = [Bytes::from_static(b"one"), long.clone(), Bytes::new(), "four".into()];
    for body in changes.clone() {
        change(s, DocumentChange::put(id(), body), test_context()).await;
    }
    for body in changes {
        let expected = Document::new(id(), body);
        let found = s.store.document_at(&s.project, &id(), expected.version).await.unwrap();
        assert_eq!(found, Some(expected));
    }
    let never = Version::of_bytes(b"never");
    assert_eq!(s.store.document_at(&s.project, &id(), never).await.unwrap(), None);
    let other = DocumentId::section("b");
    let one = Version::of_bytes(b"one");
    assert_eq!(s.store.document_at(&s.project, &other, one).await.unwrap(), None);
}

pub async fn put_of_the_same_text_adds_no_entry(s: &Storage) {
    put(s, "one", 1).await;
    let before = entries(s).await;
    let other = WriteContext { tool: "other", ..at(2) };
    change(s, DocumentChange::put(id(), "one"), other).await;
    assert_eq!(entries(s).await, before);
    for text in ["two", "one", "two", "one"] {
        put(s, text, 3).await;
    }
    assert_eq!(texts(s).await, some(&["one", "two", "one", "two", "one"]));
}

pub async fn last_change_of_a_document_wins(s: &Storage) {
    put(s, "one", 1).await;
    let changes = vec![DocumentChange::put(id(), "two"), DocumentChange::put(id(), "three")];
    s.commit_from(&[id()], move |_| Ok(changes.clone())).await.unwrap();
    assert_eq!(texts(s).await, some(&["three", "one"]));
}

pub async fn deleted_document_keeps_its_history(s: &Storage) {
    put(s, "one", 1).await;
    change(s, DocumentChange::Delete { id: id() }, at(2)).await;
    // There is nothing to delete.
    change(s, DocumentChange::Delete { id: id() }, at(3)).await;
    let history = entries(s).await;
    assert_eq!((history.len(), history[0].version), (2, None));
    assert_eq!(history[0].at, Timestamp::new(2, 0));
    assert_eq!(history[0].origin.tool.as_deref(), Some("contract"));
    assert_eq!(texts(s).await, [None, Some("one".to_owned())]);
    put(s, "again", 4).await;
    let all = [Some("again".to_owned()), None, Some("one".to_owned())];
    assert_eq!(texts(s).await, all);
}

pub async fn history_pages_survive_new_changes(s: &Storage) {
    for text in ["1", "2", "3", "4", "5"] {
        put(s, text, 1).await;
    }
    let mut query = HistoryQuery { after: None, limit: 2 };
    let mut versions = Vec::new();
    for text in ["6", "7", "8"] {
        let next = page(&*s.store, &s.project, &query).await;
        versions.extend(next.entries.iter().map(|entry| entry.version.unwrap()));
        query.after = next.next;
        put(s, text, 2).await;
    }
    let expected = ["5", "4", "3", "2", "1"].map(|text| Version::of_bytes(text.as_bytes()));
    assert_eq!((versions, query.after), (expected.to_vec(), None));
    let wrong = HistoryQuery { after: Some("x".to_owned()), limit: 2 };
    let refused = s.store.history(&s.project, &id(), &wrong).await.unwrap_err();
    let StoreError::Decided(Error { kind, field, .. }) = &refused else { panic!("{refused:?}") };
    assert_eq!((*kind, field.as_deref()), (ErrorKind::InvalidArgument, Some("cursor")));
}

pub async fn history_is_isolated_by_project(s: &Storage) {
    put(s, "one", 1).await;
    put(s, "two", 2).await;
    assert_eq!(entries_of(&*s.store, &s.other).await, []);
    let one = Version::of_bytes(b"one");
    assert_eq!(s.store.document_at(&s.other, &id(), one).await.unwrap(), None);
    let purged = s.store.purge_history(&s.other, &id(), None, test_context()).await;
    assert_eq!(purged.unwrap(), 0);
    assert_eq!(texts(s).await, some(&["two", "one"]));
}

pub async fn recent_changes_are_listed_newest_first(s: &Storage) {
    let none = s.store.recent_changes(&s.project, Timestamp::default(), 10).await;
    assert_eq!(none.unwrap(), []);
    let (gone, kept) = (DocumentId::entity("gone"), DocumentId::section("kept"));
    change(s, DocumentChange::put(kept.clone(), "old"), at(1)).await;
    put(s, "one", 2).await;
    put(s, "two", 3).await;
    let batch = vec![
        DocumentChange::put(id(), "three"),
        DocumentChange::put(gone.clone(), "x"),
        DocumentChange::put(gone.tombstone(), "x"),
    ];
    let read_set = ReadSet::of_documents(batch.iter().map(|one| one.id().clone()).collect());
    let decide = Box::new(move |_: &_| Ok(batch.clone()));
    let context = WriteContext { tool: "batch", ..at(4) };
    s.store.commit(&s.project, CommitRequest { read_set, decide, context }).await.unwrap();
    change(s, DocumentChange::Delete { id: gone.clone() }, at(5)).await;
    let of_other = CommitRequest {
        read_set: ReadSet::of_documents(vec![id()]),
        decide: Box::new(|_| Ok(vec![DocumentChange::put(id(), "other")])),
        context: at(6),
    };
    s.store.commit(&s.other, of_other).await.unwrap();

    let store = s.reopen_store().await.unwrap_or_else(|| s.store.clone());
    let recent = async |since, limit| {
        let since = Timestamp::new(since, 0);
        let changes = store.recent_changes(&s.project, since, limit).await.unwrap();
        for RecentChange { id, entry } in &changes {
            let query = HistoryQuery { after: None, limit: 10 };
            let page = store.history(&s.project, id, &query).await.unwrap();
            assert!(page.entries.contains(entry), "{id}: {entry:?}");
        }
        changes
    };
    let all = recent(0, 100).await;
    let shown: Vec<_> = all.iter().map(|one| (&one.id, one.entry.at.seconds())).collect();
    let tombstone = gone.tombstone();
    let expected = [(&gone, 5), (&id(), 4), (&gone, 4), (&tombstone, 4), (&id(), 3), (&id(), 2)];
    assert_eq!(shown, [&expected[..], &[(&kept, 1)]].concat());
    assert_eq!(all[0].entry.version, None);
    assert_eq!(all[1].entry.origin.tool.as_deref(), Some("batch"));
    assert!(all[1].entry.is_of_commit(&all[3].entry) && !all[1].entry.is_of_commit(&all[4].entry));
    assert_eq!(recent(4, 100).await, all[..4]);
    assert_eq!(recent(0, 1).await, all[..1]);
}

pub async fn changed_documents_are_listed_once(s: &Storage) {
    let [gone, new, old, short] = ["gone", "new", "old", "short"].map(DocumentId::entity);
    for id in [&old, &gone] {
        change(s, DocumentChange::put(id.clone(), "one"), at(1)).await;
    }
    let start = s.store.changes_since(&s.project, None, 1, Refresh::Incremental).await.unwrap();
    // Two changes of one second, one of them before the time.
    let late = || WriteContext { at: Timestamp::new(3, 5), ..at(3) };
    for (id, text, context) in [
        (&old, Some("two"), at(3)),
        (&new, Some("one"), late()),
        (&new, Some("two"), late()),
        (&short, Some("one"), late()),
        (&gone, None, late()),
        (&short, None, late()),
    ] {
        let changed = match text {
            Some(text) => DocumentChange::put(id.clone(), text),
            None => DocumentChange::Delete { id: id.clone() },
        };
        change(s, changed, context).await;
    }
    let store = s.reopen_store().await.unwrap_or_else(|| s.store.clone());
    let list = async |since, ids| {
        let mut listed = store.changed_documents(&s.project, since, ids).await.unwrap();
        listed.retain(|one| one.id.kind == DocumentKind::Entity);
        listed.sort_by(|a, b| a.id.cmp(&b.id));
        listed
    };
    let all = list(at(3).at, None).await;
    let shown: Vec<(&DocumentId, Option<Version>)> =
        all.iter().map(|one| (&one.id, one.entry.version)).collect();
    let two = Some(Version::of_bytes(b"two"));
    assert_eq!(shown, [(&gone, None), (&new, two), (&old, two), (&short, None)]);
    assert!(all[1].is_new && !all[2].is_new);
    assert!(all.iter().all(|one| one.entry.origin.tool.is_some()), "{all:?}");
    let later: Vec<DocumentId> =
        list(late().at, None).await.into_iter().map(|one| one.id).collect();
    assert_eq!(later, [gone.clone(), new.clone(), short]);
    assert_eq!(list(late().at, Some(vec![new.clone()])).await, all[1..2]);
    assert_eq!(store.changed_documents(&s.other, at(0).at, None).await.unwrap(), []);
    let since = Some(start.position());
    let page = store.changes_since(&s.project, since, 100, Refresh::Incremental).await.unwrap();
    if let ChangePage::Since { ids, .. } = page {
        assert!([&gone, &new, &old].iter().all(|id| ids.contains(id)), "{ids:?}");
    }
}

pub async fn purge_erases_the_text_and_keeps_the_entry(s: &Storage) {
    for text in ["one", "secret", "two", "secret", "three"] {
        change(s, DocumentChange::put(id(), text), audited_context()).await;
    }
    let secret = Some(Version::of_bytes(b"secret"));
    let context = WriteContext { reason: "pasted".to_owned(), ..audited_context() };
    let purge = s.store.purge_history(&s.project, &id(), secret, context).await;
    assert_eq!(purge.unwrap(), 2);
    assert_eq!(texts(s).await, some(&["three", "-", "two", "-", "one"]));
    let rows = verified_rows(&*s.store).await;
    let event = rows.last().unwrap().parse_event().unwrap();
    assert_eq!((rows.len(), event.reason.as_str()), (6, "pasted"), "all rows stay");
    assert_eq!((event.targets[0].before, event.targets[0].after), (secret, secret));
    let records = read_records(&*s.store).await.unwrap();
    let is_history = |record: &&ArchiveRecord| matches!(record, ArchiveRecord::History(_));
    let history: Vec<_> = records.iter().filter(is_history).collect();
    // An export of files has no history.
    assert!([0, 4].contains(&history.len()));
    assert!(!format!("{history:?}").contains("secret"));

    let all = s.store.purge_history(&s.project, &id(), None, test_context()).await;
    assert_eq!(all.unwrap(), 4);
    assert_eq!(texts(s).await, some(&["three", "-", "-", "-", "-"]));
    // The same text may come back.
    for text in ["one", "four"] {
        put(s, text, 9).await;
    }
    assert_eq!(texts(s).await[..3], some(&["four", "one", "three"]));
    let unknown = Some(Version::of_bytes(b"never"));
    let none = s.store.purge_history(&s.project, &id(), unknown, audited_context()).await;
    assert_eq!(none.unwrap(), 0);
    assert_eq!(verified_rows(&*s.store).await.len(), 6, "nothing changed, no row");
}

/// A response quotes the written text.
pub async fn purge_erases_stored_responses(s: &Storage) {
    let keys = ['a', 'b'].map(|letter| letter.to_string().repeat(32));
    for (letter, text) in [('a', "secret"), ('b', "two")] {
        change(s, DocumentChange::put(id(), text), keyed(letter, text, 0)).await;
    }
    for key in &keys {
        s.store.save_answer(key, "secret".repeat(10_000)).await.unwrap();
    }
    let none = s.store.purge_history(&s.other, &id(), None, test_context()).await;
    assert_eq!(none.unwrap(), 0);
    assert!(s.store.find_record(&keys[0]).await.unwrap().unwrap().answer.is_some());
    let purge = s.store.purge_history(&s.project, &id(), None, test_context()).await;
    assert_eq!(purge.unwrap(), 1);
    for key in &keys {
        let record = s.store.find_record(key).await.unwrap().unwrap();
        assert_eq!((record.answer, record.targets.len()), (None, 1), "the key stays used");
    }
}

pub async fn present_text_is_never_purged(s: &Storage) {
    for text in ["secret", "one", "secret"] {
        put(s, text, 1).await;
    }
    let secret = Some(Version::of_bytes(b"secret"));
    let refused = s.store.purge_history(&s.project, &id(), secret, test_context()).await;
    let Err(StoreError::Decided(error)) = refused else { panic!("{refused:?}") };
    assert_eq!(error.kind, ErrorKind::Refused);
    assert!(error.message.contains("change the text first"), "{}", error.message);
    let others = s.store.purge_history(&s.project, &id(), None, test_context()).await;
    assert_eq!(others.unwrap(), 1);
    assert_eq!(texts(s).await, some(&["secret", "-", "secret"]));
}

pub async fn pruning_removes_ended_entries(s: &Storage) {
    let gone = DocumentId::section("gone");
    change(s, DocumentChange::put(gone.clone(), "x"), at(1)).await;
    change(s, DocumentChange::Delete { id: gone.clone() }, at(10)).await;
    for (text, seconds) in [("one", 1), ("two", 10), ("one", 20), ("three", 30)] {
        put(s, text, seconds).await;
    }
    let prune = async |seconds| {
        let mut total = 0;
        loop {
            let count = s.store.prune_history(Timestamp::new(seconds, 0)).await.unwrap();
            if count == 0 {
                return total;
            }
            total += count;
        }
    };
    assert_eq!(prune(10).await, 0, "an entry that ended at this time stays");
    assert_eq!(prune(20).await, 3);
    assert_eq!(texts_of(&*s.store, &s.project, &gone).await, []);
    // "one" ended at 10, and the same text again at 30.
    assert_eq!(texts(s).await, some(&["three", "one", "two"]));
    assert_eq!(prune(100).await, 2);
    assert_eq!(texts(s).await, some(&["three"]), "the present version stays");
    let one = Version::of_bytes(b"one");
    assert_eq!(s.store.document_at(&s.project, &id(), one).await.unwrap(), None);
    put(s, "four", 200).await;
    assert_eq!(texts(s).await, some(&["four", "three"]));
}

pub async fn history_survives_a_round_trip(s: &Storage) {
    let source = Storage::in_memory(memory_store());
    for text in ["one", "secret", "two", "one", "three"] {
        put(&source, text, 1).await;
    }
    let secret = Some(Version::of_bytes(b"secret"));
    let purge = source.store.purge_history(&source.project, &id(), secret, test_context()).await;
    assert_eq!(purge.unwrap(), 1);
    for name in ["gone", "a", "a/b"] {
        change(&source, DocumentChange::put(DocumentId::entity(name), "x"), at(2)).await;
        change(&source, DocumentChange::Delete { id: DocumentId::entity(name) }, at(3)).await;
    }
    let records = read_records(&*source.store).await.unwrap();
    let mut writer = s.store.import().await.unwrap();
    writer.write_batch(records.clone()).await.unwrap();
    writer.finish().await.unwrap();
    assert_eq!(read_records(&*s.store).await.unwrap(), records);
    assert_eq!(texts(s).await, some(&["three", "one", "two", "-", "one"]));
    put(s, "four", 4).await;
    assert_eq!(texts(s).await[..2], some(&["four", "three"]));
    let texts = texts_of(&*s.store, &s.project, &DocumentId::entity("gone")).await;
    assert_eq!(texts, [None, Some("x".to_owned())]);
}

/// A store with history only is not empty.
pub async fn import_rejects_a_store_with_history(s: &Storage) {
    put(s, "one", 1).await;
    change(s, DocumentChange::Delete { id: id() }, at(2)).await;
    s.assert_rejects_import().await;
}

/// Replays random histories: following the entries from the oldest to the newest gives every state
/// that the documents had, and ends with the documents.
pub fn check_replay(open: impl Fn() -> OpenStorage) {
    let change = (0..3_usize, proptest::option::weighted(0.8, "[ab]{0,2}"));
    let config = Config { cases: 12, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&vec(change, 1..20), |changes| {
        crate::run(replay(open(), changes)).map_err(TestCaseError::fail)
    });
    outcome.unwrap();
}

async fn replay(open: OpenStorage, changes: Vec<(usize, Option<String>)>) -> Result<(), String> {
    let s = open.await;
    let ids = ["a", "a b", "b"].map(DocumentId::entity);
    // The states of each document, the newest first.
    let mut expected: BTreeMap<DocumentId, Vec<Option<String>>> = BTreeMap::new();
    for (document, text) in changes {
        let id = ids[document].clone();
        let states = expected.entry(id.clone()).or_default();
        let before = states.first().cloned().flatten();
        if before != text {
            states.insert(0, text.clone());
        }
        let next = match text {
            Some(text) => DocumentChange::put(id, text),
            None => DocumentChange::Delete { id },
        };
        change(&s, next, test_context()).await;
    }
    let store = s.reopen_store().await.unwrap_or_else(|| s.store.clone());
    for (id, states) in expected {
        let found = texts_of(&*store, &s.project, &id).await;
        if found != states {
            return Err(format!("{id}: {found:?}, expected {states:?}"));
        }
        let document = store.get(&s.project, &[id]).await.unwrap().pop().flatten();
        let text = document.map(|document| document.text().unwrap().to_owned());
        if found.first().cloned().flatten() != text {
            return Err(format!("the newest entry is {found:?}, the document {text:?}"));
        }
    }
    Ok(())
}
