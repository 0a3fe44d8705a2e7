//! Journals that are damaged, copied, forged or blocked, and a `.reqlore/local` that came with a
//! repository.

use std::fs;
#[cfg(unix)]
use std::os::unix::fs::symlink;
use std::path::Path;

use reqlore_contract::run as block_on;
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::{DocumentId, DocumentKind};
use reqlore_domain::ports::archive::Archive;
use reqlore_domain::ports::documents::{DocumentChange, DocumentRepository, StoreError};

use super::crash::{self, Operation, commit_here, has_journal, lock_root, save};
#[cfg(unix)]
use super::make_pipe;
use super::{LOCAL, PROJECT, Project, check_refused, commit, config, get, item, names, put};
use crate::FsStore;
use crate::failpoint::FailPoint;
use crate::failpoint::under_test::{Act, clear_plan, plan};
use crate::folder_names::RequirementsLayout;
use crate::journal;
use crate::layout::{ProjectRoot, ProjectTree};
use crate::lock::PROJECT_LOCK_FILE;
use crate::stage_and_swap::LoadedDocument;

const JOURNAL: &str = ".reqlore/local/journal";
const SET_ASIDE: &str = ".reqlore/local/journal.damaged";
const STORIES: &str = ".reqlore/backlog/stories";

/// Deletes two requirements and replaces a story.
fn operation() -> Operation {
    crash::operation("delete two, replace one")
}

fn story(name: &str) -> DocumentId {
    item(ItemKind::UserStory, name)
}

fn puts(ids: &[DocumentId]) -> Vec<DocumentChange> {
    ids.iter().map(|id| DocumentChange::put(id.clone(), "new")).collect()
}

/// Writes the journal of a process that was killed right before the first exchange.
fn interrupt(project: &Project, changes: &[DocumentChange]) {
    let root = ProjectRoot::open(&project.root).unwrap();
    let layout = RequirementsLayout::new(None);
    let tree = ProjectTree::new(&root, &layout);
    let found = |id: &DocumentId| LoadedDocument::read(&tree, id).ok().flatten();
    let base = changes.iter().map(|change| (change.id().clone(), found(change.id()))).collect();
    journal::write(&root, &base, changes).unwrap();
}

/// An interrupted operation and its project.
fn interrupted() -> (Operation, Project) {
    let operation = operation();
    let project = operation.prepare();
    interrupt(&project, &operation.changes());
    (operation, project)
}

fn texts(bodies: [Option<&str>; 3]) -> Vec<Option<String>> {
    bodies.map(|body| body.map(str::to_owned)).to_vec()
}

#[test]
fn single_document_commit_writes_no_journal() {
    let epic = |name| item(ItemKind::Epic, name);
    let project = Project::new();
    for changes in [
        vec![DocumentChange::put(epic("EP-001"), "x")],
        vec![
            DocumentChange::put(DocumentId::section("a"), "x"),
            DocumentChange::put(DocumentId::instructions(), "x"),
        ],
        vec![
            DocumentChange::put(epic("EP-002"), "x"),
            DocumentChange::Delete { id: epic("EP-404") },
        ],
    ] {
        plan(FailPoint::JournalBegun, 0, Act::Fail);
        commit_here(&project.root, commit(changes)).unwrap();
    }
    clear_plan();
}

#[test]
fn recovery_skips_documents_edited_since() {
    let (operation, project) = interrupted();
    let [one, two, ..] = &operation.changes()[..] else { panic!() };
    fs::write(project.file(one.id()), "by hand").unwrap();
    assert_eq!(
        operation.read_by_new_process(&project),
        texts([Some("by hand"), None, Some("new")])
    );
    assert!(!has_journal(&project));
    // The same for a document that has its new state already, or can't be written.
    let (operation, project) = interrupted();
    fs::hard_link(project.file(two.id()), project.path("twin")).unwrap();
    fs::remove_file(project.file(one.id())).unwrap();
    assert_eq!(operation.read_by_new_process(&project), texts([None, Some("two"), Some("new")]));
    assert!(!has_journal(&project));
}

#[test]
fn damaged_journal_is_kept_unapplied() {
    let operation = operation();
    let project = operation.prepare();
    let journal = project.path(JOURNAL);
    // Overwrites the same file each time, because a copy is never valid.
    let write_damaged = |damage: &dyn Fn(&mut Vec<u8>)| {
        let _ = fs::remove_file(&journal);
        interrupt(&project, &operation.changes());
        let mut bytes = fs::read(&journal).unwrap();
        damage(&mut bytes);
        fs::write(&journal, &bytes).unwrap();
        bytes.len()
    };
    let complete = write_damaged(&|_| ());
    for length in (0..complete).step_by(3) {
        write_damaged(&|bytes| bytes.truncate(length));
        assert_eq!(operation.read_by_new_process(&project), operation.before(), "{length} bytes");
        assert!(!has_journal(&project), "{length} bytes");
    }
    for at in (0..complete).step_by(3) {
        write_damaged(&|bytes| bytes[at] ^= 0x20);
        assert_eq!(operation.read_by_new_process(&project), operation.before(), "byte {at}");
        // The damage of the first line makes it another program's file, which stays.
        assert!(has_journal(&project) || project.has(SET_ASIDE), "byte {at}");
        let _ = fs::remove_file(project.path(SET_ASIDE));
    }
    write_damaged(&|_| ());
    assert_eq!(operation.read_by_new_process(&project), operation.after());
}

