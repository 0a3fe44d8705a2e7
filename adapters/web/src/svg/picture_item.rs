//! The items of pictures, and the limits of pictures.

use reqlore_domain::records::answers::lists::ProgressView;
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
    pub progress: Option<ProgressView>,
    /// The link of its row; relative or absolute.
    #[serde(skip)]
    pub href: Option<String>,
}
