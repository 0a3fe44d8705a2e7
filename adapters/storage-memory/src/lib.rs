//! The smallest driver of the row store: tables in memory, for tests and as the example of a
//! driver, and the other ports that tests of tools need.
//!
//! It refuses what another database would refuse. Rows without an order are in a random one.

#![expect(clippy::missing_panics_doc, clippy::unwrap_used, reason = "only tests use it")]

pub mod database;
mod named_projects;
mod query;
mod search_index;
pub mod seeded_random;

use futures_util::FutureExt;
pub use reqlore_row_store::RowStore;

use database::MemoryDatabase;
pub use named_projects::NamedProjects;
pub use search_index::MemoryIndex;

/// A new store in memory.
pub fn memory_store() -> RowStore {
    let starting = RowStore::start(MemoryDatabase::new(1, None));
    starting.now_or_never().unwrap().unwrap()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use reqlore_contract::Storage;
    use reqlore_row_store::RowStore;
    use reqlore_row_store::database::Database;
    use reqlore_row_store::tables::TABLES;

    use crate::database::MemoryDatabase;

    /// Opens two stores, one after the other, on the same database.
    async fn open() -> Storage {
        let database: Arc<dyn Database> = MemoryDatabase::new(1, None);
        Storage::reopenable(move || RowStore::start(Arc::clone(&database))).await.unwrap()
    }

    reqlore_contract::suite!(open());
    reqlore_contract::history_suite!(open());
    // Without the comparison of other databases with this one.
    reqlore_contract::seam_cases! { (MemoryDatabase::new(1, None) as Arc<dyn Database>, ());
    writer_waits_for_the_other_writer writes_show_after_the_commit rolled_back_writes_are_undone
    snapshot_keeps_its_state invalid_rows_are_refused }

    #[test]
    fn new_tables_are_complete() {
        let database = MemoryDatabase::new(1, None);
        for table in TABLES {
            let expected = usize::from(table.name == "store");
            assert_eq!(database.rows(table).len(), expected, "{}", table.name);
        }
    }
}
