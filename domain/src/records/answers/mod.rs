//! Answers of tools, which pages and commands read too.

pub mod applied_changes;
pub mod changes;
pub mod claims;
pub mod context;
pub mod csv;
pub mod cut_report;
pub mod details;
pub mod docsets;
pub mod document_label;
pub mod entry_line;
pub mod history;
pub mod items;
pub mod links;
pub mod lists;
pub mod ready;
pub mod record_schema;
pub mod search;
pub mod sections;
pub mod tags;
