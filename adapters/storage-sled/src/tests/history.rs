//! What changed since, over restarts and beyond what is remembered.

use reqlore_contract::run;
use reqlore_domain::document::{DocumentId, Kind};
use reqlore_domain::ports::documents::{Changes, DocumentRepository, Refresh, Revision};
use reqlore_domain::project::ProjectKey;
use tempfile::tempdir;

use super::{base, config, delete, put};
use crate::SledStore;
use crate::base::{DELETIONS, HISTORY};
use crate::read::MOST_CHANGES;

async fn since(store: &SledStore, revision: u64) -> Changes {
    let project = ProjectKey::default();
    store.changes(&project, Kind::Section, Revision(revision), Refresh::Incremental).await.unwrap()
}

fn named(changes: &Changes) -> Option<Vec<&str>> {
    match changes {
        Changes::Since { ids, .. } => Some(ids.iter().map(|id| id.name.as_str()).collect()),
        Changes::Reset { .. } => None,
    }
}

#[test]
fn history_outlives_a_restart() {
    let folder = tempdir().unwrap();
    run(async {
        let store = SledStore::open(&config(folder.path())).unwrap();
        for name in ["a", "b", "c", "a"] {
            put(&store, &DocumentId::section(name), "x").await.unwrap();
        }
        delete(&store, &DocumentId::section("b")).await;
        store.close().unwrap();
        let store = SledStore::open(&config(folder.path())).unwrap();
        for (revision, names) in [(0, &["a", "b", "c"][..]), (3, &["a", "b"]), (4, &["b"])] {
            assert_eq!(named(&since(&store, revision).await), Some(names.to_vec()));
        }
        put(&store, &DocumentId::section("b"), "back").await.unwrap();
        let expected =
            Changes::Since { revision: Revision(6), ids: vec![DocumentId::section("b")] };
        assert_eq!(since(&store, 4).await, expected, "each is named once");
        assert_eq!(named(&since(&store, 7).await), None);
    });
}

#[test]
fn more_changes_than_are_worth_it_are_a_reset() {
    let folder = tempdir().unwrap();
    run(async {
        let store = SledStore::open(&config(folder.path())).unwrap();
        for number in 0..=MOST_CHANGES {
            put(&store, &DocumentId::section(number.to_string()), "x").await.unwrap();
        }
        assert_eq!(named(&since(&store, 0).await), None);
        let names = since(&store, 1).await;
        assert_eq!(named(&names).map(|names| names.len()), Some(MOST_CHANGES));
    });
}

#[test]
fn old_deletions_are_forgotten_and_told_as_a_reset() {
    let folder = tempdir().unwrap();
    let id = DocumentId::section("a");
    run(async {
        let store = SledStore::open(&config(folder.path())).unwrap();
        for _ in 0..MOST_CHANGES + 10 {
            put(&store, &id, "x").await.unwrap();
            delete(&store, &id).await;
        }
        let base = base(&store);
        assert!(base.tree(DELETIONS).len() <= MOST_CHANGES + 1);
        assert_eq!(base.tree(HISTORY).len(), 0);
        let row = base.project(&ProjectKey::default()).unwrap().unwrap();
        assert_eq!(row.deletions, base.tree(DELETIONS).len() as u64);
        assert!(row.complete_from > 0);
        assert_eq!(named(&since(&store, row.complete_from - 1).await), None);
        assert_eq!(named(&since(&store, row.complete_from).await), Some(vec!["a"]));
    });
}
