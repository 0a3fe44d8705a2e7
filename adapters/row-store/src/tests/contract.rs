//! The contract suite.

use std::sync::Arc;

use reqlore_contract::Storage;

use crate::RowStore;
use crate::database::Database;
use crate::test_support::faulty::{FaultPlan, FaultyDatabase};
use crate::test_support::simulated::SimulatedDatabase;

/// Opens two stores, one after the other, on the same database.
async fn storage_on(database: Arc<dyn Database>) -> Storage {
    Storage::reopenable(move || RowStore::start(Arc::clone(&database))).await.unwrap()
}

mod on_a_simulated_database {
    use super::*;

    reqlore_contract::suite!(storage_on(SimulatedDatabase::new(1, None)));
    reqlore_contract::history_suite!(storage_on(SimulatedDatabase::new(1, None)));
}

/// The store repeats what fails, so the answers are the same.
mod on_a_simulated_database_with_faults {
    use super::*;

    fn faulty() -> Arc<dyn Database> {
        Arc::new(FaultyDatabase::new(SimulatedDatabase::new(1, None), FaultPlan::HIDDEN, 1))
    }

    reqlore_contract::suite!(storage_on(faulty()));
    reqlore_contract::history_suite!(storage_on(faulty()));
}

mod without_a_thread {
    use super::*;
    use crate::read::changes::store_row;

    fn open() -> impl Future<Output = Storage> {
        let database: Arc<dyn Database> = SimulatedDatabase::new(1, None);
        let open = move || {
            let database = Arc::clone(&database);
            async {
                store_row(&*database).await?.check_complete()?;
                RowStore::without_thread(database, Arc::default())
            }
        };
        async { Storage::reopenable(open).await.unwrap() }
    }

    reqlore_contract::suite!(open());
}
