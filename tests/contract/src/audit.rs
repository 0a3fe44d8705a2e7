//! Audit log and idempotency keys.

use std::sync::Arc;

use reqlore_domain::audit_log::{
    AuditEvent, AuditRow, AuditTarget, ChainHead, ChainVerifier, RESULT_OK,
};
use reqlore_domain::document::{DocumentId, Version};
use reqlore_domain::error::{Error, ErrorKind};
use reqlore_domain::idempotency::IdempotencyKey;
use reqlore_domain::identity::CallChannel;
use reqlore_domain::ports::Store;
use reqlore_domain::ports::archive::ArchiveRecord;
use reqlore_domain::ports::documents::{
    CommitRequest, DocumentChange, ReadSet, StoreError, StoreResult,
};
use reqlore_domain::ports::identity::IdentityChange;
use reqlore_domain::ports::write_context::{AuditScope, WriteContext};
use reqlore_domain::timestamp::Timestamp;

use crate::archive::read_records;
use crate::identity::{put_identities_as, user};
use crate::{Storage, test_context};

const DAY: i64 = 24 * 60 * 60;

pub fn audit_event(action: &str, seconds: i64) -> AuditEvent {
    AuditEvent {
        at: Timestamp::new(seconds, 1),
        user: "ada".to_owned(),
        token: None,
        project: None,
        action: action.to_owned(),
        targets: vec![AuditTarget::unchanged("REQ-001")],
        result: RESULT_OK.to_owned(),
        micros: 5,
        correlation_id: "c".to_owned(),
        reason: "gr\u{fc}nde\n".to_owned(),
        channel: CallChannel::Web,
    }
}

pub fn audited_context() -> WriteContext {
    let clock = Arc::new(Timestamp::new(1_700_000_000, 0));
    WriteContext { audited: Some(AuditScope::begin(clock)), ..test_context() }
}

pub(crate) fn keyed(key: char, request: &str, at: i64) -> WriteContext {
    let (key, request) = (key.to_string().repeat(32), request.to_owned());
    let at = Timestamp::new(1_700_000_000 + at, 0);
    WriteContext {
        idempotency_key: Some(IdempotencyKey { key, request_hash: request }),
        at,
        ..test_context()
    }
}

async fn put(
    s: &Storage,
    name: &str,
    body: Option<&'static str>,
    act: WriteContext,
) -> StoreResult<()> {
    let id = DocumentId::section(name);
    let changed = id.clone();
    let decide = move |_: &_| {
        let change = body.map(|body| DocumentChange::put(changed.clone(), body.as_bytes()));
        Ok(change.into_iter().collect())
    };
    let commit = CommitRequest {
        read_set: ReadSet::of_documents(vec![id]),
        decide: Box::new(decide),
        context: act,
    };
    s.store.commit(&s.project, commit).await.map(drop)
}

/// Returns all rows after verifying their chain.
pub async fn verified_rows(store: &dyn Store) -> Vec<AuditRow> {
    let rows = store.rows(1, usize::MAX).await.unwrap();
    let mut verifier = ChainVerifier::default();
    verifier.verify_rows(&rows).unwrap();
    let (count, newest) = verifier.finish().unwrap();
    assert_eq!((count, newest), (rows.len() as u64, store.newest().await.unwrap()));
    rows
}

fn actions(rows: &[AuditRow]) -> Vec<String> {
    rows.iter().map(|row| row.parse_event().unwrap().action).collect()
}

pub async fn rows_are_chained_in_recording_order(s: &Storage) {
    assert_eq!(s.store.newest().await.unwrap(), ChainHead::default());
    s.store.append_events(vec![audit_event("a", 1), audit_event("b", 2)]).await.unwrap();
    s.store.append_events(Vec::new()).await.unwrap();
    s.store.append_events(vec![audit_event("c", 3)]).await.unwrap();
    let rows = verified_rows(&*s.store).await;
    assert_eq!(actions(&rows), ["a", "b", "c"]);
    assert_eq!(rows[2].parse_event().unwrap(), audit_event("c", 3));
    let records = (0..8).map(|_| {
        let store = Arc::clone(&s.store);
        tokio::spawn(async move {
            store.append_events(vec![audit_event("x", 4), audit_event("y", 4)]).await
        })
    });
    for record in records.collect::<Vec<_>>() {
        record.await.unwrap().unwrap();
    }
    assert_eq!(verified_rows(&*s.store).await.len(), 19);
}

