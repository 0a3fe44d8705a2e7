//! The driven port to the search index: a cache of what documents say, ranked by words and meaning.

use std::collections::BTreeMap;

use async_trait::async_trait;

use crate::document::{DocumentId, Version};
use crate::error::Result;
use crate::project::ProjectKey;
use crate::search::{Difference, Hits, Projection, Query};

/// Ranks items, project by project. It is derived and disposable: an index that is gone, damaged,
/// of another format or half written is empty and gets filled again; that is never an error.
#[cfg_attr(feature = "test-doubles", mockall::automock)]
#[async_trait]
pub trait SearchIndex: Send + Sync {
    /// Which documents are indexed, at which version; whoever fills it compares with that.
    async fn indexed(&self, project: &ProjectKey) -> Result<BTreeMap<DocumentId, Version>>;

    /// Takes these documents in, each in the place of what was known of it. The next search sees
    /// them; their meaning may follow later ([`Hits::pending`]).
    async fn apply(&self, project: &ProjectKey, projections: Vec<Projection>) -> Result<()>;

    /// The best items. Any text is a good query: what matches nothing finds nothing.
    async fn search(&self, project: &ProjectKey, query: &Query) -> Result<Hits>;

    /// A number that changes whenever the index may know less than it was given: a fault emptied
    /// it, or it was closed and opened again. Who filled it compares this with what it was, and
    /// then what is [`indexed`](Self::indexed) with what there is.
    async fn losses(&self, project: &ProjectKey) -> Result<u64>;

    /// Compares these versions with those of the last checkpoint of this name, and keeps them for
    /// the next one. Kept with the index: after its loss everything is new.
    async fn checkpoint(
        &self,
        project: &ProjectKey,
        name: &'static str,
        versions: BTreeMap<DocumentId, Version>,
    ) -> Result<Difference>;
}
