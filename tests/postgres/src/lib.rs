//! PostgreSQL for tests: a private database on a shared cluster, or a private cluster.
//!
//! Every cluster ends by itself after the test processes that use it, also if they are killed.

#![cfg(unix)]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    missing_debug_implementations,
    reason = "this crate is for tests"
)]

mod certificates;
mod cluster;
mod database;
mod faulty_proxy;
mod programs;
mod shared;
mod sql;

pub use certificates::TestCertificates;
pub use cluster::{PostgresCluster, StopMode};
pub use database::TestDatabase;
pub use faulty_proxy::FaultyProxy;
