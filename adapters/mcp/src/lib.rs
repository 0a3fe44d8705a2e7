//! The Model Context Protocol over the application service; only this crate and the transports
//! depend on rmcp.

mod connection_project;
pub mod convert;
pub mod failure_log;
mod handlers;
pub mod jsonrpc;
pub mod message_id;
mod methods;
pub mod request_context;
pub mod request_meta;
pub mod server;
pub mod shutdown;
mod skills;
mod static_lists;
mod subscriptions;
mod surrogates;
mod system;
mod tool_list_poller;
