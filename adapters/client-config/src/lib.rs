//! MCP clients' configuration files: their locations, and a server's entry in them.
//!
//! Nothing here reads the environment or writes a file: the caller shows each change to the user
//! before it is written. An edit changes one entry, and can be undone to the byte ([`Trace`]).

pub mod client;
pub mod edit;
mod profiles;
mod surroundings;
pub mod trace;

pub use client::{Client, NoPlace, Place, Scope, Server};
pub use edit::{Entry, Format, Slot, Unreadable};
pub use surroundings::{Platform, Surroundings};
pub use trace::Trace;
