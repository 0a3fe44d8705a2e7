//! The contract suite on a simulated database, with and without faults, and tests of the store.

mod call_reads;
mod change_reader;
mod contract;
mod damage;
mod lost_commits;
mod pending;
mod simulation;
mod simulation_checks;
mod turns;

mod simulated_seam {
    crate::seam_suite!((
        crate::test_support::simulated::SimulatedDatabase::new(1, None)
            as std::sync::Arc<dyn crate::database::Database>,
        ()
    ));
}

#[test]
fn simulated_tables_are_complete() {
    let database = crate::test_support::simulated::SimulatedDatabase::new(1, None);
    for table in crate::tables::TABLES {
        let expected = usize::from(table.name == "store");
        assert_eq!(database.rows(table).len(), expected, "{}", table.name);
    }
}
