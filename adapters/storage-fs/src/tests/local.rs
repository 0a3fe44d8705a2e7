//! `.reqlore/local` as a repository may bring it along: links, and files that only look like ours.

use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use reqlore_contract::act;
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::{DocumentId, Kind};
use reqlore_domain::ports::archive::Archive;
use reqlore_domain::ports::documents::{
    Change, Commit, DocumentRepository, ReadSet, StoreError, StoreResult,
};
use reqlore_domain::project::ProjectKey;
use tempfile::TempDir;

use super::config;
use super::crash::commit_here;
use crate::FsStore;
use crate::failpoint::Step;
use crate::failpoint::under_test::{Act, plan};
use crate::journal;
use crate::layout::{Layout, Root};
use crate::lock::{Turn, Turns};

const PROJECT: fn() -> ProjectKey = ProjectKey::default;
const LOCAL: &str = ".reqlore/local";

fn story(name: &str) -> DocumentId {
    DocumentId { kind: Kind::Item(ItemKind::UserStory), name: name.to_owned() }
}

fn project() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join(".reqlore/backlog")).unwrap();
    folder
}

fn commit(ids: &[DocumentId]) -> Commit {
    let changes: Vec<Change> = ids.iter().map(|id| Change::put(id.clone(), "new")).collect();
    let reads = ReadSet::of(ids.to_vec());
    Commit { reads, decide: Box::new(move |_| Ok(changes.clone())), act: act() }
}

async fn put(root: &Path, ids: &[DocumentId]) -> StoreResult<()> {
    FsStore::new(&config(root)).commit(&PROJECT(), commit(ids)).await.map(drop)
}

async fn read(root: &Path, id: &DocumentId) -> bool {
    let store = FsStore::new(&config(root));
    store.get(&PROJECT(), std::slice::from_ref(id)).await.unwrap()[0].is_some()
}

/// The names in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn has_journal(root: &Path) -> bool {
    root.join(LOCAL).join("journal").symlink_metadata().is_ok()
}

#[tokio::test]
async fn behind_a_link_nothing_of_a_users_is_taken_for_ours() {
    for (link, target, theirs) in
        [(LOCAL, "../notes", "notes"), (".reqlore", "notes", "notes/local")]
    {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let theirs = root.join(theirs);
        fs::create_dir_all(&theirs).unwrap();
        let backlog = if link == LOCAL { ".reqlore/backlog" } else { "notes/backlog" };
        fs::create_dir_all(root.join(backlog)).unwrap();
        symlink(target, root.join(link)).unwrap();
        fs::write(theirs.join("journal"), "Dear diary\n").unwrap();
        fs::write(theirs.join("incomplete"), "a list\n").unwrap();
        assert!(!read(root, &story("US-001")).await, "{link}");
        FsStore::open(&config(root)).unwrap();
        put(root, &[story("US-001")]).await.unwrap();
        let refused = put(root, &[story("US-002"), story("US-003")]).await;
        let Err(StoreError::Refused { place, reason }) = refused else { panic!("{refused:?}") };
        assert_eq!(place, link, "{reason}");
        assert!(reason.contains("remove it"), "{reason}");
        assert_eq!(names(&theirs), ["incomplete", "journal"], "{link}");
        fs::remove_dir_all(root.join(backlog)).unwrap();
        let refused = FsStore::new(&config(root)).fill().await.err();
        assert!(matches!(refused, Some(StoreError::Refused { .. })), "{link}: {refused:?}");
        assert_eq!(names(&theirs), ["incomplete", "journal"], "{link}");
    }
}

/// Leaves what a process leaves that dies right before the first exchange.
fn interrupt(root: &Path, ids: &[DocumentId]) {
    let root = Root::open(&root.canonicalize().unwrap()).unwrap();
    let base = ids.iter().map(|id| (id.clone(), None)).collect();
    let changes: Vec<Change> = ids.iter().map(|id| Change::put(id.clone(), "new")).collect();
    journal::write(&root, &base, &changes).unwrap();
}

