//! Answers of tools and the lines that they share.

pub(crate) mod answer;
pub(crate) mod document_label;
pub(crate) mod empty_answer;
pub(crate) mod entry_line;
pub(crate) mod incomplete_report;
pub(crate) mod show_keys;
