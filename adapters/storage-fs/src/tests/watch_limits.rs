//! Changes that inotify does not report are found by `stat`, and nothing is trusted unread.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reqlore_domain::document::{DocumentId, DocumentKind, DocumentMeta};
use reqlore_domain::ports::documents::{ChangeSet, DocumentChange, Revision, StoreResult};
use reqlore_domain::timestamp::Timestamp;

use super::{PROJECT, Project, config};
use crate::failpoint::FailPoint;
use crate::failpoint::under_test::{Act, plan};
use crate::inotify::TreeWatcher;
use crate::layout::{DocumentArea, ProjectRoot, ProjectTree, RequirementsLayout};
use crate::store_inner::lock_index;
use crate::{Config, FsStore, read_file};

/// A project whose changes are followed on this thread, where steps can fail.
struct Repository {
    project: Project,
    store: FsStore,
    since: Revision,
}

impl Repository {
    fn new(files: &[&str]) -> Self {
        let project = Project::new();
        for file in files {
            project.write(Path::new(".ixchel").join(file), "# Old");
        }
        let cache = Some(project.outside.path().join("cache"));
        let store = FsStore::new(&Config { cache, ..config(&project.root) });
        let mut new = Self { project, store, since: Revision(0) };
        assert!(matches!(new.changes(false), Ok(ChangeSet::Reset { .. })));
        new
    }

    fn file(&self, path: &str) -> PathBuf {
        self.project.path(".ixchel").join(path)
    }

    fn write(&self, path: &str, text: &str) {
        self.project.write(Path::new(".ixchel").join(path), text);
    }

    fn outside(&self) -> PathBuf {
        self.project.outside.path().join("outside.md")
    }

    /// As the port answers, without another thread.
    fn changes(&mut self, thorough: bool) -> StoreResult<ChangeSet> {
        let (project, inner) = (PROJECT(), &self.store.inner);
        let catalog = inner.indexes.get(&project);
        let mut catalog = lock_index(&catalog);
        if thorough || !catalog.is_current(&[DocumentKind::Entity]) {
            let root = inner.open_root(&project)?;
            let tree = ProjectTree::new(&root, &inner.layout);
            let path = inner.project_path(&project);
            catalog.refresh(&[DocumentKind::Entity], &tree, path, &inner.cache, thorough)?;
        }
        let changes = catalog.changes_since(DocumentKind::Entity, self.since);
        let (ChangeSet::Since { revision, .. } | ChangeSet::Reset { revision }) = changes;
        self.since = revision;
        Ok(changes)
    }

    /// The names of what changed.
    #[track_caller]
    fn changed(&mut self) -> Vec<String> {
        names(self.changes(false))
    }

    fn heads(&self) -> Vec<Arc<DocumentMeta>> {
        lock_index(&self.store.inner.indexes.get(&PROJECT())).all_of_kind(DocumentKind::Entity)
    }

    fn titles(&self) -> Vec<String> {
        self.heads()
            .into_iter()
            .filter_map(|head| head.entity.as_ref().map(|entity| entity.title.clone()))
            .collect()
    }
}

