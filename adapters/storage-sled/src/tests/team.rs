//! Users, tokens, the audit log and idempotency records in groups, in pieces and after restarts.

use std::fs;
use std::sync::atomic::Ordering;

use futures_util::FutureExt;
use futures_util::future::{join, join_all};
use reqlore_contract::{run, test_context};
use reqlore_domain::audit_log::{AuditEvent, AuditRow, AuditTarget, RESULT_OK};
use reqlore_domain::document::Version;
use reqlore_domain::identity::{
    Access, CallChannel, PresentedToken, Token, User, UserName, UserRole,
};
use reqlore_domain::ports::audit::AuditLog;
use reqlore_domain::ports::documents::{
    CommitRequest, DocumentRepository, ReadSet, StoreError, StoreResult,
};
use reqlore_domain::ports::idempotency::{IdempotencyKey, IdempotencyStore};
use reqlore_domain::ports::identity::{IdentityChange, IdentityCommit, IdentityRepository};
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use tempfile::tempdir;

use super::{PausingStore, audited, database, open, verified_rows, write};
use crate::SledStore;
use crate::database::{AUDIT, KEYS, OVERFLOW, TOKENS};
use crate::records::overflow_prefix;

pub(super) fn keyed(key: &str, act: WriteContext) -> WriteContext {
    let idempotency_key =
        Some(IdempotencyKey { key: key.to_owned(), request_hash: "r".to_owned() });
    WriteContext { idempotency_key, ..act }
}

pub(super) fn event(seconds: i64, targets: usize) -> AuditEvent {
    let target = |number| AuditTarget {
        name: format!("requirement REQ-{number:03}-abcdef"),
        before: Some(Version::of_bytes(b"before")),
        after: None,
    };
    AuditEvent {
        at: Timestamp::new(seconds, 0),
        user: "ada".to_owned(),
        token: None,
        project: None,
        action: "recorded".to_owned(),
        targets: (0..targets).map(target).collect(),
        result: RESULT_OK.to_owned(),
        micros: 1,
        correlation_id: String::new(),
        reason: String::new(),
        channel: CallChannel::Mcp,
    }
}

pub(super) fn user(name: &str) -> User {
    let name = UserName::parse(name).unwrap();
    User { name, role: UserRole::User, created_at: Timestamp(1), disabled_at: None }
}

fn token(projects: usize) -> Token {
    let presented = PresentedToken::new("aaaaaaaaaaaa", &"s".repeat(32)).unwrap();
    Token {
        id: presented.id.clone(),
        user: user("ada").name,
        digest: presented.digest(),
        scope: Access::Write,
        projects: (0..projects).map(|number| ProjectKey::new(format!("p{number}"))).collect(),
        created_at: Timestamp(1),
        expires_at: Timestamp(2),
        revoked_at: None,
        successor: None,
        last_used_at: None,
        parent: None,
    }
}

pub(super) async fn change(
    store: &SledStore,
    change: IdentityChange,
    act: WriteContext,
) -> StoreResult<()> {
    let decide = Box::new(move |_: &_, _: &_| Ok(vec![change.clone()]));
    let commit = IdentityCommit { users: Vec::new(), tokens: Vec::new(), decide, context: act };
    store.commit_identities(commit).await
}

#[test]
fn group_chains_audit_rows_without_failed_commits() {
    let folder = tempdir().unwrap();
    run(async {
        let pausing = PausingStore::open(&folder);
        let store = &pausing.store;
        let project = ProjectKey::default();
        let decide = Box::new(|_: &_| panic!("on purpose"));
        let panics = CommitRequest { read_set: ReadSet::default(), decide, context: audited() };
        let long = "n".repeat(1001);
        let jobs = async {
            let failed =
                join(write(store, &long, keyed("long", audited())), store.commit(&project, panics));
            let rest = join_all([
                write(store, "a", audited()).boxed_local(),
                store.append_events(vec![event(1, 1), event(2, 2000)]).boxed_local(),
                change(store, IdentityChange::User(user("ada")), audited()).boxed_local(),
                change(store, IdentityChange::Token(token(1)), audited()).boxed_local(),
                store.append_events(vec![event(3, 1)]).boxed_local(),
                write(store, "b", audited()).boxed_local(),
            ]);
            join(failed, rest).await
        };
        let ((long, panicked), rest) = pausing.in_one_group(jobs).await;
        assert!(matches!(long, Err(StoreError::Refused { .. })), "{long:?}");
        assert!(matches!(panicked, Err(StoreError::Internal(_))), "{panicked:?}");
        assert!(rest.iter().all(Result::is_ok), "{rest:?}");
        assert_eq!(store.find_record("long").await.unwrap(), None);
        let rows = verified_rows(store).await;
        let actions: Vec<_> = rows.iter().map(|row| row.parse_event().unwrap().action).collect();
        let (put, recorded) = ("contract", "recorded");
        assert_eq!(actions, [put, recorded, recorded, put, put, recorded, put]);
        let project_of = |row: &AuditRow| row.parse_event().unwrap().project;
        assert_eq!(project_of(&rows[0]), Some(project));
    });
}

