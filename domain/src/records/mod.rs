//! Records: items and entities with their fields. A project may add fields and statuses.

mod always_sections;
pub mod answers;
pub mod custom_field;
pub mod edit;
pub mod ended;
pub mod extra;
pub mod fields;
pub mod item_links;
pub mod kinds;
mod link_edits;
pub mod parse;
pub mod schema;
mod schema_text;
pub mod template;
mod text_list;
pub mod tombstone;
pub mod values;
