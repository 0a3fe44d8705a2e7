//! What pictures show, and its limits.

use serde::Deserialize;

/// Maximum nodes of a picture. It counts the rest.
pub const MAX_NODES: usize = 300;

/// Maximum distance of a node from the focus of a graph.
pub const MAX_GRAPH_DEPTH: u32 = 3;

/// An item as `list_items` returns it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct PictureItem {
    pub reference_id: String,
    pub title: String,
    pub status: Option<String>,
    /// The reference of the epic or user story.
    pub parent: Option<String>,
    pub progress: Option<ChildProgress>,
    /// The link of its row; relative or absolute.
    #[serde(skip)]
    pub href: Option<String>,
}

/// The stories of an epic that are done, or the requirements of a story that are active, and all.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub struct ChildProgress {
    #[serde(alias = "active")]
    pub done: usize,
    pub total: usize,
}
