//! Port of the search index, which ranks items lexically and semantically.
//!
//! The index is a cache derived from documents. It can be deleted at any time.

use std::collections::BTreeMap;

use async_trait::async_trait;
use reqlore_observed_ports::observed;

use super::change_page::ChangePosition;
use crate::document::{DocumentId, Version};
use crate::error::Result;
use crate::project_key::ProjectKey;
use crate::search::{DocumentProjection, IndexDifference, SearchHits, SearchQuery};

/// State of the indexes of all projects in this process, for metrics and reports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IndexStatus {
    pub open_indexes: u64,
    /// Open indexes held in memory because their folder is unusable.
    pub indexes_in_memory: u64,
    /// Total size of the files of open indexes in bytes.
    pub disk_bytes: u64,
    /// Reads of index files since the start that were served from the cache.
    pub cache_hits: u64,
    /// Reads of index files from disk since the start.
    pub cache_misses: u64,
    /// Texts of open indexes that await embedding.
    pub unembedded_texts: u64,
}

/// Ranks the items of each project. A missing, damaged or outdated index is not an error: it is
/// empty, and callers fill it again.
#[observed]
#[async_trait]
pub trait SearchIndex: Send + Sync {
    /// The position in the storage's history up to which all documents are indexed. `None` for an
    /// index that is new or that was damaged. Callers then compare
    /// [`indexed_versions`](Self::indexed_versions) with the storage's versions, and keep the index
    /// at [`ChangePosition::BUILDING`] meanwhile.
    async fn position(&self, project: &ProjectKey) -> Result<Option<ChangePosition>>;

    /// Call it before a build that takes long. Returns false while another process builds the index
    /// of the project; true with a position means that the index is now a copy of that one.
    async fn begin_build(&self, _: &ProjectKey) -> Result<bool> {
        Ok(true)
    }

    /// The indexed documents after `after` with their versions, sorted, at most `limit`.
    async fn indexed_versions<'a>(
        &self,
        project: &ProjectKey,
        after: Option<&'a DocumentId>,
        limit: usize,
    ) -> Result<Vec<(DocumentId, Version)>>;

    /// The indexed versions of documents; `None` for one that is not indexed.
    async fn versions(
        &self,
        project: &ProjectKey,
        documents: &[DocumentId],
    ) -> Result<Vec<Option<Version>>>;

    /// Adds, replaces or removes documents, and moves the index to `position` in the same step;
    /// without one, its position stays. The next search finds the new items, although their
    /// embeddings may follow later ([`SearchHits::pending`]). A call whose future is dropped takes
    /// effect before the next call, or not at all.
    async fn apply_projections(
        &self,
        project: &ProjectKey,
        projections: Vec<DocumentProjection>,
        position: Option<ChangePosition>,
    ) -> Result<()>;

    /// The best items, those that have ended last unless the query names them. Any text is a valid
    /// query.
    async fn search(&self, project: &ProjectKey, query: &SearchQuery) -> Result<SearchHits>;

    /// Compares these versions with those of the last checkpoint of this name, and stores them as
    /// the new checkpoint. After the loss of the index, all documents are new.
    async fn update_checkpoint(
        &self,
        project: &ProjectKey,
        name: &'static str,
        versions: BTreeMap<DocumentId, Version>,
    ) -> Result<IndexDifference>;

    /// Removes the project's index from this machine, with texts that were replaced. Running
    /// processes build theirs again.
    async fn erase(&self, _: &ProjectKey) -> Result<()> {
        Ok(())
    }

    /// Reads counters only, so that it never waits for a search or for indexing.
    fn status(&self) -> IndexStatus {
        IndexStatus::default()
    }
}