pub async fn rows_are_read_from_any_number(s: &Storage) {
    let all = (0..700).map(|second| audit_event("a", second)).collect();
    s.store.append_events(all).await.unwrap();
    let numbers = |rows: Vec<AuditRow>| rows.iter().map(|row| row.number).collect::<Vec<_>>();
    assert_eq!(numbers(s.store.rows(0, 2).await.unwrap()), [1, 2]);
    assert_eq!(numbers(s.store.rows(511, 3).await.unwrap()), [511, 512, 513]);
    assert_eq!(numbers(s.store.rows(699, 9).await.unwrap()), [699, 700]);
    assert!(s.store.rows(701, 9).await.unwrap().is_empty());
}

pub async fn commit_writes_its_audit_row(s: &Storage) {
    s.store.append_events(vec![audit_event("before", 1)]).await.unwrap();
    put(s, "a", Some("one"), audited_context()).await.unwrap();
    put(s, "a", Some("two"), audited_context()).await.unwrap();
    let rows = verified_rows(&*s.store).await;
    assert_eq!(actions(&rows), ["before", "contract", "contract"]);
    let event = rows[2].parse_event().unwrap();
    let (before, after) = (Some(Version::of_bytes(b"one")), Some(Version::of_bytes(b"two")));
    assert_eq!(event.targets, [AuditTarget { name: "section a".to_owned(), before, after }]);
    assert_eq!((&*event.user, event.project), ("tester", Some(s.project.clone())));
    assert_eq!((&*event.correlation_id, &*event.result), ("contract", RESULT_OK));
    if let Some(reopened) = s.reopen_store().await {
        assert_eq!(verified_rows(&*reopened).await, rows, "nothing is added, lost or rolled back");
    }
}

pub async fn change_row_and_key_are_atomic(s: &Storage) {
    let both = WriteContext { audited: audited_context().audited, ..keyed('k', "r", 0) };
    put(s, "a", Some("one"), both).await.unwrap();
    let both = WriteContext { audited: audited_context().audited, ..keyed('k', "r", 0) };
    let repeated = put(s, "a", Some("two"), both).await.unwrap_err();
    assert!(matches!(repeated, StoreError::Repeated(_)), "{repeated:?}");
    let rows = verified_rows(&*s.store).await;
    assert_eq!(actions(&rows), ["contract"], "a repeated commit has no second row");
    let targets = s.store.find_record(&"k".repeat(32)).await.unwrap().unwrap().targets;
    assert_eq!(rows[0].parse_event().unwrap().targets, targets);
    assert_eq!(targets[0].after, Some(Version::of_bytes(b"one")));
    assert_eq!(s.read_body(&DocumentId::section("a")).await.as_deref(), Some(&b"one"[..]));
}

pub async fn empty_and_rejected_commits_write_no_row(s: &Storage) {
    put(s, "a", None, audited_context()).await.unwrap();
    put(s, "a", Some("unaudited"), test_context()).await.unwrap();
    let reject = |_: &_| Err(Error::new(ErrorKind::Refused, "no"));
    let reads = ReadSet::of_documents(Vec::new());
    let commit =
        CommitRequest { read_set: reads, decide: Box::new(reject), context: audited_context() };
    s.store.commit(&s.project, commit).await.unwrap_err();
    assert!(verified_rows(&*s.store).await.is_empty());
}

pub async fn identity_commit_writes_its_audit_row(s: &Storage) {
    put_identities_as(&*s.store, vec![IdentityChange::User(user("ada"))], audited_context())
        .await
        .unwrap();
    let rows = verified_rows(&*s.store).await;
    let event = rows[0].parse_event().unwrap();
    assert_eq!((rows.len(), event.targets), (1, vec![AuditTarget::unchanged("user/ada")]));
}

pub async fn pruning_records_a_row(s: &Storage) {
    let now = Timestamp::new(1_700_000_000, 0);
    assert_eq!(s.store.prune(now, now).await.unwrap(), 0);
    s.store
        .append_events(vec![audit_event("a", 1), audit_event("b", 2), audit_event("c", 30)])
        .await
        .unwrap();
    assert_eq!(s.store.prune(Timestamp::new(1, 0), now).await.unwrap(), 0);
    assert_eq!(s.store.prune(Timestamp::new(30, 0), now).await.unwrap(), 2);
    let rows = verified_rows(&*s.store).await;
    assert_eq!(actions(&rows), ["c", reqlore_domain::audit_log::PRUNED_ACTION]);
    assert_eq!(s.store.prune(Timestamp::new(40, 0), now).await.unwrap(), 1);
    s.store.append_events(vec![audit_event("d", 50)]).await.unwrap();
    let rows = verified_rows(&*s.store).await;
    assert_eq!(rows.first().unwrap().number, 4);
    assert_eq!(actions(&rows).last().unwrap(), "d");
}

