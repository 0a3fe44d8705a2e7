//! The hexagon's edges: what the application needs ([`documents`], [`projects`]) and what the
//! outside may ask of it ([`endpoint`]), carried by a [`transport`].

pub mod documents;
pub mod endpoint;
pub mod projects;
pub mod transport;
