//! Answers of tools and the lines that they share.

pub(crate) mod answer;
pub(crate) mod empty_answer;
pub(crate) mod ended_hits;
pub(crate) mod shortened_text;
pub(crate) mod show_keys;
