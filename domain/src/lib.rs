//! What Reqlore is about: the requirements and the knowledge of a project, kept as documents.
//!
//! Everything a project keeps is a [`document::Document`]: text that a person could read, with a
//! kind, a name and a version. Typed values (today a [`sections::Section`] and the
//! [`sections::instructions`]) are read from documents and edited into them by pure functions that
//! leave every byte they were not asked to change. What the product needs from the outside, and
//! what the outside may ask of it, are the [`ports`].
//!
//! This crate has no effects: no clock, no file, no socket, no runtime. Whoever looks for those
//! finds them in `adapters/`.

pub mod audit;
pub mod backlog;
pub mod docsets;
pub mod document;
pub mod error;
pub mod fault;
pub mod front_matter;
pub mod identity;
pub mod knowledge;
pub mod number;
pub mod ports;
pub mod project;
pub mod search;
pub mod sections;
pub mod text;
pub mod time;
pub mod yaml;
