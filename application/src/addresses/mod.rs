//! The documents that IDs and links name, in all toolsets.

pub(crate) mod address;
pub(crate) mod addressed_text;
pub(crate) mod links;
pub(crate) mod right_tool;