#[tokio::test]
async fn what_a_journal_can_never_write_is_left_and_the_rest_is_written() {
    let folder = project();
    let root = folder.path();
    fs::write(root.join(".ixchel"), "a file where a folder must be").unwrap();
    interrupt(root, &[DocumentId::entity("a"), story("US-001")]);
    put(root, &[story("US-002")]).await.unwrap();
    assert_eq!(names(&root.join(".reqlore/backlog/stories")), ["US-001.md", "US-002.md"]);
    assert!(!has_journal(root));
    // No journal comes to hold a name that no folder can hold.
    fs::remove_file(root.join(".ixchel")).unwrap();
    interrupt(root, &[DocumentId::entity("x".repeat(300)), story("US-003")]);
    put(root, &[story("US-004")]).await.unwrap();
    assert!(!has_journal(root));
}

#[test]
fn a_journal_that_waits_for_something_says_what_blocks_and_the_way_out() {
    let folder = project();
    let root = folder.path();
    interrupt(root, &[story("US-001"), story("US-002")]);
    plan(Step::TempCreated, 0, Act::Fail);
    let opened = Root::open(&root.canonicalize().unwrap()).unwrap();
    let turns = Turns::default();
    let taken = turns.take_now(&PROJECT()).unwrap();
    let Turn::Locked(lock) = taken.lock_now(&opened).unwrap() else { panic!("it is free") };
    let settle = || journal::settle(&Layout::new(None), &opened, &lock);
    let told = settle().unwrap_err().to_string();
    assert!(told.contains("failpoint") && told.contains("remove .reqlore/local/journal"), "{told}");
    assert_eq!(names(&root.join(LOCAL)), [".gitignore", "journal"]);
    settle().unwrap();
    assert_eq!(names(&root.join(".reqlore/backlog/stories")), ["US-001.md", "US-002.md"]);
    assert_eq!(names(&root.join(LOCAL)), [".gitignore"]);
}

thread_local! {
    static EDITED: RefCell<PathBuf> = RefCell::default();
}

/// An editor saves one of the documents, and then a step fails.
fn edit_and_fail(step: Step) {
    let path = EDITED.with_borrow(PathBuf::clone);
    fs::write(path.with_extension("swp"), "edited").unwrap();
    fs::rename(path.with_extension("swp"), &path).unwrap();
    plan(step, 0, Act::Fail);
}

#[test]
fn the_journal_of_a_commit_that_was_not_put_back_durably_is_kept() {
    let acts: [fn(); 2] =
        [|| edit_and_fail(Step::FolderSynced), || edit_and_fail(Step::PuttingBack)];
    for (which, act) in acts.into_iter().enumerate() {
        let folder = project();
        let root = folder.path();
        let ids = [story("US-001"), story("US-002")];
        let [one, two] = ids.each_ref().map(|id| root.join(id.to_string()));
        fs::create_dir_all(one.parent().unwrap()).unwrap();
        fs::write(&one, "old").unwrap();
        fs::write(&two, "old").unwrap();
        EDITED.set(two.clone());
        plan(Step::Exchanged, 1, Act::Run(act));
        let told = commit_here(root, commit(&ids)).unwrap_err().to_string();
        assert!(told.contains("read again"), "{which}: {told}");
        assert!(has_journal(root), "{which}");
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert!(runtime.block_on(read(root, &ids[0])));
        assert_eq!(fs::read_to_string(one).unwrap(), "new", "{which}");
        assert_eq!(fs::read_to_string(two).unwrap(), "edited", "{which}");
        assert!(!has_journal(root), "{which}");
    }
}

#[tokio::test]
async fn a_file_that_is_no_journal_is_never_removed() {
    let folder = project();
    let root = folder.path();
    fs::create_dir_all(root.join(LOCAL)).unwrap();
    let journal = root.join(LOCAL).join("journal");
    fs::write(&journal, "Dear diary\n").unwrap();
    assert!(!read(root, &story("US-001")).await);
    put(root, &[story("US-001")]).await.unwrap();
    let refused = put(root, &[story("US-002"), story("US-003")]).await.unwrap_err().to_string();
    assert!(refused.contains(".reqlore/local/journal") && refused.contains("move"), "{refused}");
    assert_eq!(fs::read_to_string(&journal).unwrap(), "Dear diary\n");
    fs::remove_file(&journal).unwrap();
    put(root, &[story("US-002"), story("US-003")]).await.unwrap();
}
