//! Imports items of other tools: plans the changes of an import by the identity of each item, and
//! reports them.
//!
//! A record that an import wrote names its source and a hash of what was written in the key
//! `imported_from`. A different hash of the record is an edit in the project, a different hash of
//! the source is an edit there.

mod changes;
mod decision;
pub(crate) mod import_items;
mod item_values;
mod new_fields;
mod parents;
mod plan;
mod report;

pub use self::changes::ChangeBatch;
pub use self::new_fields::new_fields;
pub use self::plan::{ImportOptions, ImportPlan};
pub use self::report::{ImportReport, ReportedItem};
