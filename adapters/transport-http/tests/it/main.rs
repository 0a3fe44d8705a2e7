//! The transport over real sockets and a stub application: authentication, responses and limits.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot continue fails"
)]

mod authentication;
mod batches;
mod connections;
mod forwarded;
mod health;
mod limits;
mod messages;
mod origin_and_target;
mod pages;
mod shutdown;
mod test_client;
mod test_server;
mod timeouts;
