//! Users, tokens, the audit and keys of writes: what only this database can do wrong with them.

use std::fs::{self, File};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{join, join_all, maybe_done};
use reqlore_contract::{act, run};
use reqlore_domain::audit::{AuditEvent, AuditRow, OK, Target, Verifier};
use reqlore_domain::document::{DocumentId, Version};
use reqlore_domain::identity::{Access, PresentedToken, Role, Token, User, UserName};
use reqlore_domain::ports::audit::AuditLog;
use reqlore_domain::ports::documents::{
    Change, Commit, Committed, DocumentRepository, ReadSet, StoreError, StoreResult,
};
use reqlore_domain::ports::idempotency::{IdempotencyKey, IdempotencyStore};
use reqlore_domain::ports::identity::{IdentityChange, IdentityCommit, IdentityRepository};
use reqlore_domain::ports::write_context::{AuditScope, WriteContext};
use reqlore_domain::project::ProjectKey;
use reqlore_domain::time::Timestamp;
use tempfile::tempdir;

use super::{base, config, get};
use crate::base::{AUDIT, KEYS, OVERFLOW, TOKENS};
use crate::{PATIENCE, SledStore};

pub(super) fn open(folder: &tempfile::TempDir) -> SledStore {
    SledStore::open(&config(folder.path())).unwrap()
}

pub(super) fn audited() -> WriteContext {
    WriteContext { audited: Some(AuditScope::begin(Arc::new(act().at))), ..act() }
}

fn once(key: &str, act: WriteContext) -> WriteContext {
    WriteContext {
        once: Some(IdempotencyKey { key: key.to_owned(), request: "r".to_owned() }),
        ..act
    }
}

pub(super) async fn write(
    store: &SledStore,
    name: &str,
    act: WriteContext,
) -> StoreResult<Committed> {
    let id = DocumentId::section(name);
    let changed = id.clone();
    let decide = Box::new(move |_: &_| Ok(vec![Change::put(changed.clone(), "text")]));
    let commit = Commit { reads: ReadSet::of(vec![id]), decide, act };
    store.commit(&ProjectKey::default(), commit).await
}

pub(super) fn entry(seconds: i64, targets: usize) -> AuditEvent {
    let target = |number| Target {
        name: format!("requirement REQ-{number:03}-abcdef"),
        before: Some(Version::of(b"before")),
        after: None,
    };
    AuditEvent {
        at: Timestamp::new(seconds, 0),
        user: "ada".to_owned(),
        token: None,
        project: None,
        action: "recorded".to_owned(),
        targets: (0..targets).map(target).collect(),
        result: OK.to_owned(),
        micros: 1,
        correlation_id: String::new(),
        reason: String::new(),
    }
}

fn user(name: &str) -> User {
    let name = UserName::parse(name).unwrap();
    User { name, role: Role::User, created_at: Timestamp(1), disabled_at: None }
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
    }
}

async fn change(store: &SledStore, change: IdentityChange, act: WriteContext) -> StoreResult<()> {
    let decide = Box::new(move |_: &_, _: &_| Ok(vec![change.clone()]));
    let commit = IdentityCommit { users: Vec::new(), tokens: Vec::new(), decide, act };
    store.commit_identities(commit).await
}

/// All rows, of a chain that is whole.
pub(super) async fn chain(store: &SledStore) -> Vec<AuditRow> {
    let rows = store.rows(0, usize::MAX).await.unwrap();
    let mut verifier = Verifier::default();
    verifier.next(&rows).unwrap();
    assert_eq!(verifier.finish().unwrap().1, store.newest().await.unwrap());
    rows
}

/// A database of which a sync can be held back.
struct Held {
    store: SledStore,
    holds: Arc<AtomicBool>,
    at_sync: Receiver<()>,
    go: Sender<()>,
}

impl Held {
    fn open(folder: &tempfile::TempDir) -> Self {
        let (entered, at_sync) = channel();
        let (go, wait) = channel::<()>();
        let wait = Mutex::new(wait);
        let holds = Arc::new(AtomicBool::new(false));
        let held = Arc::clone(&holds);
        let sync = Box::new(move |file: &File| {
            if held.swap(false, Ordering::Relaxed) {
                entered.send(()).unwrap();
                wait.lock().unwrap().recv().unwrap();
            }
            file.sync_all()
        });
        let store = SledStore::open_with(&config(folder.path()), sync, PATIENCE).unwrap();
        Self { store, holds, at_sync, go }
    }

