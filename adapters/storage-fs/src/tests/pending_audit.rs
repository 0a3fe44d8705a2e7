//! Audited commits that another process left unfinished, or that an editor overtook.

use std::collections::BTreeMap;
use std::fs;

use reqlore_contract::run as block_on;
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::DocumentId;
use reqlore_domain::ports::documents::{
    CommitRequest, DocumentChange, DocumentRepository, StoreError,
};
use reqlore_domain::ports::idempotency::IdempotencyStore;
use reqlore_domain::project_key::ProjectKey;

use super::crash::{
    KEY, Operation, audited, audited_changes, chain, commit_here, commit_to, operations, overtake,
    run_and_die, with_key,
};
use super::{PROJECT, Project, commit, config, item};
use crate::failpoint::FailPoint;
use crate::failpoint::under_test::Act;
use crate::{Config, FsStore};

/// One epic, with a row and under a key.
fn operation() -> Operation {
    operations().swap_remove(5)
}

fn epic() -> DocumentId {
    item(ItemKind::Epic, "EP-001")
}

fn body(project: &Project) -> String {
    fs::read_to_string(project.file(&epic())).unwrap()
}

fn open(project: &Project) -> FsStore {
    FsStore::open(&config(&project.root)).unwrap()
}

#[test]
fn the_next_writer_rolls_back_the_row_of_a_killed_process() {
    for step in [FailPoint::Prepared, FailPoint::FolderSynced] {
        let project = operation().prepare();
        let store = project.store();
        assert!(!run_and_die(&operation(), &project, step, 0));
        let other = commit(vec![DocumentChange::put(item(ItemKind::Epic, "EP-007"), "x")]);
        commit_here(&project.root, CommitRequest { context: audited(), ..other }).unwrap();
        let made = usize::from(step == FailPoint::FolderSynced);
        assert_eq!(audited_changes(&chain(&store)), (1 + made, 1 - made), "{step:?}");
        assert_eq!(block_on(store.find_record(KEY)).unwrap().is_some(), made == 1, "{step:?}");
    }
}

/// `git checkout` after an acknowledged change rolls nothing back.
#[test]
fn an_acknowledged_change_keeps_its_row_when_a_user_reverts_it() {
    let project = operation().prepare();
    operation().run(&project).unwrap();
    fs::write(project.file(&epic()), "old").unwrap();
    assert_eq!(audited_changes(&chain(&open(&project))), (1, 0));
}

#[test]
fn a_roll_back_that_was_interrupted_is_done_by_the_next_process_once() {
    let project = operation().prepare();
    assert!(!run_and_die(&operation(), &project, FailPoint::RollingBack, 0));
    assert_eq!(body(&project), "edited");
    let store = open(&project);
    assert_eq!(audited_changes(&chain(&store)), (0, 1));
    drop(open(&project));
    assert_eq!(audited_changes(&chain(&store)), (0, 1), "once");
    assert!(block_on(store.find_record(KEY)).unwrap().is_none());
}

#[test]
fn a_commit_whose_row_could_not_be_rolled_back_is_not_tried_again() {
    let project = operation().prepare();
    overtake(&project, Act::Fail);
    let outcome = operation().run(&project);
    assert!(matches!(outcome, Err(StoreError::Unavailable { .. })), "{outcome:?}");
    assert_eq!(body(&project), "edited");
    assert_eq!(audited_changes(&chain(&open(&project))), (0, 1));
}

fn second() -> ProjectKey {
    ProjectKey::new("second")
}

fn two_projects(project: &Project, other: &Project) -> Config {
    let projects = BTreeMap::from([(second(), other.root.clone())]);
    Config { projects, ..config(&project.root) }
}

#[test]
fn a_key_that_is_pending_in_one_project_is_refused_in_another() {
    let put = |body| with_key(commit(vec![DocumentChange::put(epic(), body)]));
    for step in [FailPoint::FolderSynced, FailPoint::Prepared] {
        let (project, other) = (operation().prepare(), operation().prepare());
        let store = FsStore::new(&two_projects(&project, &other));
        assert!(!run_and_die(&operation(), &project, step, 0));
        for _ in 0..2 {
            let busy = block_on(store.commit(&second(), put("theirs")));
            assert!(matches!(busy, Err(StoreError::Busy { .. })), "{step:?}: {busy:?}");
            assert_eq!(body(&other), "old", "{step:?}");
        }
        let made = body(&project) == "new";
        let again = block_on(store.commit(&PROJECT(), put("again")));
        assert_eq!(matches!(again, Err(StoreError::Repeated(_))), made, "{step:?}: {again:?}");
        let theirs = block_on(store.commit(&second(), put("theirs")));
        assert!(matches!(theirs, Err(StoreError::Repeated(_))), "{step:?}: {theirs:?}");
    }
}

#[test]
fn a_project_whose_folder_is_missing_does_not_block_the_others() {
    let (project, other) = (operation().prepare(), operation().prepare());
    let mut config = two_projects(&project, &other);
    config.projects.insert(ProjectKey::new("first"), project.path("missing"));
    let store = FsStore::new(&config);
    overtake(&other, Act::Fail);
    commit_to(&store, &second(), with_key(commit(operation().changes()))).unwrap_err();
    assert_eq!(audited_changes(&chain(&store)), (1, 0));
    store.inner.recover_team();
    assert_eq!(audited_changes(&chain(&store)), (0, 1));
}
