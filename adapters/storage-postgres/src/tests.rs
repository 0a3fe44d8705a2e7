//! The contract suite on a simulated database and on a real one, and tests of what only this
//! storage does.

mod call_reads;
mod change_reader;
mod contract;
mod damage;
mod faulty;
mod lost_commits;
pub(crate) mod seam;
mod seeded_random;
mod simulated;
mod simulated_query;
mod simulation;
mod simulation_checks;
mod turns;

mod simulated_seam {
    super::seam::seam_suite!((
        super::simulated::SimulatedDatabase::new(1, None)
            as std::sync::Arc<dyn crate::database::Database>,
        ()
    ));
}
