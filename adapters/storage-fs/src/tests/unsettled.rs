//! What one commit leaves open, and what another one makes of it.

use std::collections::BTreeMap;
use std::path::Path;

use reqlore_contract::run as block_on;
use reqlore_domain::ports::documents::{DocumentRepository, StoreError};
use reqlore_domain::project::ProjectKey;

use super::config;
use super::doubt::{STEPS, body, child, commit, prepare};
use crate::failpoint::Step;
use crate::{Config, FsStore};

fn position(step: Step) -> usize {
    STEPS.iter().position(|known| *known == step).unwrap()
}

fn second() -> ProjectKey {
    ProjectKey::new("second")
}

fn two_projects(root: &Path, other: &Path) -> Config {
    Config { projects: BTreeMap::from([(second(), other.to_owned())]), ..config(root) }
}

#[test]
fn a_key_that_another_project_has_in_doubt_is_refused_there_and_stays_its_own() {
    for step in [Step::FolderSynced, Step::KeySynced] {
        let (folder, other) = (prepare(1), prepare(1));
        let root = folder.path();
        let store = FsStore::new(&two_projects(root, other.path()));
        assert!(!child(root, position(step), 0, "1"));
        for _ in 0..2 {
            let busy = block_on(store.commit(&second(), commit(1, "theirs")));
            assert!(matches!(busy, Err(StoreError::Busy { .. })), "{step:?}: {busy:?}");
            assert_eq!(body(other.path(), 1), "old", "{step:?}");
        }
        let came = body(root, 1) == "new";
        let again = block_on(store.commit(&ProjectKey::default(), commit(1, "again")));
        assert_eq!(matches!(again, Err(StoreError::Repeated(_))), came, "{step:?}: {again:?}");
        let theirs = block_on(store.commit(&second(), commit(1, "theirs")));
        assert!(matches!(theirs, Err(StoreError::Repeated(_))), "{step:?}: {theirs:?}");
    }
}
