//! The core on a database in memory, with faults: the contract suite, the simulation of several
//! servers, and single properties.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a test that cannot continue fails")]
#![expect(clippy::print_stdout, reason = "a simulation prints its seeds")]

mod call_reads;
mod change_reader;
mod contract;
mod damage;
mod groups;
mod lost_commits;
mod pending;
mod simulation;
mod simulation_checks;
mod turns;
