//! Requirements and knowledge of a project, stored as documents.
//!
//! All content is a [`document::Document`]: readable text with a kind, a name and a version. Pure
//! functions parse typed values and edit them without changing any other byte. [`ports`] are the
//! interfaces to storages and protocols. This crate has no clock, files, sockets or runtime.

pub mod audit_log;
pub mod backlog;
pub mod bounded_types;
pub mod diagnostic;
pub mod docsets;
pub mod document;
pub mod error;
pub mod front_matter;
pub mod function_words;
mod hash_text;
pub mod idempotency;
pub mod identity;
pub mod image_file;
pub mod knowledge;
pub mod link_values;
mod metadata_derivation;
pub mod name_form;
pub mod ports;
pub mod project_key;
pub mod records;
pub mod search;
pub mod sections;
pub mod skills;
pub mod task_context;
#[cfg(feature = "test-doubles")]
pub mod test_support;
pub mod timestamp;
pub mod unreplaced_variable;
pub mod unresolved_merge;
pub mod untrusted_text;
pub mod word_diff;
pub mod yaml;
