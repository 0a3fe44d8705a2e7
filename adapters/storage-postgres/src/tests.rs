//! The contract suite on a simulated database and on a real one, and tests of what only this
//! storage does.

mod contract;
mod faulty;
pub(crate) mod seam;
mod seeded_random;
mod simulated;
mod simulated_query;

mod simulated_seam {
    super::seam::seam_suite!((
        super::simulated::SimulatedDatabase::new(1, None)
            as std::sync::Arc<dyn crate::database::Database>,
        ()
    ));
}
