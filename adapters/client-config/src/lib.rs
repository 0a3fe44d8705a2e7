//! Locations of MCP clients' configuration files, and edits of this server's entry in them.
//!
//! Nothing here reads the environment or writes a file, so callers can show each change before it
//! is written. An [`UndoPatch`] restores the bytes.

pub mod client;
pub mod edit;
mod environment;
mod error;
pub mod hooks;
mod profiles;
pub mod undo;

pub use client::{Client, ConfigLocation, ConfigScope, ServerSpec};
pub use edit::{ConfigFormat, EntryEdit, EntrySlot};
pub use environment::{ClientEnvironment, Platform};
pub use error::ConfigError;
pub use hooks::{ClientHook, HOOKS, HookEvent};
pub use undo::UndoPatch;
