//! Reads documents for the search index, within a limit of memory.

use std::sync::Arc;

use reqlore_domain::document::{
    Document, DocumentId, DocumentKind, DocumentMeta, MAX_DOCUMENT_BYTES, Version,
};
use reqlore_domain::error::Result;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::search::DocumentProjection;

use crate::documents::get_one;
use crate::ports::ApplicationPorts;

/// Documents per page when metadata is listed.
pub(crate) const PAGE_SIZE: usize = 1_000;
/// The shares of the memory limit for bodies that are read at a time, and for texts that are passed
/// to the search index at a time. The index uses the rest.
const READ_SHARE: usize = 4;
const BATCH_SHARE: usize = 16;

/// Projects the first of these documents, at least one, within the memory limit.
pub(crate) async fn read_projections(
    ports: &ApplicationPorts,
    project: &ProjectKey,
    ids: &[DocumentId],
) -> Result<Vec<DocumentProjection>> {
    let memory_bytes = ports.settings.index_memory_bytes;
    // The size of a document is not known before it is read, so each may have the maximum size.
    let read_count = (memory_bytes / READ_SHARE / MAX_DOCUMENT_BYTES).max(1);
    let metadata = entity_metadata(ports, project, ids).await?;
    let mut projections = Vec::with_capacity(ids.len());
    let mut size_bytes = 0;
    for (ids, metadata) in ids.chunks(read_count).zip(metadata.chunks(read_count)) {
        let outcomes = read_documents(ports, project, ids).await;
        for ((id, outcome), meta) in ids.iter().zip(outcomes).zip(metadata) {
            let projection = make_projection(id, outcome, meta.as_deref());
            size_bytes += projection.size_bytes();
            projections.push(projection);
        }
        if size_bytes > memory_bytes / BATCH_SHARE {
            break;
        }
    }
    Ok(projections)
}

fn make_projection(
    id: &DocumentId,
    outcome: ReadOutcome,
    meta: Option<&DocumentMeta>,
) -> DocumentProjection {
    match outcome {
        ReadOutcome::Missing => DocumentProjection::without_items(id.clone(), None),
        ReadOutcome::Failed => {
            DocumentProjection::without_items(id.clone(), Some(Version::UNREADABLE))
        }
        ReadOutcome::Document(document) => {
            // Metadata of another version is not usable; the text is parsed instead.
            let meta = meta.filter(|meta| meta.version == document.version);
            let entity = meta.and_then(|meta| meta.entity.as_deref().cloned());
            DocumentProjection::from_document(&document, entity)
        }
    }
}

enum ReadOutcome {
    Document(Document),
    Missing,
    Failed,
}

impl From<Option<Document>> for ReadOutcome {
    fn from(document: Option<Document>) -> Self {
        document.map_or(Self::Missing, Self::Document)
    }
}

/// Reads documents. An unreadable one does not affect the rest.
async fn read_documents(
    ports: &ApplicationPorts,
    project: &ProjectKey,
    ids: &[DocumentId],
) -> Vec<ReadOutcome> {
    if ids.is_empty() {
        return Vec::new();
    }
    if let Ok(documents) = ports.documents.get(project, ids).await {
        return documents.into_iter().map(ReadOutcome::from).collect();
    }
    // One failed document fails them all, so each is read alone.
    let mut outcomes = Vec::with_capacity(ids.len());
    for id in ids {
        outcomes.push(match get_one(&*ports.documents, project, id).await {
            Ok(document) => document.into(),
            Err(_) if is_listed(ports, project, id).await => ReadOutcome::Failed,
            // For example, a folder replaced the document.
            Err(_) => ReadOutcome::Missing,
        });
    }
    outcomes
}

/// True if the storage lists the document, or may do so.
async fn is_listed(ports: &ApplicationPorts, project: &ProjectKey, id: &DocumentId) -> bool {
    let name = std::slice::from_ref(&id.name);
    match ports.documents.lookup(project, id.kind, name).await {
        Ok(found) => found.iter().flatten().any(|meta| meta.id == *id),
        Err(_) => true,
    }
}

/// Returns the stored metadata of the entities among `ids`, so that they are not parsed again.
async fn entity_metadata(
    ports: &ApplicationPorts,
    project: &ProjectKey,
    ids: &[DocumentId],
) -> Result<Vec<Option<Arc<DocumentMeta>>>> {
    let entities = ids.iter().filter(|id| id.kind == DocumentKind::Entity);
    let names: Vec<String> = entities.map(|id| id.name.clone()).collect();
    let mut metadata = vec![None; ids.len()];
    if names.is_empty() {
        return Ok(metadata);
    }
    let found = ports.documents.lookup(project, DocumentKind::Entity, &names).await?;
    let mut found = found.into_iter();
    for (slot, id) in metadata.iter_mut().zip(ids) {
        if id.kind == DocumentKind::Entity {
            // An id in a front matter may equal the name of another file.
            let matches = found.next().unwrap_or_default();
            *slot = matches.into_iter().find(|meta| meta.id == *id);
        }
    }
    Ok(metadata)
}
