//! Formats of other tools: reads their items, and writes items for them.

mod archive;
mod backlog_md;
mod columns;
mod csv;
mod doorstop;
mod github;
mod issue_fields;
mod jira;
mod json;
mod keyed_files;
mod kiro;
mod markdown;
mod names;
mod needs_json;
mod openspec;
mod outline;
mod reqif;
mod reqlix;
mod spec_files;
mod spec_kit;
mod statements;
mod strictdoc;
mod table;
#[cfg(test)]
mod tests;
mod xlsx;

use reqlore_domain::ports::exchange::ExchangeFormat;

/// All formats, in the order of recognition: a special form of a file comes before a general one.
pub const FORMATS: [&dyn ExchangeFormat; 14] = [
    &openspec::OpenSpec,
    &kiro::Kiro,
    &spec_kit::SpecKit,
    &backlog_md::BacklogMd,
    &doorstop::Doorstop,
    &strictdoc::StrictDoc,
    &reqlix::Reqlix,
    &csv::Csv,
    &xlsx::Xlsx,
    &github::GitHub,
    &needs_json::NeedsJson,
    &reqif::ReqIf,
    // Folders of data often have a README.
    &markdown::MarkdownDocument,
    &json::Json,
];

/// The formats of exports.
pub const EXPORT_FORMATS: [&dyn ExchangeFormat; 8] = [
    &openspec::OpenSpec,
    &strictdoc::StrictDoc,
    &csv::Csv,
    &xlsx::Xlsx,
    &needs_json::NeedsJson,
    &reqif::ReqIf,
    &markdown::MarkdownDocument,
    &json::Json,
];
