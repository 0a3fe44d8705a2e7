//! The contract on real folders.

use std::sync::Arc;

use reqlore_contract::{Storage, Store};
use reqlore_domain::project::ProjectKey;

use crate::{Config, SledStore};

fn open() -> Storage {
    let guard = tempfile::tempdir().unwrap();
    let config = Config { folder: guard.path().join("sled") };
    let store = Arc::new(SledStore::open(&config).unwrap());
    let first = Arc::clone(&store);
    Storage {
        store,
        reopen: Some(Box::new(move || {
            let again = first.close().and_then(|()| SledStore::open(&config));
            Box::pin(async { again.map(|again| Arc::new(again) as Arc<dyn Store>) })
        })),
        project: ProjectKey::default(),
        other: ProjectKey::new("/other"),
        guard: Box::new(guard),
    }
}

reqlore_contract::suite!(async { open() });