#[test]
fn idempotency_key_is_used_once_in_a_group() {
    let folder = tempdir().unwrap();
    run(async {
        let pausing = PausingStore::open(&folder);
        let store = &pausing.store;
        let transactions = || database(store).commits.load(Ordering::Relaxed);
        let before = transactions();
        let racing = ["a", "b", "c", "d"].map(|name| write(store, name, keyed("k", audited())));
        let outcomes = pausing.in_one_group(join_all(racing)).await;
        // One for the write of the helper, one for the change with its row and its key.
        assert_eq!(transactions() - before, 2);
        outcomes[0].as_ref().unwrap();
        for repeated in &outcomes[1..] {
            let Err(StoreError::Repeated(record)) = repeated else { panic!("{repeated:?}") };
            assert_eq!(record.targets[0].name, "section a");
        }
        assert_eq!(verified_rows(store).await.len(), 1);
        let jobs = async {
            let save = store.save_response("k", "first".to_owned());
            join(save, write(store, "e", keyed("k", audited()))).await
        };
        let (_, repeated) = pausing.in_one_group(jobs).await;
        let Err(StoreError::Repeated(record)) = repeated else { panic!("{repeated:?}") };
        assert_eq!(record.answer.as_deref(), Some("first"));
    });
}

#[test]
fn long_values_are_split_and_removed_in_pieces() {
    let folder = tempdir().unwrap();
    let answer: String = "{\"gr\u{fc}n\":1}".chars().cycle().take(1 << 20).collect();
    run(async {
        let store = open(&folder);
        store.append_events((0..10).map(|at| event(at, 40)).collect()).await.unwrap();
        store.append_events(vec![event(10, 10_000)]).await.unwrap();
        change(&store, IdentityChange::User(user("ada")), test_context()).await.unwrap();
        change(&store, IdentityChange::Token(token(3_000)), test_context()).await.unwrap();
        write(&store, "a", keyed("k", test_context())).await.unwrap();
        store.save_response("k", answer.clone()).await.unwrap();
        store.close().unwrap();

        let store = open(&folder);
        let database = database(&store);
        let pieces_of = |tree: usize| {
            let prefix = overflow_prefix(tree, b"");
            database.tree(OVERFLOW).scan_prefix(&prefix[..prefix.len() - 2]).count()
        };
        assert_eq!(verified_rows(&store).await[10].parse_event().unwrap(), event(10, 10_000));
        let found = store.token_owner(&token(0).id).await.unwrap().unwrap();
        assert_eq!((found.token, found.user), (token(3_000), user("ada")));
        let record = store.find_record("k").await.unwrap().unwrap();
        assert_eq!(record.answer.as_deref(), Some(&*answer));
        assert!([AUDIT, TOKENS, KEYS].iter().all(|tree| pieces_of(*tree) > 0));

        change(&store, IdentityChange::Token(token(0)), test_context()).await.unwrap();
        assert_eq!((pieces_of(TOKENS), database.tree(TOKENS).len()), (0, 1));
        store.save_response("k", "short".to_owned()).await.unwrap();
        assert_eq!((pieces_of(KEYS), database.tree(KEYS).len()), (0, 1));
        store.save_response("k", answer.clone()).await.unwrap();
        store.expire_records(Timestamp::new(1_800_000_000, 0)).await.unwrap();
        assert_eq!((pieces_of(KEYS), database.tree(KEYS).len()), (0, 0));
        assert_eq!(store.prune(Timestamp::new(100, 0), test_context().at).await.unwrap(), 11);
        assert_eq!((database.tree(OVERFLOW).len(), database.tree(AUDIT).len()), (0, 1));
        assert_eq!(verified_rows(&store).await[0].number, 12);
        let blobs = fs::read_dir(folder.path().join("sled/blobs")).unwrap();
        assert_eq!(blobs.count(), 0, "a value became a file of its own");
    });
}

#[test]
fn epoch_is_read_during_sync_and_survives_restart() {
    let folder = tempdir().unwrap();
    run(async {
        let pausing = PausingStore::open(&folder);
        let store = &pausing.store;
        change(store, IdentityChange::User(user("ada")), test_context()).await.unwrap();
        let during = pausing.in_one_group(async { store.identity_epoch().now_or_never() }).await;
        let epoch = store.identity_epoch().await.unwrap();
        assert_eq!(during.expect("it does not wait for a sync").unwrap(), epoch);
        store.close().unwrap();
        let store = open(&folder);
        assert_eq!(store.identity_epoch().await.unwrap(), epoch);
        change(&store, IdentityChange::User(user("bob")), test_context()).await.unwrap();
        assert_ne!(store.identity_epoch().await.unwrap(), epoch);
    });
}
