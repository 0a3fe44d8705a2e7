//! What the watch can't vouch for is found by looking; and what was not looked at is not believed.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reqlore_domain::document::{DocumentId, DocumentMeta, Kind};
use reqlore_domain::ports::documents::{Change, Changes, Revision, StoreResult};
use reqlore_domain::project::ProjectKey;
use reqlore_domain::time::Timestamp;
use tempfile::TempDir;

use super::config;
use crate::failpoint::Step;
use crate::failpoint::under_test::{Act, plan};
use crate::layout::{Area, Layout, Root, Tree};
use crate::shared::locked;
use crate::watch::Watch;
use crate::{Config, FsStore, read};

/// A repository whose history has begun, on this thread, where steps can fail.
struct Repository {
    top: TempDir,
    store: FsStore,
    since: Revision,
}

impl Repository {
    fn new(files: &[&str]) -> Self {
        let top = tempfile::tempdir().unwrap();
        let root = top.path().join("repo");
        for file in files {
            write(&root.join(".ixchel").join(file), "# Old");
        }
        let config = Config { cache: Some(top.path().join("cache")), ..config(&root) };
        let mut new = Self { store: FsStore::new(&config), since: Revision(0), top };
        assert!(matches!(new.changes(false), Ok(Changes::Reset { .. })));
        new
    }

    fn file(&self, path: &str) -> PathBuf {
        self.top.path().join("repo/.ixchel").join(path)
    }

    fn outside(&self) -> PathBuf {
        self.top.path().join("outside.md")
    }

    /// As the port answers, without another thread.
    fn changes(&mut self, thorough: bool) -> StoreResult<Changes> {
        let (project, shared) = (ProjectKey::default(), &self.store.shared);
        let catalog = shared.catalogs.of(&project);
        let mut catalog = locked(&catalog);
        if thorough || !catalog.is_vouched(&[Kind::Entity]) {
            let root = shared.open(&project)?;
            let tree = Tree::new(&root, &shared.layout);
            let path = shared.path(&project);
            catalog.refresh(&[Kind::Entity], &tree, path, &shared.cache, thorough)?;
        }
        let changes = catalog.answer(Kind::Entity, self.since);
        let (Changes::Since { revision, .. } | Changes::Reset { revision }) = changes;
        self.since = revision;
        Ok(changes)
    }

    /// The names of what changed.
    #[track_caller]
    fn changed(&mut self) -> Vec<String> {
        names(self.changes(false))
    }

    fn heads(&self) -> Vec<Arc<DocumentMeta>> {
        locked(&self.store.shared.catalogs.of(&ProjectKey::default())).heads(Kind::Entity)
    }

    fn titles(&self) -> Vec<String> {
        self.heads()
            .into_iter()
            .filter_map(|head| head.entity.as_ref().map(|entity| entity.title.clone()))
            .collect()
    }
}

