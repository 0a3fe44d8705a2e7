//! Dying and failing at every step of a change that is audited and happens once (rulings 7).

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use reqlore_contract::{act, run as block_on};
use reqlore_domain::audit::{AuditRow, Target, UNCONFIRMED, Verifier};
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::{DocumentId, Kind};
use reqlore_domain::identity::{Role, User, UserName};
use reqlore_domain::ports::audit::AuditLog;
use reqlore_domain::ports::documents::{
    Change, Commit, Committed, ReadSet, StoreError, StoreResult,
};
use reqlore_domain::ports::idempotency::{IdempotencyKey, IdempotencyStore};
use reqlore_domain::ports::identity::{IdentityChange, IdentityCommit, IdentityRepository};
use reqlore_domain::ports::write_context::{AuditScope, WriteContext};
use reqlore_domain::project::ProjectKey;
use reqlore_domain::time::Timestamp;
use tempfile::TempDir;

use super::config;
use super::crash::commit_here;
use crate::FsStore;
use crate::failpoint::Step;
use crate::failpoint::under_test::{Act, plan};
use crate::lock::Turn;

pub(super) const STEPS: [Step; 18] = [
    Step::Decided,
    Step::TempSynced,
    Step::Noted,
    Step::KeyWritten,
    Step::KeySynced,
    Step::SegmentBegun,
    Step::RowWritten,
    Step::RowSynced,
    Step::JournalBegun,
    Step::JournalSynced,
    Step::Exchanged,
    Step::Checked,
    Step::FolderSynced,
    Step::JournalRemoved,
    Step::OldRemoved,
    Step::Settled,
    Step::Withdrawing,
    Step::Withdrawn,
];
const TIMES: usize = 2;
pub(super) const KEY: &str = "0123456789abcdef0123456789abcdef";
pub(super) const PENDING: &str = ".reqlore/local/pending";

pub(super) fn audited() -> WriteContext {
    let clock = Arc::new(Timestamp::new(1_700_000_000, 0));
    WriteContext { audited: Some(AuditScope::begin(clock)), ..act() }
}

pub(super) fn item(number: usize) -> DocumentId {
    DocumentId { kind: Kind::Item(ItemKind::Epic), name: format!("EP-00{number}") }
}

/// Replaces so many documents, under the key.
pub(super) fn commit(documents: usize, body: &'static str) -> Commit {
    let ids: Vec<DocumentId> = (1..=documents).map(item).collect();
    let changes: Vec<Change> = ids.iter().map(|id| Change::put(id.clone(), body)).collect();
    let once = Some(IdempotencyKey { key: KEY.to_owned(), request: "r".to_owned() });
    let act = WriteContext { once, ..audited() };
    Commit { reads: ReadSet::of(ids), decide: Box::new(move |_| Ok(changes.clone())), act }
}

pub(super) fn run(root: &Path, documents: usize) -> StoreResult<Committed> {
    commit_here(root, commit(documents, "new"))
}

pub(super) fn prepare(documents: usize) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for id in (1..=documents).map(item) {
        let path = folder.path().join(id.to_string());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "old").unwrap();
    }
    folder
}

