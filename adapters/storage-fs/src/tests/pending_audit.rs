//! Commits with an audit row and an idempotency key: death and failure at every step, and what
//! the next process makes of it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use reqlore_contract::{act, run as block_on};
use reqlore_domain::audit::{AuditRow, Target, UNCONFIRMED, Verifier};
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::{DocumentId, Kind};
use reqlore_domain::ports::audit::AuditLog;
use reqlore_domain::ports::documents::{
    Change, Commit, Committed, DocumentRepository, ReadSet, StoreError, StoreResult,
};
use reqlore_domain::ports::idempotency::{IdempotencyKey, IdempotencyStore};
use reqlore_domain::ports::write_context::{AuditScope, WriteContext};
use reqlore_domain::project::ProjectKey;
use reqlore_domain::time::Timestamp;
use tempfile::TempDir;

use super::config;
use super::crash::commit_here;
use crate::failpoint::Step;
use crate::failpoint::under_test::{Act, plan};
use crate::lock::Turn;
use crate::{Config, FsStore};

const STEPS: [Step; 12] = [
    Step::Decided,
    Step::TempSynced,
    Step::Prepared,
    Step::JournalBegun,
    Step::JournalSynced,
    Step::Exchanged,
    Step::Checked,
    Step::FolderSynced,
    Step::JournalRemoved,
    Step::OldRemoved,
    Step::Confirmed,
    Step::RollingBack,
];
const TIMES: usize = 2;
const KEY: &str = "0123456789abcdef0123456789abcdef";

fn audited() -> WriteContext {
    let clock = Arc::new(Timestamp::new(1_700_000_000, 0));
    WriteContext { audited: Some(AuditScope::begin(clock)), ..act() }
}

fn item(number: usize) -> DocumentId {
    DocumentId { kind: Kind::Item(ItemKind::Epic), name: format!("EP-00{number}") }
}

/// Replaces this many documents, under the key.
fn commit(documents: usize, body: &'static str) -> Commit {
    let ids: Vec<DocumentId> = (1..=documents).map(item).collect();
    let changes: Vec<Change> = ids.iter().map(|id| Change::put(id.clone(), body)).collect();
    let once = Some(IdempotencyKey { key: KEY.to_owned(), request: "r".to_owned() });
    let act = WriteContext { once, ..audited() };
    Commit { reads: ReadSet::of(ids), decide: Box::new(move |_| Ok(changes.clone())), act }
}

fn run(root: &Path, documents: usize) -> StoreResult<Committed> {
    commit_here(root, commit(documents, "new"))
}

fn prepare(documents: usize) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for id in (1..=documents).map(item) {
        let path = folder.path().join(id.to_string());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "old").unwrap();
    }
    folder
}

fn body(root: &Path, number: usize) -> String {
    fs::read_to_string(root.join(item(number).to_string())).unwrap()
}

/// All rows of a chain that is whole.
pub(super) fn chain(store: &FsStore) -> Vec<AuditRow> {
    let rows = block_on(store.rows(1, usize::MAX)).unwrap();
    let mut verifier = Verifier::default();
    verifier.next(&rows).unwrap();
    assert_eq!(verifier.finish().unwrap().1, block_on(store.newest()).unwrap());
    rows
}

/// How many rows of a change stand, and how many were taken back.
pub(super) fn told(rows: &[AuditRow]) -> (usize, usize) {
    let entries = rows.iter().map(|row| (row.number, row.entry().unwrap()));
    let entries: Vec<_> = entries.collect();
    let back = entries.iter().filter(|(_, entry)| entry.action == UNCONFIRMED);
    let back: Vec<u64> = back.map(|(_, entry)| entry.reason.parse().unwrap()).collect();
    let is_change = |entry: &reqlore_domain::audit::AuditEvent| {
        entry.targets.iter().any(Target::is_changed)
            || entry.targets.iter().any(|target| target.name.starts_with("user/"))
    };
    let changes = entries.iter().filter(|(_, entry)| is_change(entry));
    let changes: Vec<u64> = changes.map(|(number, _)| *number).collect();
    let taken = back.iter().filter(|number| changes.contains(number)).count();
    assert_eq!(taken, back.len(), "only rows of changes are taken back, each once: {entries:?}");
    (changes.len() - taken, taken)
}