#[test]
fn copied_journal_is_removed_unapplied() {
    let (operation, original) = interrupted();
    let project = operation.prepare();
    fs::create_dir_all(project.path(LOCAL)).unwrap();
    let copy = || fs::copy(original.path(JOURNAL), project.path(JOURNAL)).unwrap();
    copy();
    assert_eq!(operation.read_by_new_process(&project), operation.before());
    assert!(!has_journal(&project));
    copy();
    let other = DocumentChange::put(item(ItemKind::Epic, "EP-001"), "x");
    commit_here(&project.root, commit(vec![other])).unwrap();
    assert_eq!(operation.on_disk(&project), operation.before());
    // The project's own journal is applied, even after the project was moved.
    let moved = Project::new();
    fs::remove_dir(&moved.root).unwrap();
    fs::rename(&original.root, &moved.root).unwrap();
    assert_eq!(operation.read_by_new_process(&moved), operation.after());
}

#[cfg(unix)]
#[test]
fn forged_journal_writes_nothing_outside_its_folders() {
    let project = Project::new();
    let secret = project.outside.path().join("secret.md");
    fs::write(&secret, "secret").unwrap();
    fs::create_dir_all(project.path(".reqlore/backlog")).unwrap();
    symlink("../../..", project.path(".reqlore/backlog/epics")).unwrap();
    for id in [
        item(ItemKind::Epic, "secret"),
        story("../../../../secret"),
        DocumentId::entity("../../secret"),
        DocumentId::section("../../../../secret"),
    ] {
        interrupt(&project, &puts(std::slice::from_ref(&id)));
        FsStore::open(&config(&project.root)).unwrap();
        assert!(!has_journal(&project), "{id}");
        assert_eq!(fs::read_to_string(&secret).unwrap(), "secret", "{id}");
    }
    assert_eq!(names(project.outside.path()), ["repo", "secret.md"]);
}

#[cfg(unix)]
#[test]
fn foreign_file_named_journal_is_left_alone() {
    let make: [fn(&Path); 4] = [
        |path| symlink("../../../secret.md", path).unwrap(),
        |path| fs::create_dir(path).unwrap(),
        |path| make_pipe(path),
        |path| fs::write(path, "Dear diary\n").unwrap(),
    ];
    for make in make {
        let project = Project::new();
        let secret = project.outside.path().join("secret.md");
        fs::write(&secret, "secret").unwrap();
        fs::create_dir_all(project.path(LOCAL)).unwrap();
        let journal = project.path(JOURNAL);
        make(&journal);
        let kind = journal.symlink_metadata().unwrap().file_type();
        let store = project.store();
        assert_eq!(block_on(get(&store, &story("US-001"))).unwrap(), None);
        block_on(put(&store, &story("US-001"), "x")).unwrap();
        let two = puts(&[story("US-002"), story("US-003")]);
        let refused = commit_here(&project.root, commit(two.clone()));
        check_refused(refused, JOURNAL, "move it away");
        assert_eq!(journal.symlink_metadata().unwrap().file_type(), kind);
        assert_eq!(fs::read_to_string(&secret).unwrap(), "secret");
        let _ = fs::remove_file(&journal).or_else(|_| fs::remove_dir(&journal));
        commit_here(&project.root, commit(two)).unwrap();
    }
}

#[test]
fn journal_of_running_process_is_left_to_it() {
    let operation = operation();
    let project = operation.prepare();
    let lock = lock_root(&project);
    interrupt(&project, &operation.changes());
    assert_eq!(
        operation.read_by_new_process(&project),
        operation.before(),
        "a reader does not wait"
    );
    assert!(has_journal(&project));
    drop(lock);
    assert_eq!(operation.read_by_new_process(&project), operation.after());
}

/// A reader checks for a journal before it relies on inotify.
#[tokio::test]
async fn open_reader_recovers_a_journal() {
    let operation = operation();
    let project = operation.prepare();
    let store = project.store();
    let words = ["REQ-002".to_owned()];
    let kind = DocumentKind::Item(ItemKind::Requirement);
    let found = || async { store.lookup(&PROJECT(), kind, &words).await.unwrap() };
    assert_eq!(found().await[0].len(), 1);
    interrupt(&project, &operation.changes());
    assert_eq!(found().await[0].len(), 0);
}

