//! Audited commits that were interrupted, or during which an editor saved.

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
    self, KEY, Operation, audited, audited_changes, chain, commit_here, commit_to,
    plan_overtaking_save, run_and_die, with_key,
};
use super::{PROJECT, Project, commit, config, item};
use crate::failpoint::FailPoint;
use crate::failpoint::under_test::Act;
use crate::{Config, FsStore};

/// Writes one epic, with an audit row and an idempotency key.
fn operation() -> Operation {
    crash::operation("one audited")
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
fn next_writer_rolls_back_row_of_killed_process() {
    for step in [FailPoint::Prepared, FailPoint::FolderSynced] {
        let project = operation().prepare();
        let store = project.store();
        assert!(!run_and_die(&operation(), &project, step, 0));
        let other = commit(vec![DocumentChange::put(item(ItemKind::Epic, "EP-007"), "x")]);
        commit_here(&project.root, CommitRequest { context: audited(), ..other }).unwrap();
        let applied = usize::from(step == FailPoint::FolderSynced);
        assert_eq!(audited_changes(&chain(&store)), (1 + applied, 1 - applied), "{step:?}");
        assert_eq!(block_on(store.find_record(KEY)).unwrap().is_some(), applied == 1, "{step:?}");
    }
}

/// `git checkout` after an acknowledged change must not roll back its row.
#[test]
fn acknowledged_change_keeps_row_after_manual_revert() {
    let project = operation().prepare();
    operation().run(&project).unwrap();
    fs::write(project.file(&epic()), "old").unwrap();
    assert_eq!(audited_changes(&chain(&open(&project))), (1, 0));
}

#[test]
fn interrupted_rollback_is_finished_once() {
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
fn commit_with_failed_row_rollback_is_not_retried() {
    let project = operation().prepare();
    plan_overtaking_save(&project, Act::Fail);
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
fn pending_key_is_rejected_in_another_project() {
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
        let is_applied = body(&project) == "new";
        let again = block_on(store.commit(&PROJECT(), put("again")));
        assert_eq!(
            matches!(again, Err(StoreError::Repeated(_))),
            is_applied,
            "{step:?}: {again:?}"
        );
        let theirs = block_on(store.commit(&second(), put("theirs")));
        assert!(matches!(theirs, Err(StoreError::Repeated(_))), "{step:?}: {theirs:?}");
    }
}

#[test]
fn missing_project_folder_blocks_no_other_recovery() {
    let (project, other) = (operation().prepare(), operation().prepare());
    let mut config = two_projects(&project, &other);
    config.projects.insert(ProjectKey::new("first"), project.path("missing"));
    let store = FsStore::new(&config);
    plan_overtaking_save(&other, Act::Fail);
    commit_to(&store, &second(), with_key(commit(operation().changes()))).unwrap_err();
    assert_eq!(audited_changes(&chain(&store)), (1, 0));
    store.inner.recover_team();
    assert_eq!(audited_changes(&chain(&store)), (0, 1));
}