pub async fn repeated_pruning_removes_all_old_rows(s: &Storage) {
    let now = Timestamp::new(1_700_000_000, 0);
    let mut entries: Vec<AuditEvent> =
        (0..6_000).map(|second| audit_event("old", second)).collect();
    entries.push(audit_event("kept", 7_000));
    s.store.append_events(entries).await.unwrap();
    let mut pruned_count = 0;
    loop {
        match s.store.prune(Timestamp::new(7_000, 0), now).await.unwrap() {
            0 => break,
            step => pruned_count += step,
        }
    }
    assert_eq!(pruned_count, 6_000);
    let rows = verified_rows(&*s.store).await;
    assert_eq!((rows[0].number, &*actions(&rows)[0]), (6_001, "kept"));
    let pruned = reqlore_domain::audit_log::PRUNED_ACTION;
    assert!(rows.len() > 1 && actions(&rows)[1..].iter().all(|action| action == pruned));
}

pub async fn import_rejects_a_store_with_audit_rows(s: &Storage) {
    s.store.append_events(vec![audit_event("a", 1)]).await.unwrap();
    s.assert_rejects_import().await;
}

pub async fn audit_rows_survive_a_round_trip(s: &Storage) {
    let mut head = ChainHead::default();
    let sealed = |second| {
        let row = AuditRow::seal_after(head, audit_event("a", second));
        head = row.head();
        row
    };
    let rows: Vec<_> = (0..1_000).map(sealed).map(ArchiveRecord::AuditRow).collect();
    let mut writer = s.store.import().await.unwrap();
    for part in rows.chunks(300) {
        writer.write_batch(part.to_vec()).await.unwrap();
    }
    writer.finish().await.unwrap();
    assert_eq!(read_records(&*s.store).await.unwrap(), rows);
    s.store.append_events(vec![audit_event("after", 1)]).await.unwrap();
    assert_eq!(verified_rows(&*s.store).await.len(), 1_001);
}

pub async fn keys_are_used_once(s: &Storage) {
    put(s, "a", Some("one"), keyed('k', "r", 0)).await.unwrap();
    let repeated = put(s, "a", Some("two"), keyed('k', "other", 1)).await.unwrap_err();
    let StoreError::Repeated(record) = repeated else { panic!("{repeated:?}") };
    assert_eq!((&*record.request, record.answer.as_deref()), ("r", None));
    assert_eq!(record.targets[0].after, Some(Version::of_bytes(b"one")));
    assert_eq!(s.read_body(&DocumentId::section("a")).await.as_deref(), Some(&b"one"[..]));
    put(s, "a", Some("two"), keyed('l', "r", 1)).await.unwrap();
    put(s, "a", Some("three"), keyed('k', "r", DAY)).await.expect("a key is free after a day");
    let racing = (0..6).map(|_| put(s, "b", Some("x"), keyed('m', "r", 1)));
    let done = futures_util::future::join_all(racing).await;
    assert_eq!(done.iter().filter(|outcome| outcome.is_ok()).count(), 1);
    let Some(reopened) = s.reopen_store().await else { return };
    let record = reopened.find_record(&"m".repeat(32)).await.unwrap();
    assert_eq!(record.unwrap().targets[0].name, "section b");
}

pub async fn idempotency_key_needs_a_change(s: &Storage) {
    put(s, "a", None, keyed('k', "r", 0)).await.unwrap();
    assert_eq!(s.store.find_record(&"k".repeat(32)).await.unwrap(), None);
    put(s, "a", Some("one"), keyed('k', "r", 0)).await.unwrap();
}

pub async fn answer_is_stored(s: &Storage) {
    put(s, "a", Some("one"), keyed('k', "r", 0)).await.unwrap();
    s.store.save_answer(&"k".repeat(32), "{\"gr\u{fc}n\":1}".to_owned()).await.unwrap();
    s.store.save_answer(&"u".repeat(32), "an unknown key".to_owned()).await.unwrap();
    let record = s.store.find_record(&"k".repeat(32)).await.unwrap().unwrap();
    assert_eq!((&*record.request, record.answer.as_deref()), ("r", Some("{\"gr\u{fc}n\":1}")));
    assert_eq!(s.store.find_record(&"u".repeat(32)).await.unwrap(), None);
    let Some(reopened) = s.reopen_store().await else { return };
    assert_eq!(reopened.find_record(&"k".repeat(32)).await.unwrap(), Some(record));
}

pub async fn old_idempotency_keys_expire(s: &Storage) {
    put(s, "a", Some("one"), keyed('k', "r", 0)).await.unwrap();
    put(s, "a", Some("two"), keyed('l', "r", 10)).await.unwrap();
    s.store.expire_records(Timestamp::new(1_700_000_010, 0)).await.unwrap();
    assert_eq!(s.store.find_record(&"k".repeat(32)).await.unwrap(), None);
    assert!(s.store.find_record(&"l".repeat(32)).await.unwrap().is_some());
}
