//! Steps at which a file has two names, and the files that a killed process leaves.

use std::fs;
use std::path::PathBuf;

use reqlore_domain::document::DocumentId;
use reqlore_domain::ports::documents::DocumentChange;
use reqlore_durable_fs::folder::LOCKS_ARE_FILES;

use super::crash::{commit_to, has_journal, lock_root, operation, run_and_die, temp_files};
use super::{DIRECTORY, LOCAL, PROJECT, Project, commit, config};
use crate::FsStore;
use crate::failpoint::FailPoint;
use crate::failpoint::under_test::{Act, EXCHANGES, plan};

/// The steps at which a file has two names, on file systems without an exchange.
pub(super) const STEPS_OF_TWO_NAMES: [FailPoint; 3] =
    [FailPoint::Linked, FailPoint::Replaced, FailPoint::LinkedToFree];

#[test]
fn second_name_of_killed_process_blocks_no_later_write() {
    for name in ["create", "replace", "delete", "create three, replace one"] {
        for step in STEPS_OF_TWO_NAMES {
            let operation = operation(name);
            let project = operation.prepare();
            // Runs all the time, so it does not clean up as a new process does.
            let store = project.store();
            if run_and_die(&operation, &project, step, 0) {
                continue;
            }
            if has_journal(&project) {
                assert_eq!(operation.read_by_new_process(&project), operation.after());
            }
            commit_to(&store, &PROJECT(), commit(operation.changes())).unwrap();
            assert_eq!(operation.on_disk(&project), operation.after(), "{name}: {step:?}");
            assert_eq!(temp_files(&project), [] as [PathBuf; 0], "{name}: {step:?}");
        }
    }
}

#[test]
pub(super) fn exchange_that_stops_between_its_steps_is_undone() {
    EXCHANGES.set(false);
    let operation = operation("replace");
    for step in [FailPoint::Linked, FailPoint::Replaced] {
        for times in 0..2 {
            let project = operation.prepare();
            plan(step, times, Act::Fail);
            let error = operation.run(&project).unwrap_err().to_string();
            assert!(error.contains("Nothing was written"), "{step:?}: {error}");
            assert_eq!(operation.on_disk(&project), operation.before(), "{step:?} x{times}");
            assert_eq!(temp_files(&project), [] as [PathBuf; 0], "{step:?} x{times}");
        }
    }
}

#[test]
fn name_that_cannot_be_removed_is_no_half_commit() {
    EXCHANGES.set(false);
    for (name, is_committed) in [("create", true), ("delete", false)] {
        let operation = operation(name);
        let project = operation.prepare();
        plan(FailPoint::LinkedToFree, 0, Act::Fail);
        let outcome = operation.run(&project);
        assert_eq!(outcome.is_ok(), is_committed, "{name}: {outcome:?}");
        let expected = if is_committed { operation.after() } else { operation.before() };
        assert_eq!(operation.on_disk(&project), expected, "{name}");
        assert_eq!(temp_files(&project), [] as [PathBuf; 0], "{name}");
    }
}

#[test]
fn files_of_killed_deletion_are_removed_by_any_next_write() {
    let deletion = operation("delete two, create one");
    let prepare = || {
        let project = deletion.prepare();
        // Another process that runs all the time, and has searched the folders before.
        let store = project.store();
        let entity = |body| commit(vec![DocumentChange::put(DocumentId::entity("a"), body)]);
        commit_to(&store, &PROJECT(), entity("one")).unwrap();
        commit_to(&store, &PROJECT(), entity("two")).unwrap();
        // Without it, the files are staged next to their targets.
        fs::remove_dir_all(project.path(LOCAL)).unwrap();
        assert!(!run_and_die(&deletion, &project, FailPoint::TempSynced, 0));
        // In a subfolder, next to files that are not ours.
        let nested = project.path(".reqlore/backlog/requirements/auth/deep");
        fs::create_dir_all(nested.join(".reqlore-00112233445566aa.tmp")).unwrap();
        fs::create_dir_all(project.path(DIRECTORY)).unwrap();
        fs::write(nested.join(".reqlore-0123456789abcdef.tmp"), "").unwrap();
        fs::write(nested.join(".reqlore-0123456789abcdef.kept"), "").unwrap();
        fs::write(nested.join(".reqlore-mine.tmp"), "").unwrap();
        fs::write(project.path(DIRECTORY).join(".reqlore-0123456789abcdef.tmp"), "").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink("x", nested.join(".reqlore-0123456789abcdee.tmp")).unwrap();
        let stale = temp_files(&project);
        // A lock that is a file needs the local state directory, so that is used again.
        let folder = if LOCKS_ARE_FILES { "local" } else { "deleted" };
        assert!(stale.iter().any(|path| path.parent().unwrap().ends_with(folder)), "{stale:?}");
        (project, store, entity("three"))
    };
    let check = |project: &Project| {
        let remaining = temp_files(project).into_iter().filter(|path| !path.is_dir());
        let names: Vec<_> = remaining.map(|path| path.file_name().unwrap().to_owned()).collect();
        // On Windows no link was created, and only a write to the requirements directory cleans it.
        let expected = if LOCKS_ARE_FILES {
            [".reqlore-mine.tmp", ".reqlore-0123456789abcdef.tmp"]
        } else {
            [".reqlore-0123456789abcdee.tmp", ".reqlore-mine.tmp"]
        };
        assert_eq!(names, expected);
        let folder = ".reqlore/backlog/requirements/auth/deep/.reqlore-00112233445566aa.tmp";
        assert!(project.path(folder).is_dir());
        assert!(
            project.has(".reqlore/backlog/requirements/auth/deep/.reqlore-0123456789abcdef.kept")
        );
    };
    let (project, store, entity) = prepare();
    commit_to(&store, &PROJECT(), entity).unwrap();
    check(&project);
    let (project, ..) = prepare();
    FsStore::open(&config(&project.root)).unwrap();
    check(&project);
    // The files of a running writer are not stale.
    let (project, ..) = prepare();
    let before = temp_files(&project);
    let _lock = lock_root(&project);
    FsStore::open(&config(&project.root)).unwrap();
    assert_eq!(temp_files(&project), before);
}
