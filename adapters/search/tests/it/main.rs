//! The index through its one door, in one binary: answers, histories, damage, meaning.

mod cache;
mod histories;
mod meaning;
mod queries;
mod support;
