//! `get_context`: the smallest set of stored texts for a task, items or changed files.

pub(crate) mod always_rules;
pub(crate) mod candidate_texts;
mod found_texts;
pub(crate) mod get_context;
mod linked_texts;
#[cfg(test)]
mod tests;