#[cfg(unix)]
#[tokio::test]
async fn local_state_dir_link_is_not_followed() {
    for (link, target, linked_dir) in
        [(LOCAL, "../notes", "notes"), (".reqlore", "notes", "notes/local")]
    {
        let project = Project::new();
        let (store, linked_dir) = (project.store(), project.path(linked_dir));
        fs::create_dir_all(&linked_dir).unwrap();
        let backlog = if link == LOCAL { ".reqlore/backlog" } else { "notes/backlog" };
        fs::create_dir_all(project.path(backlog)).unwrap();
        symlink(target, project.path(link)).unwrap();
        fs::write(linked_dir.join("journal"), "Dear diary\n").unwrap();
        fs::write(linked_dir.join("incomplete"), "a list\n").unwrap();
        assert_eq!(get(&store, &story("US-001")).await.unwrap(), None, "{link}");
        FsStore::open(&config(&project.root)).unwrap();
        put(&store, &story("US-001"), "new").await.unwrap();
        let two = commit(puts(&[story("US-002"), story("US-003")]));
        check_refused(store.commit(&PROJECT(), two).await, link, "remove it");
        fs::remove_dir_all(project.path(backlog)).unwrap();
        check_refused(store.import().await.map(drop), link, "remove it");
        assert_eq!(names(&linked_dir), ["incomplete", "journal"], "{link}");
    }
}

#[tokio::test]
async fn recovery_skips_entries_that_can_never_be_written() {
    let project = Project::new();
    project.write(".ixchel", "a file where a folder must be");
    interrupt(&project, &puts(&[DocumentId::entity("a"), story("US-001")]));
    put(&project.store(), &story("US-002"), "new").await.unwrap();
    assert_eq!(names(project.path(STORIES)), ["US-001.md", "US-002.md"]);
    assert!(!has_journal(&project));
    // A name that is too long for any file system.
    fs::remove_file(project.path(".ixchel")).unwrap();
    interrupt(&project, &puts(&[DocumentId::entity("x".repeat(300)), story("US-003")]));
    put(&project.store(), &story("US-004"), "new").await.unwrap();
    assert!(!has_journal(&project));
}

#[test]
fn failed_recovery_keeps_journal_and_names_remedy() {
    let project = Project::new();
    interrupt(&project, &puts(&[story("US-001"), story("US-002")]));
    plan(FailPoint::TempCreated, 0, Act::Fail);
    let inner = project.store().inner;
    let lock = inner.locks.try_lock(&PROJECT(), &project.root).unwrap().unwrap();
    let recover = || journal::recover(&inner.layout, &lock);
    let error = recover().unwrap_err().to_string();
    assert!(error.contains("failpoint") && error.contains(&format!("remove {JOURNAL}")), "{error}");
    // Without the lock, which is a file on Windows.
    let local_files = || {
        let mut files = names(project.path(LOCAL));
        files.retain(|name| name != PROJECT_LOCK_FILE);
        files
    };
    assert_eq!(local_files(), [".gitignore", "journal"]);
    recover().unwrap();
    assert_eq!(names(project.path(STORIES)), ["US-001.md", "US-002.md"]);
    assert_eq!(local_files(), [".gitignore"]);
}

#[test]
fn failed_rollback_keeps_journal() {
    for step in [FailPoint::FolderSynced, FailPoint::PuttingBack] {
        let project = Project::new();
        let ids = [story("US-001"), story("US-002")];
        let [one, two] = ids.each_ref().map(|id| project.file(id));
        project.write(&one, "old");
        project.write(&two, "old");
        let edited = two.clone();
        let edit_and_fail = move || {
            save(&edited);
            plan(step, 0, Act::Fail);
        };
        plan(FailPoint::Exchanged, 1, Act::Run(Box::new(edit_and_fail)));
        let error = commit_here(&project.root, commit(puts(&ids))).unwrap_err();
        assert!(matches!(error, StoreError::Unavailable { .. }), "{step:?}: {error:?}");
        assert!(
            error.to_string().contains("The next call finishes the commit"),
            "{step:?}: {error}"
        );
        assert!(has_journal(&project), "{step:?}");
        assert!(block_on(get(&project.store(), &ids[0])).unwrap().is_some());
        assert_eq!(fs::read_to_string(&one).unwrap(), "new", "{step:?}");
        assert_eq!(fs::read_to_string(&two).unwrap(), "edited", "{step:?}");
        assert!(!has_journal(&project), "{step:?}");
    }
}

#[test]
fn damaged_journal_of_half_done_commit_keeps_its_texts() {
    let operation = crash::operation("create three, replace one");
    let project = operation.prepare();
    assert!(!crash::run_and_die(&operation, &project, FailPoint::Exchanged, 1));
    let mut bytes = fs::read(project.path(JOURNAL)).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(project.path(JOURNAL), &bytes).unwrap();
    let half_done = operation.on_disk(&project);
    // A folder with the name must not block writes.
    fs::create_dir(project.path(SET_ASIDE)).unwrap();
    for is_blocked in [true, false] {
        assert_eq!(operation.read_by_new_process(&project), half_done);
        assert!(!has_journal(&project));
        if is_blocked {
            fs::remove_dir(project.path(SET_ASIDE)).unwrap();
            fs::write(project.path(JOURNAL), &bytes).unwrap();
        }
    }
    assert_eq!(fs::read(project.path(SET_ASIDE)).unwrap(), bytes);
}
