//! The server as a client sees it: lines in, lines out, in both eras, over a stub endpoint.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod asked;
mod client;
mod subscriptions;
