//! The contract suite on a real database, and damage of one.

mod contract;
mod damage;
