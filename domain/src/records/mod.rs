//! Records, the items and entities of a project: the tables of their kinds and fields, and one
//! parser, editor and tombstone for both.

pub mod fields;
pub mod kinds;