#[track_caller]
fn check(root: &Path, store: &FsStore, documents: usize, shown: &str) {
    let rows = chain(store);
    let bodies: Vec<String> = (1..=documents).map(|number| body(root, number)).collect();
    assert!(bodies.iter().all(|body| *body == bodies[0]), "{shown}: {bodies:?}");
    let came = bodies[0] == "new";
    let (stand, taken) = told(&rows);
    assert_eq!(stand, usize::from(came), "{shown}: {rows:?}");
    assert!(!came || taken == 0, "{shown}: {rows:?}");
    let earlier = block_on(store.find_record(KEY)).unwrap();
    assert_eq!(earlier.is_some(), came, "{shown}: the key");
    let repeated = commit_here(root, commit(documents, "newer"));
    if came {
        assert!(matches!(repeated, Err(StoreError::Repeated(_))), "{shown}: {repeated:?}");
    } else {
        repeated.unwrap();
        assert_eq!(told(&chain(store)), (1, taken), "{shown}");
    }
}

fn open(root: &Path) -> FsStore {
    FsStore::open(&config(root)).unwrap()
}

const CHILD: &str = "REQLORE_TEST_PENDING";

/// The process that dies: does nothing unless a parent asks for it.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test tells its child what to do")]
fn child_that_dies() {
    let Ok(order) = std::env::var(CHILD) else { return };
    let [root, step, times, what] = order.split('|').collect::<Vec<_>>()[..] else { return };
    let number = |text: &str| text.parse::<usize>().unwrap();
    let root = Path::new(root);
    match what {
        "overtaken" => {
            overtake(root);
            let _ = run(root, 1);
        }
        documents => {
            plan(STEPS[number(step)], number(times), Act::Abort);
            run(root, number(documents)).unwrap();
        }
    }
}

/// Did it live?
fn child(root: &Path, step: usize, times: usize, what: &str) -> bool {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tests::pending_audit::child_that_dies"])
        .env(CHILD, format!("{}|{step}|{times}|{what}", root.display()))
        .output()
        .unwrap();
    child.status.success()
}

fn cases() -> impl Iterator<Item = (usize, usize, usize)> {
    let times = |step| (0..TIMES).map(move |times| (step, times));
    let each = (0..STEPS.len()).flat_map(times);
    each.flat_map(|(step, times)| (1..=2).map(move |documents| (step, times, documents)))
}

// S5: 4.5
#[test]
fn after_any_death_a_change_has_one_row_and_a_row_without_its_change_is_taken_back() {
    let (mut died, mut old, mut taken) = (0, 0, 0);
    for (step, times, documents) in cases() {
        let folder = prepare(documents);
        let root = folder.path();
        let lived = child(root, step, times, &documents.to_string());
        let store = open(root);
        let shown = format!("{:?} x{times} of {documents}", STEPS[step]);
        died += usize::from(!lived);
        old += usize::from(body(root, 1) == "old");
        assert!(!lived || body(root, 1) == "new", "{shown}");
        taken += told(&chain(&store)).1;
        check(root, &store, documents, &shown);
    }
    assert!(died >= 16 && old > 6 && taken >= 3, "{died} died, {old} old, {taken} taken back");
}

/// A server that goes on settles what another process left, without being opened again.
#[test]
fn who_writes_next_takes_back_what_a_killed_neighbour_left() {
    for step in [Step::Prepared, Step::FolderSynced] {
        let folder = prepare(1);
        let root = folder.path();
        let at = position(step);
        let store = FsStore::new(&config(root));
        assert!(!child(root, at, 0, "1"));
        let other = item(7);
        let change = Change::put(other.clone(), "x");
        let reads = ReadSet::of(vec![other]);
        let decide = Box::new(move |_: &_| Ok(vec![change.clone()]));
        commit_here(root, Commit { reads, decide, act: audited() }).unwrap();
        let came = usize::from(step == Step::FolderSynced);
        assert_eq!(told(&chain(&store)), (1 + came, 1 - came), "{step:?}");
        assert_eq!(block_on(store.find_record(KEY)).unwrap().is_some(), came == 1, "{step:?}");
    }
}

/// `git checkout` after an acknowledged change takes nothing back.
#[test]
fn an_acknowledged_change_keeps_its_row_when_a_user_reverts_it() {
    let folder = prepare(1);
    let root = folder.path();
    run(root, 1).unwrap();
    fs::write(root.join(item(1).to_string()), "old").unwrap();
    assert_eq!(told(&chain(&open(root))), (1, 0));
}

#[test]
fn a_step_that_fails_takes_its_row_back_at_once() {
    for (step, times, documents) in cases() {
        let folder = prepare(documents);
        let root = folder.path();
        plan(STEPS[step], times, Act::Fail);
        let outcome = run(root, documents);
        plan(STEPS[0], usize::MAX, Act::Fail);
        let shown = format!("{:?} x{times} of {documents}: {outcome:?}", STEPS[step]);
        assert_eq!(outcome.is_ok(), body(root, 1) == "new", "{shown}");
        check(root, &FsStore::new(&config(root)), documents, &shown);
    }
}