pub(super) fn body(root: &Path, number: usize) -> String {
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

pub(super) fn open(root: &Path) -> FsStore {
    FsStore::open(&config(root)).unwrap()
}

const CHILD: &str = "REQLORE_TEST_DOUBT";

/// The process that dies: does nothing unless a parent asks for it.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test tells its child what to do")]
fn child_that_dies() {
    let Ok(order) = std::env::var(CHILD) else { return };
    let [root, step, times, what] = order.split('|').collect::<Vec<_>>()[..] else { return };
    let number = |text: &str| text.parse::<usize>().unwrap();
    let root = Path::new(root);
    match what {
        "user" => {
            plan(IDENTITY_STEPS[number(step)], number(times), Act::Abort);
            add(root, "ada").unwrap();
        }
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
pub(super) fn child(root: &Path, step: usize, times: usize, what: &str) -> bool {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tests::doubt::child_that_dies"])
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
    assert!(died >= 28 && old > 10 && taken >= 5, "{died} died, {old} old, {taken} taken back");
}

/// A server that goes on settles what another process left, without being opened again.
#[test]
fn who_writes_next_takes_back_what_a_killed_neighbour_left() {
    for step in [Step::RowSynced, Step::FolderSynced] {
        let folder = prepare(1);
        let root = folder.path();
        let at = STEPS.iter().position(|known| *known == step).unwrap();
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

// Notes are not synced: a power cut may lose them
#[test]
fn without_its_note_a_row_is_judged_by_the_documents() {
    for step in [Step::KeySynced, Step::RowSynced, Step::FolderSynced] {
        let folder = prepare(1);
        let root = folder.path();
        let at = STEPS.iter().position(|known| *known == step).unwrap();
        assert!(!child(root, at, 0, "1"));
        fs::remove_dir_all(root.join(PENDING)).unwrap();
        check(root, &open(root), 1, &format!("{step:?}"));
    }
}

/// `git checkout` after an acknowledged change takes nothing back.
#[test]
fn a_change_that_was_told_stays_told_when_somebody_undoes_it_by_hand() {
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
    pub(super) static EDITED: RefCell<PathBuf> = RefCell::default();
}

/// An editor saves in between, and the process dies while it takes its row back.
fn overtake(root: &Path) {
    EDITED.set(root.join(item(1).to_string()));
    plan(
        Step::RowSynced,
        0,
        Act::Run(|| {
            let path = EDITED.with_borrow(PathBuf::clone);
            fs::write(path.with_extension("swp"), "edited").unwrap();
            fs::rename(path.with_extension("swp"), &path).unwrap();
            plan(Step::Withdrawing, 0, Act::Abort);
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

const IDENTITY_STEPS: [Step; 8] = [
    Step::IdentitiesStaged,
    Step::SegmentBegun,
    Step::RowWritten,
    Step::RowSynced,
    Step::IdentitiesReplaced,
    Step::IdentitiesSynced,
    Step::Withdrawing,
    Step::Withdrawn,
];

/// Makes a user in this very thread.
fn add(root: &Path, name: &str) -> StoreResult<()> {
    let store = FsStore::new(&config(root));
    let project = ProjectKey::default();
    let taken = block_on(store.shared.turns.take(&project)).unwrap();
    let root = store.shared.open(&project).unwrap();
    let Turn::Locked(lock) = taken.lock_now(&root).unwrap() else { panic!("nobody else locks") };
    let name = UserName::parse(name).unwrap();
    let created_at = Timestamp::new(1, 0);
    let user = User { name, role: Role::User, created_at, disabled_at: None };
    let decide = Box::new(move |_: &[_], _: &[_]| Ok(vec![IdentityChange::User(user.clone())]));
    let commit = IdentityCommit { users: Vec::new(), tokens: Vec::new(), decide, act: audited() };
    store.shared.commit_identities(commit, &lock)
}

fn names(store: &FsStore) -> Vec<String> {
    let users = block_on(store.users()).unwrap();
    users.into_iter().map(|user| user.name.to_string()).collect()
}

// S5: 4.5
#[test]
fn after_any_death_a_user_has_one_row_and_a_row_without_its_user_is_taken_back() {
    let (mut died, mut taken) = (0, 0);
    for (step, first) in (0..IDENTITY_STEPS.len()).flat_map(|step| [(step, true), (step, false)]) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        if !first {
            add(root, "bob").unwrap();
        }
        let lived = child(root, step, 0, "user");
        let shown = format!("{:?} {first}", IDENTITY_STEPS[step]);
        died += usize::from(!lived);
        let store = open(root);
        let came = names(&store).contains(&"ada".to_owned());
        assert!(!lived || came, "{shown}");
        let found = told(&chain(&store));
        taken += found.1;
        assert_eq!(found.0, usize::from(came) + usize::from(!first), "{shown}");
        assert!(fs::metadata(root.join(".reqlore/local/identity.next")).is_err(), "{shown}");
        add(root, "ada").unwrap();
        assert_eq!(told(&chain(&store)).0, found.0 + 1, "{shown}");
    }
    assert!(died >= 9 && taken >= 2, "{died} died, {taken} taken back");
}

#[test]
fn a_user_that_could_not_be_written_is_not_there_and_its_row_is_taken_back() {
    for step in IDENTITY_STEPS {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        plan(step, 0, Act::Fail);
        let outcome = add(root, "ada");
        plan(STEPS[0], usize::MAX, Act::Fail);
        let store = FsStore::new(&config(root));
        let came = usize::from(names(&store) == ["ada"]);
        assert_eq!(told(&chain(&store)).0, came, "{step:?}");
        // What shows may not outlive a power cut; that is told as an error all the same.
        let unsure = step == Step::IdentitiesSynced;
        assert_eq!(outcome.is_ok() || unsure, came == 1, "{step:?}: {outcome:?}");
    }
}
