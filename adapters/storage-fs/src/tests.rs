//! Runs the storage contract on real files, and tests failures that only files have.

#![cfg_attr(
    not(unix),
    allow(unused_imports, reason = "tests of links, modes and Git are left out")
)]

#[cfg(unix)]
mod attacks;
mod backlog;
mod change_history;
mod crash;
#[cfg(unix)]
mod disk_edits;
#[cfg(unix)]
mod export;
#[cfg(unix)]
mod freshness;
#[cfg(unix)]
mod history;
#[cfg(unix)]
mod images;
mod journal;
#[cfg(unix)]
mod local_history;
#[cfg(unix)]
mod many_projects;
#[cfg(windows)]
mod open_files;
mod pending_audit;
#[cfg(unix)]
mod projects;
#[cfg(unix)]
mod root_search;
#[cfg(unix)]
mod sparse_checkout;
mod team;
mod team_damage;
mod two_names;
#[cfg(unix)]
mod untrusted_state;
#[cfg(unix)]
mod watch_limits;
#[cfg(unix)]
mod work_trees;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use bytes::Bytes;
use reqlore_contract::{Storage, test_context};
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::{DocumentId, DocumentKind};
use reqlore_domain::ports::Store;
use reqlore_domain::ports::documents::{
    CommitRequest, DocumentChange, DocumentRepository, ReadSet, StoreError, StoreResult,
};
use reqlore_domain::project_key::ProjectKey;
use tempfile::TempDir;

use crate::{Config, FsStore};

const PROJECT: fn() -> ProjectKey = ProjectKey::default;
const DIRECTORY: &str = "docs/development/requirements";
const LOCAL: &str = ".reqlore/local";

fn config(root: &Path) -> Config {
    Config {
        root: root.to_owned(),
        documents: root.to_owned(),
        requirements_directory: None,
        projects: std::collections::BTreeMap::new(),
        roots: Vec::new(),
        home: None,
        cache: None,
        git: reqlore_git_runner::GitEnvironment::default(),
    }
}

fn open() -> Storage {
    let folder = tempfile::tempdir().unwrap();
    let (root, other) = (folder.path().join("project"), folder.path().join("other"));
    fs::create_dir(&root).unwrap();
    fs::create_dir(&other).unwrap();
    Storage {
        store: Arc::new(FsStore::open(&config(&root)).unwrap()),
        reopen: Some(Box::new(move || {
            let again =
                FsStore::open(&config(&root)).map(|store| Arc::new(store) as Arc<dyn Store>);
            Box::pin(async move { again })
        })),
        project: ProjectKey::default(),
        other: ProjectKey::new(other.to_str().unwrap()),
        guard: Box::new(folder),
    }
}

reqlore_contract::suite!(async { open() });

mod local_history_contract {
    use super::open;

    reqlore_contract::local_history_suite!(async { open() });
}

/// An empty project in a temporary folder.
struct Project {
    outside: TempDir,
    root: PathBuf,
}

impl Project {
    fn new() -> Self {
        let outside = tempfile::tempdir().unwrap();
        let root = outside.path().join("repo");
        fs::create_dir(&root).unwrap();
        Self { outside, root }
    }

    /// A new store, as in a process that just started.
    fn store(&self) -> FsStore {
        FsStore::new(&config(&self.root))
    }

    fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.join(path)
    }

    fn file(&self, id: &DocumentId) -> PathBuf {
        match id.kind {
            DocumentKind::Instructions | DocumentKind::Section => {
                self.root.join(DIRECTORY).join(format!("{}.md", id.name))
            }
            _ => self.root.join(id.to_string()),
        }
    }

    fn write(&self, path: impl AsRef<Path>, body: impl AsRef<[u8]>) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, body).unwrap();
    }

    fn read(&self, path: impl AsRef<Path>) -> Option<String> {
        fs::read_to_string(self.root.join(path)).ok()
    }

    /// True if the path exists, even as a dangling link.
    fn has(&self, path: impl AsRef<Path>) -> bool {
        self.root.join(path).symlink_metadata().is_ok()
    }
}

fn names(folder: impl AsRef<Path>) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// All files below a folder, recursively, sorted.
fn files(folder: &Path) -> Vec<PathBuf> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    files
}

#[cfg(unix)]
fn make_pipe(path: impl AsRef<std::ffi::OsStr>) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

fn item(kind: ItemKind, name: &str) -> DocumentId {
    DocumentId { kind: DocumentKind::Item(kind), name: name.to_owned() }
}

fn commit(changes: Vec<DocumentChange>) -> CommitRequest {
    let documents = changes.iter().map(|change| change.id().clone()).collect();
    let reads =
        ReadSet { titles_of: Some(DocumentKind::Section), ..ReadSet::of_documents(documents) };
    CommitRequest {
        read_set: reads,
        decide: Box::new(move |_| Ok(changes.clone())),
        context: test_context(),
    }
}

async fn get(store: &FsStore, id: &DocumentId) -> StoreResult<Option<Bytes>> {
    let documents = store.get(&PROJECT(), std::slice::from_ref(id)).await?;
    Ok(documents.into_iter().next().flatten().map(|document| document.body))
}

async fn put(store: &FsStore, id: &DocumentId, body: &'static str) -> StoreResult<()> {
    store.commit(&PROJECT(), commit(vec![DocumentChange::put(id.clone(), body)])).await.map(drop)
}

async fn delete(store: &FsStore, id: &DocumentId) -> StoreResult<()> {
    store
        .commit(&PROJECT(), commit(vec![DocumentChange::Delete { id: id.clone() }]))
        .await
        .map(drop)
}

#[track_caller]
fn check_refused<T: std::fmt::Debug>(outcome: StoreResult<T>, subject: &str, reason: &str) {
    match outcome {
        Err(StoreError::Refused { subject: actual_subject, reason: actual }) => {
            assert!(actual_subject.contains(subject), "{actual_subject}: {actual}");
            assert!(actual.contains(reason), "{actual_subject}: {actual}");
        }
        other => panic!("{subject}: {other:?}"),
    }
}

const CHILD: &str = "REQLORE_TEST_CHILD";

/// Runs one test of this binary in another process.
fn run_child(test: &str, argument: &str) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("tests::{test}"), "--nocapture"])
        .env(CHILD, argument)
        .output()
        .unwrap()
}

/// Like [`run_child`], after shell commands.
#[cfg(unix)]
fn run_child_in_shell(shell: &str, test: &str, argument: &str) -> Output {
    Command::new("sh")
        .args(["-c", &format!("{shell} exec \"$1\" --exact tests::{test} --nocapture"), "sh"])
        .arg(std::env::current_exe().unwrap())
        .env(CHILD, argument)
        .output()
        .unwrap()
}

/// The argument of [`run_child`]; `None` in an ordinary test run.
#[expect(clippy::disallowed_methods, reason = "passes an argument to a child process")]
fn child_argument() -> Option<String> {
    std::env::var(CHILD).ok()
}
