//! The contract suite on a real database, and damage of one.

mod call_reads;
mod contract;
mod damage;
