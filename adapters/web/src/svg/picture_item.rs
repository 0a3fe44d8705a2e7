//! The items of pictures, and the limits of pictures.

use reqlore_domain::backlog::{Reference, Status};
use reqlore_domain::records::answers::lists::ProgressView;
use reqlore_domain::records::schema::{RecordSchema, StatusCategory};
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
    /// The built-in status whose mark is drawn for a custom status.
    #[serde(skip)]
    pub same_mark: Option<Status>,
    /// The link of its row; relative or absolute.
    #[serde(skip)]
    pub href: Option<String>,
}

impl PictureItem {
    /// Draws a custom status with the mark of its category.
    pub fn set_mark(&mut self, schema: &RecordSchema) {
        let status = self.status.as_deref().and_then(Status::parse);
        let Some(status @ Status::Custom(_)) = status else { return };
        let category =
            Reference::parse(&self.reference_id).map(|id| schema.category(id.kind, status));
        self.same_mark = category.map(|category| match category {
            StatusCategory::Open => Status::Backlog,
            StatusCategory::Active => Status::InProgress,
            StatusCategory::Done => Status::Done,
            StatusCategory::Dropped => Status::Cancelled,
        });
    }

    pub(super) fn mark(&self) -> &str {
        let own = self.status.as_deref().unwrap_or_default();
        self.same_mark.as_ref().map_or(own, Status::name)
    }
}
