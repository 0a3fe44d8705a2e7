//! The Model Context Protocol over the application service. Only this crate and the transports know
//! rmcp.

pub mod convert;
mod handlers;
pub mod jsonrpc;
pub mod request_context;
pub mod server;
pub mod shutdown;
mod static_lists;
mod subscriptions;
