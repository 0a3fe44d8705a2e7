//! What one commit leaves open, and what another one makes of it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use reqlore_contract::{act, run as block_on};
use reqlore_domain::ports::audit::AuditLog;
use reqlore_domain::ports::documents::{Commit, DocumentRepository, StoreError};
use reqlore_domain::ports::idempotency::IdempotencyKey;
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::project::ProjectKey;

use super::config;
use super::crash::commit_here;
use super::doubt::{
    EDITED, KEY, PENDING, STEPS, audited, body, chain, child, commit, item, open, prepare, run,
    told,
};
use crate::failpoint::Step;
use crate::failpoint::under_test::{Act, plan};
use crate::lock::Turn;
use crate::{Config, FsStore};

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
    for step in [Step::FolderSynced, Step::KeySynced] {
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

/// A note holds one commit; who forgets the one before judges its row by what others wrote since.
#[test]
fn a_row_that_was_told_stays_told_after_a_commit_without_a_row() {
    let folder = prepare(1);
    let root = folder.path();
    commit_here(root, Commit { act: audited(), ..commit(1, "new") }).unwrap();
    for body in ["newer", "old"] {
        let once = IdempotencyKey { key: format!("{KEY}{body}"), request: "r".to_owned() };
        let keyed = WriteContext { once: Some(once), ..act() };
        commit_here(root, Commit { act: keyed, ..commit(1, body) }).unwrap();
        assert_eq!(told(&chain(&open(root))), (1, 0), "{body}");
    }
}

/// An editor saves in between, and then the row can't be taken back.
fn overtake(root: &Path) {
    EDITED.set(root.join(item(1).to_string()));
    let overtake = || {
        let path = EDITED.with_borrow(PathBuf::clone);
        fs::write(path.with_extension("swp"), "edited").unwrap();
        fs::rename(path.with_extension("swp"), &path).unwrap();
        plan(Step::Withdrawing, 0, Act::Fail);
    };
    plan(Step::RowSynced, 0, Act::Run(overtake));
}

#[test]
fn a_commit_whose_row_could_not_be_taken_back_is_not_tried_again() {
    let folder = prepare(1);
    let root = folder.path();
    overtake(root);
    let done = run(root, 1);
    assert!(matches!(done, Err(StoreError::Unavailable { .. })), "{done:?}");
    assert_eq!(body(root, 1), "edited");
    assert_eq!(told(&chain(&open(root))), (0, 1));
}

// A recorder may have that many rows waiting
#[test]
fn a_row_is_judged_after_a_power_cut_however_many_refusals_came_behind_it() {
    let folder = prepare(1);
    let root = folder.path();
    assert!(!child(root, position(Step::RowSynced), 0, "1"));
    fs::remove_dir_all(root.join(PENDING)).unwrap();
    let refusals = (0..16_384).map(super::team::entry).collect();
    block_on(FsStore::new(&config(root)).record(refusals)).unwrap();
    assert_eq!(told(&chain(&open(root))), (0, 1));
}

#[test]
fn a_note_of_a_later_version_stays_and_one_that_is_torn_goes() {
    let folder = prepare(1);
    let root = folder.path();
    run(root, 1).unwrap();
    let note = fs::read_dir(root.join(PENDING)).unwrap().next().unwrap().unwrap().path();
    let ours = fs::read_to_string(&note).unwrap();
    let audited = |body| commit_here(root, Commit { act: audited(), ..commit(1, body) });
    let later = ours.replace("pending 1", "pending 2").replace("state", "stage");
    fs::write(&note, &later).unwrap();
    let told = audited("newer").unwrap_err().to_string();
    assert!(told.contains("update Reqlore") && body(root, 1) == "new", "{told}");
    assert_eq!(fs::read_to_string(&note).unwrap(), later);
    fs::write(&note, &ours[..100]).unwrap();
    audited("newer").unwrap();
    assert_eq!(body(root, 1), "newer");
}

#[test]
fn a_project_whose_folder_is_gone_holds_no_other_one_up() {
    let (folder, other) = (prepare(1), prepare(1));
    let mut config = two_projects(folder.path(), other.path());
    config.projects.insert(ProjectKey::new("first"), folder.path().join("gone"));
    let store = FsStore::new(&config);
    let taken = block_on(store.shared.turns.take(&second())).unwrap();
    let root = store.shared.open(&second()).unwrap();
    let Turn::Locked(lock) = taken.lock_now(&root).unwrap() else { panic!("nobody else locks") };
    overtake(other.path());
    crate::commit::run(&store.shared, &second(), &root, commit(1, "new"), &lock).unwrap_err();
    drop(lock);
    assert_eq!(told(&chain(&store)), (1, 0));
    store.shared.settle_team();
    assert_eq!(told(&chain(&store)), (0, 1));
}
