//! The contract on real files, and what only a database can do wrong.

use std::path::Path;
use std::sync::Arc;

use reqlore_contract::{Storage, Store};
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::project::ProjectKey;

use crate::{Config, SqliteStore};

fn at(file: &Path) -> StoreResult<SqliteStore> {
    SqliteStore::open(&Config { file: file.to_owned() })
}

fn open() -> Storage {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("reqlore.db");
    Storage {
        store: Arc::new(at(&file).unwrap()),
        reopen: Some(Box::new(move || {
            let again = at(&file).map(|store| Arc::new(store) as Arc<dyn Store>);
            Box::pin(async move { again })
        })),
        project: ProjectKey::default(),
        other: ProjectKey::new("/other"),
        guard: Box::new(folder),
    }
}

reqlore_contract::suite!(async { open() });
