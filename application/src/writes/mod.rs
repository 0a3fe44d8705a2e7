//! Writes of documents: changes, their transaction, and the guard against lost changes.

pub(crate) mod batch;
pub(crate) mod change;
pub(crate) mod commit_state;
pub(crate) mod local_names;
pub(crate) mod pending_unlinks;
pub(crate) mod rank_position;
pub(crate) mod read_versions;
pub(crate) mod record_answer;
pub(crate) mod record_change;
pub(crate) mod record_fields;
pub(crate) mod record_links;
pub(crate) mod rule_edits;
pub(crate) mod stored_record;
pub(crate) mod superseded_records;
pub(crate) mod transaction;
pub(crate) mod write_guard;
pub(crate) mod written_rule;
