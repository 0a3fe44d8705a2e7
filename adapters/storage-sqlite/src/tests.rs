//! The contract suite and the rules of the seam on real files, and tests of what only this driver
//! does.

mod change_history;
mod corruption;
mod damage;
mod earlier_texts;
mod loss;
mod opening;
pub(crate) mod plans;
pub(crate) mod sharing;
mod team;
pub(crate) mod visits;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use reqlore_contract::Storage;
use reqlore_domain::document::DocumentId;
use reqlore_domain::ports::Store;
use reqlore_domain::ports::documents::{DocumentChange, StoreError, StoreResult};
use reqlore_row_store::RowStore;
use reqlore_row_store::database::{Database, ReadLimit};
use reqlore_row_store::row::{RowChange, RowQuery, TableRow};
use reqlore_row_store::tables::Table;
use rusqlite::Connection;
use tempfile::TempDir;

use crate::database_file::SqliteConfig;
use crate::rows;
use crate::settings::keep_log_on_close;
use crate::{open, open_for_writing, start_database};

fn open_file(file: &Path) -> StoreResult<RowStore> {
    open(&SqliteConfig { file: file.to_owned() })
}

/// Opens the store of this file with the helpers of the contract suite.
fn storage(file: &Path) -> Storage {
    Storage::in_memory(open_file(file).unwrap())
}

fn open_storage() -> Storage {
    let (folder, file) = database_path();
    let reopen = file.clone();
    Storage {
        reopen: Some(Box::new(move || {
            let reopened = open_file(&reopen).map(|store| Arc::new(store) as Arc<dyn Store>);
            Box::pin(async move { reopened })
        })),
        guard: Box::new(folder),
        ..storage(&file)
    }
}

/// Opens the database below the store.
fn open_driver(file: &Path) -> Arc<dyn Database> {
    let (connector, connection) = open_for_writing(file).unwrap();
    Arc::new(start_database(connector, connection).unwrap())
}

fn database_path() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("reqlore.db");
    (folder, file)
}

/// Creates a closed database with one section, `kept`.
fn closed_database() -> (TempDir, PathBuf) {
    let (folder, file) = database_path();
    reqlore_contract::run(async {
        storage(&file).put(&DocumentId::section("kept"), "kept").await;
    });
    (folder, file)
}

async fn try_put(s: &Storage, name: &str) -> StoreResult<()> {
    let id = DocumentId::section(name);
    let change = DocumentChange::put(id.clone(), "text");
    let put = s.commit_from(std::slice::from_ref(&id), move |_| Ok(vec![change.clone()]));
    put.await.map(drop)
}

/// Opens a connection that leaves the log on close, as every process of ours does.
fn connect(file: &Path) -> Connection {
    let connection = Connection::open(file).unwrap();
    keep_log_on_close(&connection, true).unwrap();
    connection
}

fn run_sql(file: &Path, statements: &str) {
    connect(file).execute_batch(statements).unwrap();
}

/// Changes all rows of a table, with valid checksums.
fn change_rows(file: &Path, table: &'static Table, change: impl Fn(&TableRow) -> TableRow) {
    let connection = connect(file);
    let found =
        rows::select(&connection, &[RowQuery::all(table)], ReadLimit::NONE).unwrap().unwrap();
    for before in found.concat() {
        let (key, row) = (before.prefix(table.key_width), change(&before));
        let delete = RowChange::Delete { key, before: None };
        rows::apply(&connection, table, &[delete]).unwrap();
        rows::apply(&connection, table, &[RowChange::Insert(row)]).unwrap();
    }
}

#[track_caller]
fn error_text(refused: StoreResult<impl Sized>) -> (StoreError, String) {
    let error = refused.err().expect("an error");
    let message = error.to_string();
    (error, message)
}

mod seam {
    use super::*;

    fn open() -> (Arc<dyn Database>, TempDir) {
        plans::ALLOWS_ANY_QUERY.store(true, Ordering::Relaxed);
        let (folder, file) = database_path();
        (open_driver(&file), folder)
    }

    reqlore_contract::seam_suite!(open());
}

reqlore_contract::suite!(async { open_storage() });
reqlore_contract::history_suite!(async { open_storage() });
