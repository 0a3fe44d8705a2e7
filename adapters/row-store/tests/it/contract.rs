//! The contract suite on a database with faults, and without a thread of the writer.

use std::sync::Arc;

use reqlore_contract::Storage;
use reqlore_contract::faulty::{FaultPlan, FaultyDatabase};
use reqlore_row_store::RowStore;
use reqlore_row_store::database::Database;
use reqlore_storage_memory::database::MemoryDatabase;

/// The store repeats what fails, so the answers are the same.
async fn open() -> Storage {
    let database: Arc<dyn Database> =
        Arc::new(FaultyDatabase::new(MemoryDatabase::new(1, None), FaultPlan::HIDDEN, 1));
    Storage::reopenable(move || RowStore::start(Arc::clone(&database))).await.unwrap()
}

reqlore_contract::suite!(open());
reqlore_contract::history_suite!(open());

mod without_a_thread {
    use super::*;

    async fn open() -> Storage {
        let database: Arc<dyn Database> = MemoryDatabase::new(1, None);
        let open = move || {
            let database = Arc::clone(&database);
            async {
                // Its owner checks the row of the store.
                RowStore::start(Arc::clone(&database)).await?;
                RowStore::without_thread(database, Arc::default())
            }
        };
        Storage::reopenable(open).await.unwrap()
    }

    reqlore_contract::suite!(open());
}
