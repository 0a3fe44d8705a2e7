//! The answer of `list_ready`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::lists::ListedItem;

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ReadyPage {
    pub items: Vec<ListedItem>,
    pub total: usize,
    // Number of stories that are not ready only because they wait.
    pub waiting: usize,
    // The first of them.
    pub waits: Vec<StoryWait>,
    // Stories that wait for each other.
    pub cycles: Vec<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    pub notes: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct StoryWait {
    pub reference_id: String,
    pub waits_for: Vec<String>,
}
