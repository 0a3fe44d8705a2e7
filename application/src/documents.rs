//! Reads of documents, for all toolsets.

use reqlore_domain::document::{Document, DocumentId};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::documents::{DocumentRepository, StoreResult};
use reqlore_domain::project_key::ProjectKey;

/// Maximum documents that are read at a time where many are read, because each may have 8 MiB.
pub(crate) const MAX_READ_DOCUMENTS: usize = 8;

/// Reads one document; `None` if it does not exist.
pub(crate) async fn get_one(
    documents: &dyn DocumentRepository,
    project: &ProjectKey,
    id: &DocumentId,
) -> StoreResult<Option<Document>> {
    let mut documents = documents.get(project, std::slice::from_ref(id)).await?;
    Ok(documents.pop().flatten())
}

/// A document's text, or an error that names the document.
pub(crate) fn document_text(document: &Document) -> Result<&str> {
    document
        .text()
        .map_err(|problem| Error::new(ErrorKind::Unreadable, format!("{}: {problem}", document.id)))
}
