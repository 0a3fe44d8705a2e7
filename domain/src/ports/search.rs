//! Port of the search index: a cache derived from documents, ranked lexically and semantically.

use std::collections::BTreeMap;

use async_trait::async_trait;

use crate::document::{DocumentId, Version};
use crate::error::Result;
use crate::project_key::ProjectKey;
use crate::search::{DocumentProjection, IndexDifference, SearchHits, SearchQuery};

/// Ranks items by project. An index that is missing, damaged, outdated or incomplete is empty and
/// gets filled again; this is never an error.
#[cfg_attr(feature = "test-doubles", mockall::automock)]
#[async_trait]
pub trait SearchIndex: Send + Sync {
    /// The indexed documents and their versions, which callers compare with the storage's.
    async fn indexed(&self, project: &ProjectKey) -> Result<BTreeMap<DocumentId, Version>>;

    /// Adds or replaces these documents. The next search finds them; their vectors may follow later
    /// ([`SearchHits::pending`]).
    async fn apply(&self, project: &ProjectKey, projections: Vec<DocumentProjection>)
    -> Result<()>;

    /// The best items. Any text is a valid query.
    async fn search(&self, project: &ProjectKey, query: &SearchQuery) -> Result<SearchHits>;

    /// Changes whenever the index may have lost documents: after a fault that emptied it, or after
    /// it was closed and opened again. Then compare [`indexed`](Self::indexed) with the storage.
    async fn generation(&self, project: &ProjectKey) -> Result<u64>;

    /// Compares these versions with those of the last checkpoint of this name, and stores them for
    /// the next one. Stored with the index: after its loss everything is new.
    async fn checkpoint(
        &self,
        project: &ProjectKey,
        name: &'static str,
        versions: BTreeMap<DocumentId, Version>,
    ) -> Result<IndexDifference>;
}
