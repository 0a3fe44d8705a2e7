//! The hexagon's edges: what the application needs ([`documents`], [`projects`], [`search`] with
//! its [`embedder`]) and what the outside may ask of it ([`endpoint`]), carried by a [`transport`].

pub mod documents;
pub mod embedder;
pub mod endpoint;
pub mod projects;
pub mod search;
pub mod transport;
