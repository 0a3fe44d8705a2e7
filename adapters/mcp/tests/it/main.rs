//! The server through its line interface, in both protocol eras, over a stub service.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod client;
mod requests;
mod subscriptions;
