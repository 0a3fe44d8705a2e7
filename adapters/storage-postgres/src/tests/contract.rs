//! The contract suite.

use std::cell::OnceCell;
use std::fmt::Write as _;
use std::sync::Arc;

use reqlore_contract::Storage;
use reqlore_contract::faulty::{FaultPlan, FaultyDatabase};
use reqlore_row_store::RowStore;
use reqlore_row_store::database::Database;
use reqlore_row_store::tables::TABLES;
use reqlore_test_postgres::TestDatabase;

use crate::postgres::PostgresDatabase;
use crate::{PasswordSources, PostgresConfig};

/// Opens two stores, one after the other, on the same database.
async fn storage_on(database: Arc<dyn Database>) -> Storage {
    Storage::reopenable(move || RowStore::start(Arc::clone(&database))).await.unwrap()
}

thread_local! {
    /// The database of this test. A test of many histories empties it for each, because a new one
    /// costs more than a history.
    static DATABASE: OnceCell<TestDatabase> = const { OnceCell::new() };
}

async fn open_real() -> Storage {
    let mut is_new = false;
    let create = || {
        is_new = true;
        TestDatabase::new()
    };
    let url = DATABASE.with(|database| database.get_or_init(create).url());
    if !is_new {
        empty_tables();
    }
    let storage = open_on(&url).await;
    if is_new {
        run_sql("CREATE TABLE new_store AS TABLE store");
    }
    storage
}

/// Opens the store of a real database, which must outlive it.
pub(super) async fn open_on(url: &str) -> Storage {
    let config = PostgresConfig::parse(url, &PasswordSources::default()).unwrap();
    Storage::reopenable(move || crate::open(config.clone())).await.unwrap()
}

/// Makes the tables those of a new database.
fn empty_tables() {
    let mut statements = String::new();
    for table in TABLES {
        write!(statements, "DELETE FROM {};", table.name).unwrap();
    }
    run_sql(&(statements + "INSERT INTO store TABLE new_store"));
}

fn run_sql(statements: &str) {
    DATABASE.with(|database| database.get().unwrap().query(statements).unwrap());
}

/// Some cases are enough, because the other suites cover each half. The model test would create a
/// database for each history.
mod on_a_real_database_with_faults {
    use super::*;

    async fn open() -> Storage {
        let database = TestDatabase::new();
        let config = PostgresConfig::parse(&database.url(), &PasswordSources::default()).unwrap();
        let real = PostgresDatabase::of_config(config).unwrap();
        let faulty = FaultyDatabase::new(Arc::new(real), FaultPlan::HIDDEN, 1);
        Storage { guard: Box::new(database), ..storage_on(Arc::new(faulty)).await }
    }

    reqlore_contract::cases! { open();
        commit: concurrent_commits_lose_no_update commits_survive_restart;
        changes: concurrent_commits_skip_no_change;
        items: numbers_are_never_reused;
        audit: rows_are_chained_in_recording_order change_row_and_key_are_atomic
            keys_are_used_once;
    }
}

mod on_a_real_database {
    use super::*;

    reqlore_contract::suite!(open_real());
    reqlore_contract::history_suite!(open_real());
}
