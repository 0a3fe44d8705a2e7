//! The Model Context Protocol over the endpoint. Only this crate and the transports know rmcp.
//!
//! [`server`] answers requests of every protocol revision that rmcp knows, [`asker`] says who asks,
//! `subscriptions` tells what changed, [`present`] says how our answers and errors look on the
//! wire, [`wire`] judges raw bytes before rmcp sees them.

pub mod asker;
mod guarded;
mod observer;
pub mod present;
pub mod server;
mod subscriptions;
pub mod wire;
