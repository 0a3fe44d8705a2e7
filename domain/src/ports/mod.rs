//! The hexagon's edges: what the application needs ([`documents`] and their [`archive`],
//! [`projects`], [`search`] with its [`embedder`], a [`clock`], [`ids`]) and what the outside may
//! ask of it ([`endpoint`]), carried by a [`transport`].

pub mod archive;
pub mod clock;
pub mod documents;
pub mod embedder;
pub mod endpoint;
pub mod ids;
pub mod projects;
pub mod search;
pub mod transport;
