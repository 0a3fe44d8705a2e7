//! Upgrades that are killed, and reads of databases of older schemas.

use reqlore_contract::killed_process::{kill_child, killed_step};
use reqlore_contract::run;
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::{DocumentId, DocumentKind};
use reqlore_domain::ports::archive::{Archive, ArchiveRecord};
use reqlore_domain::ports::documents::{DocumentChange, DocumentRepository};
use reqlore_domain::ports::item_list::ItemQuery;
use reqlore_domain::ports::service::ProgressSink;
use reqlore_domain::ports::storage_health::StorageHealth;
use reqlore_domain::project_key::ProjectKey;
use tempfile::{TempDir, tempdir};

use super::{commit, config, database, open};
use crate::database::{CHILDREN, DIAGNOSTICS, ITEMS, META, PROJECTS, TOTALS_KEY};
use crate::open::{DATABASE_ID_KEY, SCHEMA_KEY};
use crate::records::{ProjectRow, seal_value};
use crate::{SledConfig, SledStore};

const COUNT: usize = 300;
/// The test that runs in child processes.
const CHILD: &str = "tests::upgrade::child_aborts_an_upgrade";

/// A database with requirements, as schema 2 left it, except for its commit counter.
fn older_database() -> TempDir {
    let folder = tempdir().unwrap();
    run(async {
        let store = open(&folder);
        let mut changes = Vec::new();
        for number in 1..=COUNT {
            let kind = DocumentKind::Item(ItemKind::Requirement);
            let id = DocumentId { kind, name: format!("REQ-{number:03}") };
            changes.push(DocumentChange::put(id, format!("---\ntitle: Number {number}\n---\n")));
        }
        commit(&store, changes).await.unwrap();
        let database = database(&store);
        for tree in [ITEMS, CHILDREN, DIAGNOSTICS] {
            database.tree(tree).clear().unwrap();
        }
        let project = ProjectKey::default();
        let row = database.project_row(&project).unwrap();
        let older =
            ProjectRow { writer_id: 0, item_counts: crate::item_list::ItemCounts::new(), ..row };
        let mut value = postcard::to_allocvec(&older).unwrap();
        // The two fields that schema 3 appended.
        value.truncate(value.len() - 2);
        let key = project.as_str().as_bytes();
        database.tree(PROJECTS).insert(key, seal_value(key, &value)).unwrap();
        let meta = database.tree(META);
        meta.insert(SCHEMA_KEY, &[2]).unwrap();
        meta.remove(TOTALS_KEY).unwrap();
        meta.remove(DATABASE_ID_KEY).unwrap();
        drop(database);
        store.close().unwrap();
    });
    folder
}

fn count_documents(source: &dyn Archive) -> usize {
    run(async {
        let mut reader = source.export().await.unwrap();
        let mut count = 0;
        loop {
            let records = reader.next_batch().await.unwrap();
            if records.is_empty() {
                return count;
            }
            let is_document =
                |record: &&ArchiveRecord| matches!(record, ArchiveRecord::Document(_));
            count += records.iter().filter(is_document).count();
        }
    })
}

/// Reads a database without an upgrade, and closes it.
fn read_source(folder: &TempDir) -> usize {
    let config = config(folder.path());
    let count = count_documents(&*SledStore::open_source(&config).unwrap());
    crate::open::wait_until_closed(&config.folder).unwrap();
    count
}

fn check_upgraded(folder: &TempDir) {
    run(async {
        let store = open(folder);
        let query = ItemQuery::of_kind(ItemKind::Requirement, 10);
        let page = store.items(&ProjectKey::default(), &query).await.unwrap();
        assert_eq!((page.metadata.len(), page.total), (10, COUNT));
        assert_eq!(store.find_damage().await.unwrap(), Vec::<String>::new());
        store.close().unwrap();
    });
}

/// Ends the process after a number of documents, without any cleanup, as `kill -9` does.
#[derive(Debug)]
struct AbortAt(usize);

impl ProgressSink for AbortAt {
    fn is_cancelled(&self) -> bool {
        false
    }

    fn progress(&self, done: usize, _: usize, _: &str) {
        if done == self.0 {
            std::process::abort();
        }
    }
}

#[test]
fn child_aborts_an_upgrade() {
    let Some(number) = killed_step() else { return };
    let folder = std::path::absolute("sled").unwrap();
    let abort = AbortAt(number.parse().unwrap());
    drop(SledStore::open_with_progress(&SledConfig { folder }, &abort));
}

#[test]
fn killed_upgrade_begins_again_and_loses_nothing() {
    let folder = older_database();
    // Some batches are written before each of them.
    for number in [1, 150, COUNT] {
        kill_child(CHILD, folder.path(), &number.to_string());
        assert_eq!(read_source(&folder), COUNT, "{number}");
    }
    check_upgraded(&folder);
}

#[test]
fn older_database_is_read_as_it_is() {
    let folder = older_database();
    assert_eq!(read_source(&folder), COUNT);
    let sled = sled::open(folder.path().join("sled")).unwrap();
    let meta = sled.open_tree("meta").unwrap();
    assert_eq!(meta.get(SCHEMA_KEY).unwrap().as_deref(), Some(&[2][..]));
    assert!(meta.get(DATABASE_ID_KEY).unwrap().is_none());
    // That version refuses a database with trees that it does not know.
    sled.drop_tree("items").unwrap();
    drop((meta, sled));
    crate::open::wait_until_closed(&folder.path().join("sled")).unwrap();
    assert_eq!(read_source(&folder), COUNT);
    let sled = sled::open(folder.path().join("sled")).unwrap();
    assert!(!sled.tree_names().iter().any(|name| name == b"items"));
    drop(sled);
    crate::open::wait_until_closed(&folder.path().join("sled")).unwrap();
    check_upgraded(&folder);
}