    /// Asks for this while a group is synced, so that all of it is the next group.
    async fn meanwhile<T>(&self, jobs: impl Future<Output = T>) -> T {
        self.holds.store(true, Ordering::Relaxed);
        let mut first = Box::pin(write(&self.store, "first", act()));
        assert!(first.as_mut().now_or_never().is_none());
        self.at_sync.recv_timeout(Duration::from_secs(10)).unwrap();
        let mut jobs = Box::pin(maybe_done(jobs));
        // Asked once, each has its job in the queue.
        let _ = jobs.as_mut().now_or_never();
        self.go.send(()).unwrap();
        let (first, ()) = join(first, jobs.as_mut()).await;
        first.unwrap();
        jobs.as_mut().take_output().unwrap()
    }
}

// S5: 4.5
#[test]
fn a_failed_sync_acknowledges_no_row_and_the_chain_goes_on_whole() {
    let folder = tempdir().unwrap();
    let fails = Arc::new(AtomicBool::new(false));
    let broken = Arc::clone(&fails);
    let sync = Box::new(move |file: &File| {
        let broken = broken.load(Ordering::Relaxed);
        if broken { Err(io::ErrorKind::StorageFull.into()) } else { file.sync_all() }
    });
    run(async {
        let store = SledStore::open_with(&config(folder.path()), sync, PATIENCE).unwrap();
        write(&store, "a", once("k", audited())).await.unwrap();
        fails.store(true, Ordering::Relaxed);
        let outcomes = join_all([
            write(&store, "b", once("l", audited())).map(|done| done.map(drop)).boxed_local(),
            store.record(vec![entry(1, 1)]).boxed_local(),
            change(&store, IdentityChange::User(user("ada")), audited()).boxed_local(),
            store.save_response("k", "{}".to_owned()).boxed_local(),
            store.prune(act().at, act().at).map(|gone| gone.map(drop)).boxed_local(),
        ]);
        for outcome in outcomes.await {
            assert!(matches!(outcome, Err(StoreError::Unavailable { .. })), "{outcome:?}");
        }
        fails.store(false, Ordering::Relaxed);
        assert!(store.record(vec![entry(1, 1)]).await.is_err(), "until it is opened again");
        store.close().unwrap();

        let store = open(&folder);
        let before = chain(&store).await;
        assert_eq!(before[0].entry().unwrap().targets[0].name, "section a");
        // Whether the change was kept is open; its row and its key were, if it was.
        let kept = get(&store, &DocumentId::section("b")).await.unwrap().is_some();
        let of_b =
            |row: &AuditRow| row.entry().unwrap().targets.iter().any(|t| t.name == "section b");
        assert_eq!(before.iter().any(of_b), kept);
        assert_eq!(store.find_record("l").await.unwrap().is_some(), kept);
        write(&store, "c", audited()).await.unwrap();
        assert_eq!(chain(&store).await.len(), before.len() + 1);
    });
}

#[test]
fn a_change_its_row_and_its_key_are_one_transaction() {
    let folder = tempdir().unwrap();
    run(async {
        let store = open(&folder);
        let transactions = || base(&store).commits.load(Ordering::Relaxed);
        write(&store, "a", act()).await.unwrap();
        let begin = transactions();
        write(&store, "a", once("k", audited())).await.unwrap();
        assert_eq!(transactions() - begin, 1);
        change(&store, IdentityChange::User(user("ada")), audited()).await.unwrap();
        assert_eq!(transactions() - begin, 2);
        assert_eq!(chain(&store).await.len(), 2);
    });
}

#[test]
fn a_group_makes_one_chain_without_what_failed_in_it() {
    let folder = tempdir().unwrap();
    run(async {
        let held = Held::open(&folder);
        let store = &held.store;
        let project = ProjectKey::default();
        let panics = || {
            let decide = Box::new(|_: &_| panic!("on purpose"));
            let commit = Commit { reads: ReadSet::default(), decide, act: audited() };
            store.commit(&project, commit)
        };
        let long = "n".repeat(1001);
        let jobs = async {
            let failed = join_all([
                write(store, &long, once("long", audited())).boxed_local(),
                panics().boxed_local(),
            ]);
            let rest = join_all([
                write(store, "a", audited()).map(|done| done.map(drop)).boxed_local(),
                store.record(vec![entry(1, 1), entry(2, 2000)]).boxed_local(),
                change(store, IdentityChange::User(user("ada")), audited()).boxed_local(),
                change(store, IdentityChange::Token(token(1)), audited()).boxed_local(),
                store.record(vec![entry(3, 1)]).boxed_local(),
                write(store, "b", audited()).map(|done| done.map(drop)).boxed_local(),
            ]);
            join(failed, rest).await
        };
        let (failed, rest) = held.meanwhile(jobs).await;
        assert!(matches!(failed[0], Err(StoreError::Refused { .. })), "{failed:?}");
        assert!(matches!(failed[1], Err(StoreError::Internal(_))), "{failed:?}");
        assert!(rest.iter().all(Result::is_ok), "{rest:?}");
        assert_eq!(store.find_record("long").await.unwrap(), None);
        let actions = |rows: &[AuditRow]| -> Vec<String> {
            rows.iter().map(|row| row.entry().unwrap().action).collect()
        };
        let (made, noted) = ("contract", "recorded");
        let rows = chain(store).await;
        assert_eq!(actions(&rows), [made, noted, noted, made, made, noted, made]);
        assert_eq!(rows[0].entry().unwrap().project.as_ref(), Some(&project));
    });
}

