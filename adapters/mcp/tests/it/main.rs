//! The server as a client sees it: lines in, lines out, in both eras, over a stub service.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod client;
mod requests;
mod subscriptions;
