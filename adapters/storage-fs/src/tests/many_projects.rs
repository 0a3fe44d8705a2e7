//! Many projects in one store: few watches, little memory, and the same answers.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reqlore_domain::document::DocumentKind;
use reqlore_domain::ports::documents::{DocumentFilter, DocumentRepository};
use reqlore_domain::project_key::ProjectKey;
use tempfile::TempDir;

use super::config;
use crate::inotify::WatchQueue;
use crate::metadata_index::load::MetadataCache;
use crate::open_indexes::{MAX_BYTES, OpenIndexes};
use crate::{Config, FsStore};

/// Watches of a project with one folder of entities: its root and the folder.
const WATCHES: usize = 2;

struct Projects {
    folder: TempDir,
    store: FsStore,
    queue: WatchQueue,
}

impl Projects {
    /// Projects with an entity each, in a store with these limits.
    fn new(count: usize, max_bytes: usize, max_watches: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..count {
            write(&folder.path().join(format!("p-{number}")), "one");
        }
        let cache = Some(folder.path().join("cache"));
        let mut store = FsStore::new(&Config { cache: cache.clone(), ..config(folder.path()) });
        let queue = WatchQueue::with_max_watches(max_watches);
        let cache = MetadataCache { parent_dir: cache };
        let inner = Arc::get_mut(&mut store.inner).unwrap();
        inner.indexes = OpenIndexes::new(max_bytes, queue.clone(), cache);
        Self { folder, store, queue }
    }

    fn path(&self, project: &str) -> PathBuf {
        self.folder.path().join(project)
    }

    /// The titles of a project's entities.
    async fn titles(&self, project: &str) -> Vec<String> {
        let key = ProjectKey::new(self.path(project).to_str().unwrap());
        let filter = DocumentFilter::of_kind(DocumentKind::Entity);
        let page = self.store.find(&key, &filter).await.unwrap();
        let entities = page.metadata.iter().filter_map(|metadata| metadata.entity.as_ref());
        entities.map(|entity| entity.title.clone()).collect()
    }
}

fn write(project: &Path, title: &str) {
    fs::create_dir_all(project.join(".ixchel")).unwrap();
    fs::write(project.join(".ixchel/a.md"), format!("# {title}")).unwrap();
}

#[tokio::test]
async fn index_over_budget_is_closed_and_read_again() {
    let projects = Projects::new(60, 40_000, 1_000);
    for title in ["one", "two", "six"] {
        for number in 0..60 {
            let name = format!("p-{number}");
            write(&projects.path(&name), title);
            assert_eq!(projects.titles(&name).await, [title], "{name}");
        }
    }
    let open = projects.store.inner.indexes.len();
    assert!((2..=20).contains(&open), "{open}");
    // Waits until the closed indexes have removed their watches.
    let Projects { store, queue, .. } = projects;
    drop(store);
    assert_eq!(queue.watch_usage(), (0, 0));
}

#[tokio::test]
async fn edit_is_found_after_another_project_drained_the_queue() {
    let projects = Projects::new(50, MAX_BYTES, 1_000);
    for number in 0..50 {
        assert_eq!(projects.titles(&format!("p-{number}")).await, ["one"]);
    }
    assert_eq!(projects.queue.watch_usage(), (50 * WATCHES, 50));
    for number in 0..50 {
        write(&projects.path(&format!("p-{number}")), "two");
    }
    for number in (0..50).rev() {
        assert_eq!(projects.titles(&format!("p-{number}")).await, ["two"]);
    }
}

#[tokio::test]
async fn project_without_a_watch_is_compared_by_stat() {
    let projects = Projects::new(20, MAX_BYTES, 5 * WATCHES);
    for title in ["one", "two", "six"] {
        for number in 0..20 {
            let name = format!("p-{number}");
            write(&projects.path(&name), title);
            assert_eq!(projects.titles(&name).await, [title], "{name}");
        }
    }
    assert_eq!(projects.queue.watch_usage(), (5 * WATCHES, 5));
    // A removed project's watches are free for another one.
    fs::remove_dir_all(projects.path("p-0")).unwrap();
    fs::create_dir(projects.path("p-0")).unwrap();
    assert_eq!(projects.titles("p-0").await, [""; 0]);
    assert_eq!(projects.titles("p-19").await, ["six"]);
    assert!(projects.queue.watch_usage().0 <= 5 * WATCHES);
}

/// Both projects watch the inner one's root, for different events.
#[tokio::test]
async fn folder_of_two_projects_reports_edits_to_both() {
    let projects = Projects::new(1, MAX_BYTES, 1_000);
    let inner = "p-0/.ixchel/inner";
    write(&projects.path(inner), "one");
    fs::write(projects.path(inner).join("b.md"), "# old").unwrap();
    for titles in [["one", "old"], ["one", "new"]] {
        assert_eq!(projects.titles("p-0").await, titles);
        assert_eq!(projects.titles(inner).await, ["one"]);
        fs::write(projects.path(inner).join("b.md"), "# new").unwrap();
    }
    fs::remove_dir_all(projects.path(inner).join(".ixchel")).unwrap();
    assert_eq!(projects.titles(inner).await, [""; 0]);
    assert_eq!(projects.titles("p-0").await, ["one", "new"]);
}
