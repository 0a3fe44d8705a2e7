//! The backlog (S2; S5 6 to 8): tools, resources and prompts over epics, user stories, requirements
//! and acceptance criteria.

pub(crate) mod changed;
pub(crate) mod find;
pub(crate) mod given;
pub(crate) mod prompts;
pub(crate) mod record;
pub(crate) mod resources;

use crate::tool::Tool;

pub(crate) fn tools() -> Vec<Box<dyn Tool>> {
    Vec::new()
}
