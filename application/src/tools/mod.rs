//! The parts that all tools share: the trait, their arguments, schemas and pages.

pub(crate) mod arguments;
pub(crate) mod enabled_tools;
pub(crate) mod pagination;
pub(crate) mod schema;
pub(crate) mod synonyms;
pub(crate) mod tool;
