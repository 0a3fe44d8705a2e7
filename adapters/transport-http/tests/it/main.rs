//! The transport over real sockets, before a stub of the application: who gets in, what they are
//! told, and how much of everything they get.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can't go on fails"
)]

mod client;
mod door;
mod ending;
mod limits;
mod login;
mod messages;
mod probes;
mod proxy;
mod server;
mod slow;
