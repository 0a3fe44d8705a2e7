//! The index through its one door, in one binary: answers, histories, damage, meaning.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod cache;
mod histories;
mod meaning;
mod projects;
mod queries;
mod support;
