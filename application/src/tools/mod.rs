//! What all tools share: the trait, their arguments, schemas and pages.

pub(crate) mod arguments;
pub(crate) mod pagination;
pub(crate) mod schema;
pub(crate) mod synonyms;
pub(crate) mod tool;
