//! The answer of `ixchel_tags`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// With untagged: items, else tags.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct TagReport {
    pub total: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<TagCount>")]
    pub tags: Option<Vec<TagCount>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<UntaggedItem>")]
    pub items: Option<Vec<UntaggedItem>>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct TagCount {
    pub tag: String,
    pub count: usize,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct UntaggedItem {
    pub id: String,
    pub kind: String,
    pub title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    pub path: String,
}
