//! Cache of the bodies of small documents.

use std::collections::HashMap;

use bytes::Bytes;
use reqlore_domain::document::{DocumentId, Version};

use crate::layout::DocumentArea;

/// Bodies of the documents that are read most: sections, AGENTS.md and the docsets' configuration.
/// A body is valid for the version that it is stored with, because a version is its hash.
#[derive(Debug, Default)]
pub(super) struct BodyCache {
    bodies: HashMap<DocumentId, (Version, Bytes)>,
    pub(super) size: usize,
}

impl BodyCache {
    /// The limit of one project.
    const MAX_BYTES: usize = 256 * 1024;

    pub(super) fn get(&self, id: &DocumentId, version: Version) -> Option<Bytes> {
        let (cached, body) = self.bodies.get(id)?;
        (*cached == version).then(|| body.clone())
    }

    pub(super) fn put(&mut self, id: &DocumentId, version: Version, body: &Bytes) {
        if DocumentArea::of_kind(id.kind).is_some() || body.len() > Self::MAX_BYTES {
            return;
        }
        if self.size + body.len() > Self::MAX_BYTES {
            // Simpler than evicting one by one, and these few documents are soon cached again.
            *self = Self::default();
        }
        self.size += body.len();
        if let Some((_, old)) = self.bodies.insert(id.clone(), (version, body.clone())) {
            self.size -= old.len();
        }
    }
}
