//! SQL outside of the common subset is rejected.
