//! Deterministic SVG pictures of the backlog: pure functions from data to text.

mod canvas;
mod graph;
pub(crate) mod graph_walk;
pub(crate) mod picture_item;
mod progress;
#[cfg(test)]
mod tests;
mod tree;

pub use canvas::PictureStyle;
pub use graph::draw_graph;
pub use graph_walk::{GraphEdge, GraphNode, GraphWalk};
pub use picture_item::{MAX_GRAPH_DEPTH, MAX_NODES, PictureItem};
pub use progress::draw_progress;
pub use tree::{draw_tree, tree_focus};
