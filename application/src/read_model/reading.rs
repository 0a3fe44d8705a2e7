//! Reading documents for the read models.

use reqlore_domain::document::{Document, DocumentId};
use reqlore_domain::project::ProjectKey;

use crate::Ports;

/// What became of reading one document.
pub(super) enum Read {
    Document(Document),
    Gone,
    Fault,
}

/// Reads documents; one that can't be read harms no other.
pub(super) async fn read(ports: &Ports, project: &ProjectKey, ids: &[DocumentId]) -> Vec<Read> {
    if ids.is_empty() {
        return Vec::new();
    }
    let as_read = |found: Option<Document>| found.map_or(Read::Gone, Read::Document);
    if let Ok(documents) = ports.documents.get(project, ids).await {
        return documents.into_iter().map(as_read).collect();
    }
    let mut all = Vec::with_capacity(ids.len());
    for id in ids {
        all.push(match ports.documents.get(project, std::slice::from_ref(id)).await {
            Ok(documents) => documents.into_iter().next().map_or(Read::Gone, as_read),
            Err(_) => Read::Fault,
        });
    }
    all
}