#[track_caller]
fn names(changes: StoreResult<Changes>) -> Vec<String> {
    match changes {
        Ok(Changes::Since { ids, .. }) => ids.into_iter().map(|id| id.name).collect(),
        other => panic!("{other:?}"),
    }
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn a_file_with_a_name_outside_is_looked_at_each_time() {
    let mut repository = Repository::new(&["a.md"]);
    write(&repository.outside(), "# One");
    fs::hard_link(repository.outside(), repository.file("b.md")).unwrap();
    assert_eq!(repository.changed(), ["b"]);
    write(&repository.outside(), "# Two");
    assert_eq!(repository.changed(), ["b"]);
    assert_eq!(repository.titles(), ["Old", "Two"]);
    // With one name left the watch is enough.
    fs::remove_file(repository.outside()).unwrap();
    assert_eq!(repository.changed(), [""; 0]);
    write(&repository.file("b.md"), "# Six");
    assert_eq!(repository.changed(), ["b"]);
}

#[test]
fn a_thorough_look_finds_what_was_written_by_a_name_the_watch_never_saw() {
    let mut repository = Repository::new(&["a.md"]);
    fs::hard_link(repository.file("a.md"), repository.outside()).unwrap();
    write(&repository.outside(), "# New");
    assert_eq!(names(repository.changes(true)), ["a"]);
    write(&repository.outside(), "# Now");
    assert_eq!(repository.changed(), ["a"], "and from then on every look finds it");
}

#[test]
fn after_a_listing_that_failed_nothing_is_believed() {
    let mut repository = Repository::new(&["a.md", "folder/b.md"]);
    write(&repository.file("new/c.md"), "# New");
    plan(Step::FolderOpened, 1, Act::Fail);
    assert!(repository.changes(false).is_err());
    write(&repository.file("a.md"), "# New");
    assert_eq!(repository.changed(), ["a", "new/c"]);
    // The same when the watch itself was well.
    plan(Step::FolderOpened, 1, Act::Fail);
    assert!(repository.changes(true).is_err());
    write(&repository.file("a.md"), "# Now");
    assert_eq!(repository.changed(), ["a"]);
}

#[test]
fn a_fault_that_may_pass_is_looked_at_again() {
    let mut repository = Repository::new(&["a.md"]);
    write(&repository.file("a.md"), "# New");
    plan(Step::FileOpened, 0, Act::Fail);
    assert_eq!(repository.changed(), ["a"]);
    assert!(repository.heads()[0].fault.is_some());
    assert_eq!(repository.changed(), ["a"]);
    assert_eq!(repository.titles(), ["New"]);
    // Nor is it kept for the next process.
    write(&repository.file("a.md"), "# Now");
    plan(Step::FileOpened, 0, Act::Fail);
    assert_eq!(repository.changed(), ["a"]);
    let catalog = repository.store.shared.catalogs.of(&ProjectKey::default());
    assert!(locked(&catalog).savable(Area::Knowledge).is_empty());
}

#[test]
fn what_was_read_before_a_change_does_not_hide_it() {
    let mut repository = Repository::new(&["a.md"]);
    let id = DocumentId::entity("a");
    let catalog = repository.store.shared.catalogs.of(&ProjectKey::default());
    let old = {
        let root = Root::open(&repository.top.path().canonicalize().unwrap().join("repo")).unwrap();
        let layout = Layout::new(None);
        let tree = Tree::new(&root, &layout);
        read::read_once(&tree.place(&id).unwrap().unwrap()).unwrap().unwrap()
    };
    write(&repository.file("a.md"), "# New");
    assert_eq!(repository.changed(), ["a"]);
    // A slow reader comes back with what it read before.
    let read = locked(&catalog).document(&id, &old);
    assert_eq!(read.body, "# Old");
    repository.changed();
    assert_eq!(repository.titles(), ["New"]);
    // And so does a slow writer, after whose write somebody wrote again.
    locked(&catalog).record(&[Change::put(id, "# Older")], Timestamp::default());
    repository.changed();
    assert_eq!(repository.titles(), ["New"]);
}

#[test]
fn reading_by_name_makes_no_entity_of_what_is_not_listed() {
    let mut repository = Repository::new(&["folder/a.md"]);
    symlink("folder", repository.file("link")).unwrap();
    let deep = format!("{}b", "d/".repeat(40));
    write(&repository.file(&format!("{deep}.md")), "# Deep");
    repository.changed();
    for name in ["link/a", &deep, "folder/../folder/a", "folder//a", ".hidden", "a\0b"] {
        let id = DocumentId::entity(name);
        let found = repository.store.shared.get(&ProjectKey::default(), &[id]);
        assert_eq!(found.unwrap(), [None], "{name}");
    }
    assert_eq!(repository.changed(), [""; 0]);
    assert_eq!(repository.titles(), ["Old"]);
}

#[test]
fn odd_names_harm_nobody() {
    let mut repository = Repository::new(&["a.md"]);
    fs::write(repository.file("").join(OsStr::from_bytes(b"\xff.md")), "# Odd").unwrap();
    fs::create_dir(repository.file("").join(OsStr::from_bytes(b"\xff"))).unwrap();
    write(&repository.file("two\nlines.md"), "# Two");
    write(&repository.file("folder.md/A.md"), "# Upper");
    write(&repository.file("folder.md/a.md"), "# Lower");
    write(&repository.file("-.md"), "# Dash");
    assert_eq!(repository.changed(), ["-", "folder.md/A", "folder.md/a", "two\nlines"]);
    let id = DocumentId::entity("two\nlines");
    let found = repository.store.shared.get(&ProjectKey::default(), &[id]).unwrap();
    assert_eq!(found[0].as_ref().unwrap().body, "# Two");
}

/// Git writes a thousand files and more at once.
#[test]
fn many_edits_at_once_and_a_queue_that_overflows_are_seen() {
    let mut repository = Repository::new(&["a.md"]);
    let name = |at: usize| format!("f/{at:04}.md");
    (0..1_500).for_each(|at| write(&repository.file(&name(at)), "# One"));
    assert_eq!(repository.changed().len(), 1_500);
    (0..1_500).for_each(|at| write(&repository.file(&name(at)), "# Two"));
    assert_eq!(repository.changed().len(), 1_500);
    // Two events each; the kernel's queue usually holds 16,384.
    for _ in 0..6 {
        (0..1_500).for_each(|at| write(&repository.file(&name(at)), "# Six"));
    }
    assert_eq!(repository.changed().len(), 1_500);
    fs::rename(repository.file("f"), repository.file("g")).unwrap();
    assert_eq!(repository.changed().len(), 3_000);
    assert_eq!(repository.heads().len(), 1_501);
}

/// Two files alone can fill the queue, and then the kernel forgets the third.
#[test]
fn what_came_after_the_queue_was_full_is_seen() {
    let mut repository = Repository::new(&["a.md", "b.md", "c.md"]);
    for _ in 0..5_000 {
        write(&repository.file("a.md"), "# New");
        write(&repository.file("b.md"), "# New");
    }
    write(&repository.file("c.md"), "# New");
    assert_eq!(repository.changed(), ["a", "b", "c"]);
}

#[test]
fn another_repository_in_the_place_of_the_first_is_seen() {
    let mut repository = Repository::new(&["a.md"]);
    let (repo, aside) = (repository.top.path().join("repo"), repository.top.path().join("aside"));
    fs::rename(&repo, &aside).unwrap();
    assert!(repository.changes(false).is_err());
    write(&repository.file("b.md"), "# New");
    assert_eq!(repository.changed(), ["a", "b"]);
    // No event tells that a folder above was moved.
    let above = repository.top.path().canonicalize().unwrap();
    let moved = above.with_extension("moved");
    fs::rename(&above, &moved).unwrap();
    write(&repository.file("c.md"), "# New");
    let changed = repository.changed();
    fs::remove_dir_all(&above).unwrap();
    fs::rename(&moved, &above).unwrap();
    assert_eq!(changed, ["b", "c"]);
}

#[test]
fn files_that_look_half_saved_are_waited_for_together() {
    let mut repository = Repository::new(&["a.md"]);
    (0..200).for_each(|at| write(&repository.file(&format!("{at}.md")), ""));
    assert_eq!(repository.changed().len(), 200);
    let ids: Vec<DocumentId> = (0..200).map(|at| DocumentId::entity(at.to_string())).collect();
    let found = repository.store.shared.get(&ProjectKey::default(), &ids).unwrap();
    assert!(found.iter().all(Option::is_some));
}

#[test]
fn a_file_system_that_others_may_change_is_not_watched() {
    let root = Root::open(Path::new("/proc/sys")).unwrap();
    assert!(Watch::start(&root, Path::new("/proc/sys"), Area::Knowledge).is_none());
}
