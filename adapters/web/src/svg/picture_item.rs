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
    /// Of a status that the project defines.
    #[serde(skip)]
    pub category: Option<StatusCategory>,
    /// The link of its row; relative or absolute.
    #[serde(skip)]
    pub href: Option<String>,
}

impl PictureItem {
    /// Sets the category of a status of the project, so that its mark has the category's colour.
    pub fn set_category(&mut self, schema: &RecordSchema) {
        let kind = Reference::parse(&self.reference_id).map_or("", |id| id.kind.name());
        let status = self.status.as_deref().and_then(Status::parse);
        if let Some(status @ Status::Custom(_)) = status {
            self.category = schema.named_category(kind, status.name());
        }
    }

    /// The status whose mark the item has.
    pub(super) fn mark(&self) -> &str {
        match self.category {
            Some(StatusCategory::Open) => Status::Backlog.name(),
            Some(StatusCategory::Active) => Status::InProgress.name(),
            Some(StatusCategory::Done) => Status::Done.name(),
            Some(StatusCategory::Dropped) => Status::Cancelled.name(),
            None => self.status.as_deref().unwrap_or_default(),
        }
    }
}
