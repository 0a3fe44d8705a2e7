//! Deterministic SVG pictures of the backlog: pure functions from data to text.

mod canvas;
mod graph;
mod graph_walk;
mod progress;
#[cfg(test)]
mod tests;
mod tree;

use reqlore_domain::records::answers::lists::ProgressView;
use serde::Deserialize;

pub use canvas::PictureStyle;
pub use graph::draw_graph;
pub use graph_walk::{GraphEdge, GraphNode, GraphWalk};
pub use progress::draw_progress;
pub use tree::{draw_tree, tree_focus};

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
