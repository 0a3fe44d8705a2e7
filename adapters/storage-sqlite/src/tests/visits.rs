//! The work of each read in a large database.

use std::sync::atomic::{AtomicU64, Ordering};

use reqlore_contract::large::{self, Work};
use reqlore_contract::run;
use rusqlite::{Statement, StatementStatus};

use super::open_storage;

static STEPS: AtomicU64 = AtomicU64::new(0);
static RESULTS: AtomicU64 = AtomicU64::new(0);

/// Steps of SQLite's machine for a row of a result with all its columns, or for a search.
const STEPS_OF_A_RESULT: u64 = 30;

/// Adds the work of a statement, and the number of its searches and rows.
pub(crate) fn add(statement: &Statement<'_>, results: usize) {
    let steps = statement.reset_status(StatementStatus::VmStep);
    STEPS.fetch_add(u64::try_from(steps).unwrap(), Ordering::Relaxed);
    RESULTS.fetch_add(results as u64, Ordering::Relaxed);
}

// Each test has its own process.
#[test]
fn no_call_visits_many_more_rows_than_it_returns() {
    run(large::check_work(&open_storage(), || Work {
        visited: STEPS.swap(0, Ordering::Relaxed) / STEPS_OF_A_RESULT,
        returned: RESULTS.swap(0, Ordering::Relaxed),
    }));
}