thread_local! {
    static EDITED: RefCell<PathBuf> = RefCell::default();
}

/// An editor saves in between, and the process dies while it takes its row back.
fn overtake(root: &Path) {
    EDITED.set(root.join(item(1).to_string()));
    plan(
        Step::Prepared,
        0,
        Act::Run(|| {
            let path = EDITED.with_borrow(PathBuf::clone);
            fs::write(path.with_extension("swp"), "edited").unwrap();
            fs::rename(path.with_extension("swp"), &path).unwrap();
            plan(Step::RollingBack, 0, Act::Abort);
        }),
    );
}

#[test]
fn a_row_that_was_just_being_taken_back_is_taken_back_by_the_next_one() {
    let folder = prepare(1);
    let root = folder.path();
    assert!(!child(root, 0, 0, "overtaken"));
    assert_eq!(body(root, 1), "edited");
    let store = open(root);
    assert_eq!(told(&chain(&store)), (0, 1));
    drop(open(root));
    assert_eq!(told(&chain(&store)), (0, 1), "once");
    assert!(block_on(store.find_record(KEY)).unwrap().is_none());
}

fn position(step: Step) -> usize {
    STEPS.iter().position(|known| *known == step).unwrap()
}

fn second() -> ProjectKey {
    ProjectKey::new("second")
}

fn two_projects(root: &Path, other: &Path) -> Config {
    Config { projects: BTreeMap::from([(second(), other.to_owned())]), ..config(root) }
}

#[test]
fn a_key_that_another_project_has_in_doubt_is_refused_there_and_stays_its_own() {
    for step in [Step::FolderSynced, Step::Prepared] {
        let (folder, other) = (prepare(1), prepare(1));
        let root = folder.path();
        let store = FsStore::new(&two_projects(root, other.path()));
        assert!(!child(root, position(step), 0, "1"));
        for _ in 0..2 {
            let busy = block_on(store.commit(&second(), commit(1, "theirs")));
            assert!(matches!(busy, Err(StoreError::Busy { .. })), "{step:?}: {busy:?}");
            assert_eq!(body(other.path(), 1), "old", "{step:?}");
        }
        let came = body(root, 1) == "new";
        let again = block_on(store.commit(&ProjectKey::default(), commit(1, "again")));
        assert_eq!(matches!(again, Err(StoreError::Repeated(_))), came, "{step:?}: {again:?}");
        let theirs = block_on(store.commit(&second(), commit(1, "theirs")));
        assert!(matches!(theirs, Err(StoreError::Repeated(_))), "{step:?}: {theirs:?}");
    }
}

/// An editor saves in between, and then the row can't be taken back.
fn overtake_and_fail(root: &Path) {
    EDITED.set(root.join(item(1).to_string()));
    let overtaken = || {
        let path = EDITED.with_borrow(PathBuf::clone);
        fs::write(path.with_extension("swp"), "edited").unwrap();
        fs::rename(path.with_extension("swp"), &path).unwrap();
        plan(Step::RollingBack, 0, Act::Fail);
    };
    plan(Step::Prepared, 0, Act::Run(overtaken));
}

#[test]
fn a_commit_whose_row_could_not_be_taken_back_is_not_tried_again() {
    let folder = prepare(1);
    let root = folder.path();
    overtake_and_fail(root);
    let done = run(root, 1);
    assert!(matches!(done, Err(StoreError::Unavailable { .. })), "{done:?}");
    assert_eq!(body(root, 1), "edited");
    assert_eq!(told(&chain(&open(root))), (0, 1));
}

#[test]
fn a_project_whose_folder_is_gone_holds_no_other_one_up() {
    let (folder, other) = (prepare(1), prepare(1));
    let mut config = two_projects(folder.path(), other.path());
    config.projects.insert(ProjectKey::new("first"), folder.path().join("gone"));
    let store = FsStore::new(&config);
    let taken = block_on(store.shared.turns.take(&second())).unwrap();
    let root = store.shared.open(&second()).unwrap();
    let Turn::Locked(lock) = taken.lock_now(&root).unwrap() else { panic!("the lock is free") };
    overtake_and_fail(other.path());
    crate::commit::run(&store.shared, &second(), &root, commit(1, "new"), &lock).unwrap_err();
    drop(lock);
    assert_eq!(told(&chain(&store)), (1, 0));
    store.shared.recover_team();
    assert_eq!(told(&chain(&store)), (0, 1));
}
