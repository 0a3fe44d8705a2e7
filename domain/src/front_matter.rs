//! Front matter, the YAML at the start of a Markdown file: split, parsed tolerantly, edited in
//! place.
//!
//! Front matter without a closing line is part of the body.

mod edit;
mod field_value;
mod misplaced;
mod parse;
#[cfg(test)]
mod tests;

pub use edit::{KeyEdit, edit, render_front_matter, with_body};
pub use field_value::FieldValue;
pub use parse::{
    DocumentParts, FrontMatter, body, find_title, has_body, parse, salvage_lines, split,
};
