//! Records: items and entities with their fields. A project may add fields and statuses.

pub mod answers;
pub mod custom_field;
pub mod schema;
mod schema_text;
pub mod values;
