//! The store on a simulated database.

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
