//! MCP clients' configuration files: where they lie, and how a server is written into them.
//!
//! These files belong to others, who wrote comments, an order and line ends into them. An edit here
//! changes one entry and no other byte, and what was put in can be taken out to the byte (`Trace`).
//! Nothing here reads the environment or writes a file: texts come in, texts go out, and whoever
//! calls shows the difference to a person before it is written.

pub mod client;
mod clients;
pub mod edit;
mod place;
mod surroundings;
pub mod trace;

pub use client::Client;
pub use edit::{Entry, Format, Slot, Unreadable};
pub use place::{NoPlace, Place, Scope, Server};
pub use surroundings::{Platform, Surroundings};
pub use trace::Trace;