#[test]
fn a_key_is_used_once_in_a_group_too() {
    let folder = tempdir().unwrap();
    run(async {
        let held = Held::open(&folder);
        let store = &held.store;
        let names = ["a", "b", "c", "d"];
        let racing = join_all(names.map(|name| write(store, name, once("k", audited()))));
        let outcomes = held.meanwhile(racing).await;
        outcomes[0].as_ref().unwrap();
        for repeated in &outcomes[1..] {
            let Err(StoreError::Repeated(earlier)) = repeated else { panic!("{repeated:?}") };
            assert_eq!(earlier.targets[0].name, "section a");
        }
        assert_eq!(chain(store).await.len(), 1);
        let kept = async {
            let keep = store.save_response("k", "first".to_owned());
            join(keep, write(store, "e", once("k", audited()))).await
        };
        let Err(StoreError::Repeated(earlier)) = held.meanwhile(kept).await.1 else {
            panic!("it happened before")
        };
        assert_eq!(earlier.answer.as_deref(), Some("first"));
    });
}

#[test]
fn what_is_long_lies_in_pieces_and_goes_as_a_whole() {
    let folder = tempdir().unwrap();
    let answer: String = "{\"gr\u{fc}n\":1}".chars().cycle().take(1 << 20).collect();
    run(async {
        let store = open(&folder);
        store.record((0..10).map(|at| entry(at, 40)).collect()).await.unwrap();
        store.record(vec![entry(10, 10_000)]).await.unwrap();
        change(&store, IdentityChange::User(user("ada")), act()).await.unwrap();
        change(&store, IdentityChange::Token(token(3_000)), act()).await.unwrap();
        write(&store, "a", once("k", act())).await.unwrap();
        store.save_response("k", answer.clone()).await.unwrap();
        store.close().unwrap();

        let store = open(&folder);
        let base = base(&store);
        let pieces_of = |tree: usize| {
            let prefix = crate::keys::overflow(crate::base::NAMES[tree], b"");
            base.tree(OVERFLOW).scan_prefix(&prefix[..prefix.len() - 2]).count()
        };
        assert_eq!(chain(&store).await[10].entry().unwrap(), entry(10, 10_000));
        let found = store.holder(&token(0).id).await.unwrap().unwrap();
        assert_eq!((found.token, found.user), (token(3_000), user("ada")));
        let earlier = store.find_record("k").await.unwrap().unwrap();
        assert_eq!(earlier.answer.as_deref(), Some(&*answer));
        assert!([AUDIT, TOKENS, KEYS].iter().all(|tree| pieces_of(*tree) > 0));

        change(&store, IdentityChange::Token(token(0)), act()).await.unwrap();
        assert_eq!((pieces_of(TOKENS), base.tree(TOKENS).len()), (0, 1));
        store.save_response("k", "short".to_owned()).await.unwrap();
        assert_eq!((pieces_of(KEYS), base.tree(KEYS).len()), (0, 1));
        store.save_response("k", answer.clone()).await.unwrap();
        store.expire_records(Timestamp::new(1_800_000_000, 0)).await.unwrap();
        assert_eq!((pieces_of(KEYS), base.tree(KEYS).len()), (0, 0));
        assert_eq!(store.prune(Timestamp::new(100, 0), act().at).await.unwrap(), 11);
        assert_eq!((base.tree(OVERFLOW).len(), base.tree(AUDIT).len()), (0, 1));
        assert_eq!(chain(&store).await[0].number, 12);
        let blobs = fs::read_dir(folder.path().join("sled/blobs")).unwrap();
        assert_eq!(blobs.count(), 0, "nothing became a file of its own");
    });
}

#[test]
fn the_epoch_is_told_at_once_and_outlives_a_restart() {
    let folder = tempdir().unwrap();
    run(async {
        let held = Held::open(&folder);
        let store = &held.store;
        change(store, IdentityChange::User(user("ada")), act()).await.unwrap();
        let told = held.meanwhile(async { store.epoch().now_or_never() }).await;
        let epoch = store.epoch().await.unwrap();
        assert_eq!(told.expect("it does not wait for a sync").unwrap(), epoch);
        store.close().unwrap();
        let store = open(&folder);
        assert_eq!(store.epoch().await.unwrap(), epoch);
        change(&store, IdentityChange::User(user("bob")), act()).await.unwrap();
        assert_ne!(store.epoch().await.unwrap(), epoch);
    });
}
