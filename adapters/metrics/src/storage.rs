//! The storage with a time for each operation, whatever came of it.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use reqlore_domain::document::{Document, DocumentId, Head, Kind, Version};
use reqlore_domain::ports::documents::{
    Changes, Commit, Committed, DocumentRepository, Filter, Links, Look, Page, Revision,
    StoreResult,
};
use reqlore_domain::project::ProjectKey;

/// Of each operation of the port.
#[derive(Debug, Clone)]
pub(crate) struct Operations {
    get: Histogram,
    versions: Histogram,
    find: Histogram,
    named: Histogram,
    linking: Histogram,
    commit: Histogram,
    changes: Histogram,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Operation {
    operation: &'static str,
}

impl Operations {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let family: Family<Operation, Histogram, fn() -> Histogram> =
            Family::new_with_constructor(crate::histogram);
        registry.register(
            "reqlore_storage_duration_seconds",
            "How long the storage took, by operation; a commit includes waiting for its turn",
            family.clone(),
        );
        let of = |operation| family.get_or_create_owned(&Operation { operation });
        Self {
            get: of("get"),
            versions: of("versions"),
            find: of("find"),
            named: of("named"),
            linking: of("linking"),
            commit: of("commit"),
            changes: of("changes"),
        }
    }
}

/// Observes at its end, however that comes.
struct Timer<'a>(&'a Histogram, Instant);

impl Drop for Timer<'_> {
    fn drop(&mut self) {
        self.0.observe(self.1.elapsed().as_secs_f64());
    }
}

async fn timed<T>(histogram: &Histogram, operation: impl Future<Output = T>) -> T {
    let _timer = Timer(histogram, Instant::now());
    operation.await
}

/// A storage whose operations are timed; see [`crate::Metrics::store`].
pub struct MeasuredStore {
    inner: Arc<dyn DocumentRepository>,
    operations: Operations,
}

impl MeasuredStore {
    pub(crate) fn new(inner: Arc<dyn DocumentRepository>, operations: Operations) -> Self {
        Self { inner, operations }
    }
}

impl std::fmt::Debug for MeasuredStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MeasuredStore").finish_non_exhaustive()
    }
}

#[async_trait]
impl DocumentRepository for MeasuredStore {
    async fn get(
        &self,
        project: &ProjectKey,
        ids: &[DocumentId],
    ) -> StoreResult<Vec<Option<Document>>> {
        timed(&self.operations.get, self.inner.get(project, ids)).await
    }

    async fn versions(
        &self,
        project: &ProjectKey,
        ids: &[DocumentId],
    ) -> StoreResult<Vec<Option<Version>>> {
        timed(&self.operations.versions, self.inner.versions(project, ids)).await
    }

    async fn find(&self, project: &ProjectKey, filter: &Filter) -> StoreResult<Page> {
        timed(&self.operations.find, self.inner.find(project, filter)).await
    }

    async fn named(
        &self,
        project: &ProjectKey,
        kind: Kind,
        words: &[String],
    ) -> StoreResult<Vec<Vec<Arc<Head>>>> {
        timed(&self.operations.named, self.inner.named(project, kind, words)).await
    }

    async fn linking(
        &self,
        project: &ProjectKey,
        links: &Links,
    ) -> StoreResult<Vec<Vec<Arc<Head>>>> {
        timed(&self.operations.linking, self.inner.linking(project, links)).await
    }

    async fn commit(&self, project: &ProjectKey, commit: Commit) -> StoreResult<Committed> {
        timed(&self.operations.commit, self.inner.commit(project, commit)).await
    }

    async fn changes(
        &self,
        project: &ProjectKey,
        kind: Kind,
        since: Revision,
        look: Look,
    ) -> StoreResult<Changes> {
        timed(&self.operations.changes, self.inner.changes(project, kind, since, look)).await
    }
}

#[cfg(test)]
mod tests {
    use reqlore_domain::error::{Error, ErrorKind};
    use reqlore_domain::identity::{Access, Caller};
    use reqlore_domain::ports::act::Act;
    use reqlore_domain::ports::documents::{Change, Reads, Snapshot, StoreError};
    use reqlore_domain::time::Timestamp;
    use reqlore_storage_memory::MemoryStore;

    use super::*;
    use crate::Metrics;
    use crate::tests::value;

    fn id() -> DocumentId {
        DocumentId::section("auth")
    }

    fn commit(
        decide: impl FnMut(&Snapshot) -> Result<Vec<Change>, Error> + Send + 'static,
    ) -> Commit {
        let act = Act {
            caller: Arc::new(Caller::local("me", Access::Write)),
            tool: "test",
            reason: String::new(),
            correlation_id: String::new(),
            at: Timestamp::default(),
            audited: None,
            once: None,
        };
        Commit { reads: Reads::of(vec![id()]), decide: Box::new(decide), act }
    }

    #[tokio::test]
    async fn each_operation_is_timed_and_answers_as_the_storage_does() {
        let metrics = Metrics::new("1", Timestamp::default());
        let store = metrics.store(Arc::new(MemoryStore::default()));
        let project = ProjectKey::default();
        let put = |_: &Snapshot| Ok(vec![Change::put(id(), "text")]);
        let committed = store.commit(&project, commit(put)).await.unwrap();
        let refuse = |_: &Snapshot| Err(Error::new(ErrorKind::Refused, "no"));
        let refused = store.commit(&project, commit(refuse)).await.unwrap_err();
        assert!(matches!(refused, StoreError::Decided(_)), "{refused:?}");

        let found = store.get(&project, &[id()]).await.unwrap();
        assert_eq!(found[0].as_ref().unwrap().body, "text");
        assert_eq!(store.versions(&project, &[id()]).await.unwrap(), committed.versions);
        let filter = Filter::all(id().kind);
        assert_eq!(store.find(&project, &filter).await.unwrap().total, 1);
        let words = ["auth".to_owned()];
        assert_eq!(store.named(&project, id().kind, &words).await.unwrap()[0].len(), 1);
        assert!(store.linking(&project, &Links::default()).await.unwrap().is_empty());
        let changes = store.changes(&project, id().kind, Revision(0), Look::Changed).await.unwrap();
        assert_eq!(changes, Changes::Since { revision: committed.revision, ids: vec![id()] });

        let text = metrics.render();
        for (operation, times) in [
            ("get", 1.0),
            ("versions", 1.0),
            ("find", 1.0),
            ("named", 1.0),
            ("linking", 1.0),
            ("commit", 2.0),
            ("changes", 1.0),
        ] {
            let count =
                format!("reqlore_storage_duration_seconds_count{{operation=\"{operation}\"}}");
            assert_eq!(value(&text, &count), Some(times), "{text}");
        }
    }
}
