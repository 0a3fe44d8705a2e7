//! Changes that inotify does not report, which the index must find by `stat`.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reqlore_domain::document::{DocumentId, DocumentKind, DocumentMeta};
use reqlore_domain::ports::change_page::{ChangePage, ChangePosition};
use reqlore_domain::ports::documents::{DocumentChange, StoreResult};
use reqlore_domain::timestamp::Timestamp;

use super::{PROJECT, Project, config};
use crate::failpoint::FailPoint;
use crate::failpoint::under_test::{Act, plan};
use crate::folder_names::RequirementsLayout;
use crate::inotify::{TreeWatcher, WatchQueue};
use crate::layout::{DocumentArea, ProjectRoot, ProjectTree};
use crate::open_indexes::lock_index;
use crate::{Config, FsStore, read_file};

/// A project whose index is queried on this thread, where failpoints are planned.
struct Repository {
    project: Project,
    store: FsStore,
    since: Option<ChangePosition>,
}

impl Repository {
    fn new(files: &[&str]) -> Self {
        let project = Project::new();
        for file in files {
            project.write(Path::new(".ixchel").join(file), "# Old");
        }
        let cache = Some(project.outside.path().join("cache"));
        let store = FsStore::new(&Config { cache, ..config(&project.root) });
        let mut new = Self { project, store, since: None };
        assert!(matches!(new.changes(false), Ok(ChangePage::Reset { .. })));
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

    /// Queries the changes like the port, but on this thread.
    fn changes(&mut self, is_full: bool) -> StoreResult<ChangePage> {
        let (project, inner) = (PROJECT(), &self.store.inner);
        let index = inner.indexes.get(&project);
        let mut index = lock_index(&index);
        if is_full || !index.is_current(&[DocumentKind::Entity]) {
            let root = inner.open_root(&project)?;
            let tree = ProjectTree::new(&root, &inner.layout);
            let path = inner.project_path(&project);
            index.refresh(&[DocumentKind::Entity], &tree, path, &inner.cache, is_full)?;
        }
        let changes = index.changes_since(self.since, usize::MAX);
        self.since = Some(changes.position());
        Ok(changes)
    }

    /// The names of the changed documents.
    #[track_caller]
    fn changed(&mut self) -> Vec<String> {
        names(self.changes(false))
    }

    fn all_metadata(&self) -> Vec<Arc<DocumentMeta>> {
        lock_index(&self.store.inner.indexes.get(&PROJECT())).all_of_kind(DocumentKind::Entity)
    }

    fn titles(&self) -> Vec<String> {
        self.all_metadata()
            .into_iter()
            .filter_map(|metadata| metadata.entity.as_ref().map(|entity| entity.title.clone()))
            .collect()
    }
}

#[track_caller]
fn names(changes: StoreResult<ChangePage>) -> Vec<String> {
    match changes {
        Ok(ChangePage::Since { mut ids, .. }) => {
            ids.sort_unstable();
            ids.into_iter().map(|id| id.name).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn hard_linked_file_is_inspected_by_each_refresh() {
    let mut repository = Repository::new(&["a.md"]);
    fs::write(repository.outside(), "# One").unwrap();
    fs::hard_link(repository.outside(), repository.file("b.md")).unwrap();
    assert_eq!(repository.changed(), ["b"]);
    fs::write(repository.outside(), "# Two").unwrap();
    assert_eq!(repository.changed(), ["b"]);
    assert_eq!(repository.titles(), ["Old", "Two"]);
    // With one name left, inotify reports all changes.
    fs::remove_file(repository.outside()).unwrap();
    assert_eq!(repository.changed(), [""; 0]);
    repository.write("b.md", "# Six");
    assert_eq!(repository.changed(), ["b"]);
}

#[test]
fn full_refresh_finds_write_through_hard_link() {
    let mut repository = Repository::new(&["a.md"]);
    fs::hard_link(repository.file("a.md"), repository.outside()).unwrap();
    fs::write(repository.outside(), "# New").unwrap();
    assert_eq!(names(repository.changes(true)), ["a"]);
    fs::write(repository.outside(), "# Now").unwrap();
    assert_eq!(repository.changed(), ["a"], "from then on each refresh finds it");
}

#[test]
fn failed_scan_invalidates_the_watcher() {
    let mut repository = Repository::new(&["a.md", "folder/b.md"]);
    repository.write("new/c.md", "# New");
    plan(FailPoint::FolderOpened, 1, Act::Fail);
    assert!(repository.changes(false).is_err());
    repository.write("a.md", "# New");
    assert_eq!(repository.changed(), ["a", "new/c"]);
    // The same with a watcher that is valid.
    plan(FailPoint::FolderOpened, 1, Act::Fail);
    assert!(repository.changes(true).is_err());
    repository.write("a.md", "# Now");
    assert_eq!(repository.changed(), ["a"]);
}

#[test]
fn transient_read_error_is_retried_by_next_refresh() {
    let mut repository = Repository::new(&["a.md"]);
    repository.write("a.md", "# New");
    plan(FailPoint::FileOpened, 0, Act::Fail);
    assert_eq!(repository.changed(), ["a"]);
    assert!(repository.all_metadata()[0].diagnostic.is_some());
    assert_eq!(repository.changed(), ["a"]);
    assert_eq!(repository.titles(), ["New"]);
    // The error is not cached for the next process.
    repository.write("a.md", "# Now");
    plan(FailPoint::FileOpened, 0, Act::Fail);
    assert_eq!(repository.changed(), ["a"]);
    let index = repository.store.inner.indexes.get(&PROJECT());
    let rows = lock_index(&index).take_unsaved();
    assert_eq!(rows.unwrap().stamps(), [None]);
}

#[test]
fn outdated_read_does_not_hide_newer_content() {
    let mut repository = Repository::new(&["a.md"]);
    let id = DocumentId::entity("a");
    let index = repository.store.inner.indexes.get(&PROJECT());
    let old = {
        let root = ProjectRoot::open(&repository.project.root).unwrap();
        let layout = RequirementsLayout::new(None);
        let tree = ProjectTree::new(&root, &layout);
        read_file::read_once(&tree.locate(&id).unwrap().unwrap()).unwrap().unwrap()
    };
    repository.write("a.md", "# New");
    assert_eq!(repository.changed(), ["a"]);
    // A slow reader records the content that it read before.
    let read = lock_index(&index).record_read(&id, &old);
    assert_eq!(read.body, "# Old");
    repository.changed();
    assert_eq!(repository.titles(), ["New"]);
    // The same for a slow writer, after whose write another program wrote.
    lock_index(&index).record_commit(&[DocumentChange::put(id, "# Older")], Timestamp::default());
    repository.changed();
    assert_eq!(repository.titles(), ["New"]);
}

#[test]
fn get_returns_no_entity_that_is_not_listed() {
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
fn unusual_file_names_affect_no_other_document() {
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

/// Git may write thousands of files at once.
#[test]
fn inotify_queue_overflow_loses_no_changes() {
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
    assert_eq!(repository.all_metadata().len(), 1_501);
}

/// Events of two files can fill the queue, and then the kernel drops that of the third.
#[test]
fn change_after_full_inotify_queue_is_visible() {
    let mut repository = Repository::new(&["a.md", "b.md", "c.md"]);
    for _ in 0..5_000 {
        repository.write("a.md", "# New");
        repository.write("b.md", "# New");
    }
    repository.write("c.md", "# New");
    assert_eq!(repository.changed(), ["a", "b", "c"]);
}

#[test]
fn replaced_project_root_is_detected() {
    let mut repository = Repository::new(&["a.md"]);
    let aside = repository.project.outside.path().join("aside");
    fs::rename(&repository.project.root, aside).unwrap();
    assert!(repository.changes(false).is_err());
    repository.write("b.md", "# New");
    assert_eq!(repository.changed(), ["a", "b"]);
    // inotify does not report that a parent folder was moved.
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
fn partially_saved_files_share_one_pause() {
    let mut repository = Repository::new(&["a.md"]);
    (0..200).for_each(|number| repository.write(&format!("{number}.md"), ""));
    assert_eq!(repository.changed().len(), 200);
    let ids: Vec<DocumentId> = (0..200).map(|at| DocumentId::entity(at.to_string())).collect();
    let found = repository.store.inner.get(&PROJECT(), &ids).unwrap();
    assert!(found.iter().all(Option::is_some));
}

#[test]
fn network_file_system_is_not_watched() {
    let root = ProjectRoot::open(Path::new("/proc/sys")).unwrap();
    let (queue, path) = (WatchQueue::default(), Path::new("/proc/sys"));
    assert!(TreeWatcher::start(&queue, &root, path, DocumentArea::Knowledge).is_none());
}
