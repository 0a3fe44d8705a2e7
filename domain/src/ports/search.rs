//! Port of the search index, which ranks items lexically and semantically.
//!
//! The index is a cache derived from documents. It can be deleted at any time.

use std::collections::BTreeMap;

use async_trait::async_trait;

use crate::document::{DocumentId, Version};
use crate::error::Result;
use crate::project_key::ProjectKey;
use crate::search::{DocumentProjection, IndexDifference, SearchHits, SearchQuery};

/// Ranks the items of each project. A missing, damaged or outdated index is not an error: it is
/// empty, and callers fill it again.
#[cfg_attr(feature = "test-doubles", mockall::automock)]
#[async_trait]
pub trait SearchIndex: Send + Sync {
    /// The indexed documents with their versions. Callers compare them with the storage's versions.
    async fn indexed_versions(&self, project: &ProjectKey)
    -> Result<BTreeMap<DocumentId, Version>>;

    /// Adds, replaces or removes documents. The next search finds the new items, although their
    /// embeddings may follow later ([`SearchHits::pending`]).
    async fn apply_projections(
        &self,
        project: &ProjectKey,
        projections: Vec<DocumentProjection>,
    ) -> Result<()>;

    /// The best items. Any text is a valid query.
    async fn search(&self, project: &ProjectKey, query: &SearchQuery) -> Result<SearchHits>;

    /// Changes whenever the index may have lost documents, after an error or a reopening. Callers
    /// then compare [`indexed_versions`](Self::indexed_versions) with the storage again.
    async fn generation(&self, project: &ProjectKey) -> Result<u64>;

    /// Compares these versions with those of the last checkpoint of this name, and stores them as
    /// the new checkpoint. After the loss of the index, all documents are new.
    async fn update_checkpoint(
        &self,
        project: &ProjectKey,
        name: &'static str,
        versions: BTreeMap<DocumentId, Version>,
    ) -> Result<IndexDifference>;
}
