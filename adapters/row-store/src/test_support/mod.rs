//! A simulated database, random faults, and the rules that every driver is tested with.

#![expect(clippy::missing_panics_doc, clippy::unwrap_used, reason = "only tests use it")]

pub mod faulty;
pub mod seam;
pub mod seeded_random;
pub mod simulated;
mod simulated_query;