#[track_caller]
fn names(changes: StoreResult<ChangeSet>) -> Vec<String> {
    match changes {
        Ok(ChangeSet::Since { ids, .. }) => ids.into_iter().map(|id| id.name).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_file_with_a_name_outside_is_looked_at_each_time() {
    let mut repository = Repository::new(&["a.md"]);
    fs::write(repository.outside(), "# One").unwrap();
    fs::hard_link(repository.outside(), repository.file("b.md")).unwrap();
    assert_eq!(repository.changed(), ["b"]);
    fs::write(repository.outside(), "# Two").unwrap();
    assert_eq!(repository.changed(), ["b"]);
    assert_eq!(repository.titles(), ["Old", "Two"]);
    // With one name left the watch is enough.
    fs::remove_file(repository.outside()).unwrap();
    assert_eq!(repository.changed(), [""; 0]);
    repository.write("b.md", "# Six");
    assert_eq!(repository.changed(), ["b"]);
}

#[test]
fn a_thorough_look_finds_what_was_written_by_a_name_the_watch_never_saw() {
    let mut repository = Repository::new(&["a.md"]);
    fs::hard_link(repository.file("a.md"), repository.outside()).unwrap();
    fs::write(repository.outside(), "# New").unwrap();
    assert_eq!(names(repository.changes(true)), ["a"]);
    fs::write(repository.outside(), "# Now").unwrap();
    assert_eq!(repository.changed(), ["a"], "and from then on every look finds it");
}

#[test]
fn after_a_listing_that_failed_nothing_is_believed() {
    let mut repository = Repository::new(&["a.md", "folder/b.md"]);
    repository.write("new/c.md", "# New");
    plan(FailPoint::FolderOpened, 1, Act::Fail);
    assert!(repository.changes(false).is_err());
    repository.write("a.md", "# New");
    assert_eq!(repository.changed(), ["a", "new/c"]);
    // The same when the watch itself was well.
    plan(FailPoint::FolderOpened, 1, Act::Fail);
    assert!(repository.changes(true).is_err());
    repository.write("a.md", "# Now");
    assert_eq!(repository.changed(), ["a"]);
}

#[test]
fn a_fault_that_may_pass_is_looked_at_again() {
    let mut repository = Repository::new(&["a.md"]);
    repository.write("a.md", "# New");
    plan(FailPoint::FileOpened, 0, Act::Fail);
    assert_eq!(repository.changed(), ["a"]);
    assert!(repository.heads()[0].fault.is_some());
    assert_eq!(repository.changed(), ["a"]);
    assert_eq!(repository.titles(), ["New"]);
    // Nor is it kept for the next process.
    repository.write("a.md", "# Now");
    plan(FailPoint::FileOpened, 0, Act::Fail);
    assert_eq!(repository.changed(), ["a"]);
    let catalog = repository.store.inner.indexes.get(&PROJECT());
    assert!(lock_index(&catalog).take_cacheable(DocumentArea::Knowledge).is_empty());
}

#[test]
fn what_was_read_before_a_change_does_not_hide_it() {
    let mut repository = Repository::new(&["a.md"]);
    let id = DocumentId::entity("a");
    let catalog = repository.store.inner.indexes.get(&PROJECT());
    let old = {
        let root = ProjectRoot::open(&repository.project.root).unwrap();
        let layout = RequirementsLayout::new(None);
        let tree = ProjectTree::new(&root, &layout);
        read_file::read_once(&tree.locate(&id).unwrap().unwrap()).unwrap().unwrap()
    };
    repository.write("a.md", "# New");
    assert_eq!(repository.changed(), ["a"]);
    // A slow reader comes back with what it read before.
    let read = lock_index(&catalog).record_read(&id, &old);
    assert_eq!(read.body, "# Old");
    repository.changed();
    assert_eq!(repository.titles(), ["New"]);
    // And so does a slow writer, after whose write another program wrote again.
    lock_index(&catalog).record_commit(&[DocumentChange::put(id, "# Older")], Timestamp::default());
    repository.changed();
    assert_eq!(repository.titles(), ["New"]);
}

#[test]
fn reading_by_name_makes_no_entity_of_what_is_not_listed() {
    let mut repository = Repository::new(&["folder/a.md"]);
    symlink("folder", repository.file("link")).unwrap();
    let deep = format!("{}b", "d/".repeat(40));
    repository.write(&format!("{deep}.md"), "# Deep");
    repository.changed();
    for name in ["link/a", &deep, "folder/../folder/a", "folder//a", ".hidden", "a\0b"] {
        let id = DocumentId::entity(name);
        let found = repository.store.inner.get(&PROJECT(), &[id]);
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
    repository.write("two\nlines.md", "# Two");
    repository.write("folder.md/A.md", "# Upper");
    repository.write("folder.md/a.md", "# Lower");
    repository.write("-.md", "# Dash");
    assert_eq!(repository.changed(), ["-", "folder.md/A", "folder.md/a", "two\nlines"]);
    let id = DocumentId::entity("two\nlines");
    let found = repository.store.inner.get(&PROJECT(), &[id]).unwrap();
    assert_eq!(found[0].as_ref().unwrap().body, "# Two");
}

/// Git writes a thousand files and more at once.
#[test]
fn many_edits_at_once_and_a_queue_that_overflows_are_seen() {
    let mut repository = Repository::new(&["a.md"]);
    let name = |at: usize| format!("f/{at:04}.md");
    (0..1_500).for_each(|at| repository.write(&name(at), "# One"));
    assert_eq!(repository.changed().len(), 1_500);
    (0..1_500).for_each(|at| repository.write(&name(at), "# Two"));
    assert_eq!(repository.changed().len(), 1_500);
    // Two events each; the kernel's queue usually holds 16,384.
    for _ in 0..6 {
        (0..1_500).for_each(|at| repository.write(&name(at), "# Six"));
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
        repository.write("a.md", "# New");
        repository.write("b.md", "# New");
    }
    repository.write("c.md", "# New");
    assert_eq!(repository.changed(), ["a", "b", "c"]);
}

#[test]
fn another_repository_in_the_place_of_the_first_is_seen() {
    let mut repository = Repository::new(&["a.md"]);
    let aside = repository.project.outside.path().join("aside");
    fs::rename(&repository.project.root, aside).unwrap();
    assert!(repository.changes(false).is_err());
    repository.write("b.md", "# New");
    assert_eq!(repository.changed(), ["a", "b"]);
    // No event tells that a folder above was moved.
    let above = repository.project.outside.path().to_owned();
    let moved = above.with_extension("moved");
    fs::rename(&above, &moved).unwrap();
    repository.write("c.md", "# New");
    let changed = repository.changed();
    fs::remove_dir_all(&above).unwrap();
    fs::rename(&moved, &above).unwrap();
    assert_eq!(changed, ["b", "c"]);
}

#[test]
fn files_that_look_half_saved_are_waited_for_together() {
    let mut repository = Repository::new(&["a.md"]);
    (0..200).for_each(|at| repository.write(&format!("{at}.md"), ""));
    assert_eq!(repository.changed().len(), 200);
    let ids: Vec<DocumentId> = (0..200).map(|at| DocumentId::entity(at.to_string())).collect();
    let found = repository.store.inner.get(&PROJECT(), &ids).unwrap();
    assert!(found.iter().all(Option::is_some));
}

#[test]
fn a_file_system_that_others_may_change_is_not_watched() {
    let root = ProjectRoot::open(Path::new("/proc/sys")).unwrap();
    assert!(TreeWatcher::start(&root, Path::new("/proc/sys"), DocumentArea::Knowledge).is_none());
}
