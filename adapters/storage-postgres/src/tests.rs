//! The store on a simulated database.

mod faulty;
mod seeded_random;
mod simulated;
mod simulated_query;
