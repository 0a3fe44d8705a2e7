//! Tests of the search index through its port.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod cache;
mod cancelled_calls;
mod index_folders;
mod index_history;
mod private_cache;
mod projects;
mod queries;
mod semantic;
mod support;
