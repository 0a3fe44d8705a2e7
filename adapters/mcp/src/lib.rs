//! The Model Context Protocol over the application service; only this crate and the transports
//! depend on rmcp.

mod connection_project;
pub mod convert;
mod handlers;
pub mod jsonrpc;
mod message_id;
pub mod request_context;
pub mod server;
pub mod shutdown;
mod static_lists;
mod subscriptions;
mod surrogates;
