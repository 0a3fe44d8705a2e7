//! Rows, indexes and queries of the row store on one ordered tree of bytes.
//!
//! The key of a row is its table and its key columns, and its value is a checksum and the other
//! columns. An entry of an index has a key and no value. A value that is too large for the engine
//! continues in pieces after its key.

mod changes;
mod keys;
mod ordered_tree;
mod plan;
mod select;

pub use ordered_tree::OrderedTree;

pub use changes::{Change, Changes};
pub use keys::FIRST_FREE_BYTE;
pub use select::{find_damaged_rows, select};

#[cfg(test)]
mod tests;
