//! The contract on real files, and what only files can do wrong.

mod attacks;
mod backlog;
mod copies;
mod crash;
mod disk;
mod forged;
mod freshness;
mod journal;
mod local;
mod migration;
mod pending_audit;
mod projects;
mod team;
mod vouching;

use std::path::Path;
use std::sync::Arc;

use reqlore_contract::Storage;
use reqlore_domain::ports::Store;
use reqlore_domain::project::ProjectKey;

use crate::{Config, FsStore};

fn config(root: &Path) -> Config {
    Config {
        root: root.to_owned(),
        documents: root.to_owned(),
        requirements_directory: None,
        projects: std::collections::BTreeMap::new(),
        roots: Vec::new(),
        home: None,
        cache: None,
    }
}

fn open() -> Storage {
    let folder = tempfile::tempdir().unwrap();
    let (root, other) = (folder.path().join("project"), folder.path().join("other"));
    std::fs::create_dir(&root).unwrap();
    std::fs::create_dir(&other).unwrap();
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
