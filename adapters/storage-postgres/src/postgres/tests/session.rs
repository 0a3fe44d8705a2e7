//! Transactions and reads.
