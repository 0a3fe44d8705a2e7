//! The storage with a time for each operation that calls wait for, whatever came of it.
//!
//! A storage is several ports, and whoever uses one of them gets that one wrapped. What only
//! administrators and upkeep ask is passed on untimed.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use reqlore_domain::audit::{self, AuditEvent, AuditRow};
use reqlore_domain::document::{Document, DocumentId, DocumentMeta, Kind, Version};
use reqlore_domain::identity::{Token, TokenId, TokenOwner, User};
use reqlore_domain::ports::audit::AuditLog;
use reqlore_domain::ports::documents::{
    BacklinkQuery, Changes, Commit, Committed, DocumentRepository, Filter, Page, Refresh, Revision,
    StoreResult,
};
use reqlore_domain::ports::idempotency::{IdempotencyRecord, IdempotencyStore};
use reqlore_domain::ports::identity::{IdentityCommit, IdentityRepository};
use reqlore_domain::project::ProjectKey;
use reqlore_domain::time::Timestamp;

/// Of each operation.
#[derive(Debug, Clone)]
pub(crate) struct Operations {
    get: Histogram,
    versions: Histogram,
    find: Histogram,
    named: Histogram,
    linking: Histogram,
    commit: Histogram,
    changes: Histogram,
    epoch: Histogram,
    holder: Histogram,
    record: Histogram,
    earlier: Histogram,
    keep: Histogram,
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
            epoch: of("epoch"),
            holder: of("holder"),
            record: of("record"),
            earlier: of("earlier"),
            keep: of("keep"),
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

/// A port of a storage whose operations are timed; see [`crate::Metrics::store`].
pub struct MeasuredStore<Port: ?Sized> {
    inner: Arc<Port>,
    operations: Operations,
}

impl<Port: ?Sized> MeasuredStore<Port> {
    pub(crate) fn new(inner: Arc<Port>, operations: Operations) -> Self {
        Self { inner, operations }
    }
}

impl<Port: ?Sized> std::fmt::Debug for MeasuredStore<Port> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MeasuredStore").finish_non_exhaustive()
    }
}

#[async_trait]
impl DocumentRepository for MeasuredStore<dyn DocumentRepository> {
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

    async fn lookup(
        &self,
        project: &ProjectKey,
        kind: Kind,
        words: &[String],
    ) -> StoreResult<Vec<Vec<Arc<DocumentMeta>>>> {
        timed(&self.operations.named, self.inner.lookup(project, kind, words)).await
    }

    async fn backlinks(
        &self,
        project: &ProjectKey,
        links: &BacklinkQuery,
    ) -> StoreResult<Vec<Vec<Arc<DocumentMeta>>>> {
        timed(&self.operations.linking, self.inner.backlinks(project, links)).await
    }

    async fn commit(&self, project: &ProjectKey, commit: Commit) -> StoreResult<Committed> {
        timed(&self.operations.commit, self.inner.commit(project, commit)).await
    }

    async fn changes(
        &self,
        project: &ProjectKey,
        kind: Kind,
        since: Revision,
        look: Refresh,
    ) -> StoreResult<Changes> {
        timed(&self.operations.changes, self.inner.changes(project, kind, since, look)).await
    }
}

#[async_trait]
impl IdentityRepository for MeasuredStore<dyn IdentityRepository> {
    async fn users(&self) -> StoreResult<Vec<User>> {
        self.inner.users().await
    }

    async fn tokens(&self) -> StoreResult<Vec<Token>> {
        self.inner.tokens().await
    }

    async fn holder(&self, id: &TokenId) -> StoreResult<Option<TokenOwner>> {
        timed(&self.operations.holder, self.inner.holder(id)).await
    }

    async fn epoch(&self) -> StoreResult<u64> {
        timed(&self.operations.epoch, self.inner.epoch()).await
    }

    async fn commit_identities(&self, commit: IdentityCommit) -> StoreResult<()> {
        self.inner.commit_identities(commit).await
    }

    async fn used(&self, uses: Vec<(TokenId, Timestamp)>) -> StoreResult<()> {
        self.inner.used(uses).await
    }
}

#[async_trait]
impl AuditLog for MeasuredStore<dyn AuditLog> {
    async fn record(&self, entries: Vec<AuditEvent>) -> StoreResult<()> {
        timed(&self.operations.record, self.inner.record(entries)).await
    }

    async fn rows(&self, from: u64, limit: usize) -> StoreResult<Vec<AuditRow>> {
        self.inner.rows(from, limit).await
    }

    async fn newest(&self) -> StoreResult<audit::ChainHead> {
        self.inner.newest().await
    }

    async fn prune(&self, older_than: Timestamp, now: Timestamp) -> StoreResult<u64> {
        self.inner.prune(older_than, now).await
    }
}

#[async_trait]
impl IdempotencyStore for MeasuredStore<dyn IdempotencyStore> {
    async fn find_record(&self, key: &str) -> StoreResult<Option<IdempotencyRecord>> {
        timed(&self.operations.earlier, self.inner.find_record(key)).await
    }

    async fn save_response(&self, key: &str, answer: String) -> StoreResult<()> {
        timed(&self.operations.keep, self.inner.save_response(key, answer)).await
    }

    async fn expire_records(&self, before: Timestamp) -> StoreResult<()> {
        self.inner.expire_records(before).await
    }
}

#[cfg(test)]
mod tests {
    use reqlore_domain::error::{Error, ErrorKind};
    use reqlore_domain::identity::{Access, Caller};
    use reqlore_domain::ports::documents::{Change, ReadSet, Snapshot, StoreError};
    use reqlore_domain::ports::write_context::WriteContext;
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
        let act = WriteContext {
            caller: Arc::new(Caller::local("me", Access::Write)),
            tool: "test",
            reason: String::new(),
            correlation_id: String::new(),
            at: Timestamp::default(),
            audited: None,
            once: None,
        };
        Commit { reads: ReadSet::of(vec![id()]), decide: Box::new(decide), act }
    }

    #[tokio::test]
    async fn each_operation_is_timed_and_answers_as_the_storage_does() {
        let metrics = Metrics::new("1", Timestamp::default());
        let store = metrics.store::<dyn DocumentRepository>(Arc::new(MemoryStore::default()));
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
        assert_eq!(store.lookup(&project, id().kind, &words).await.unwrap()[0].len(), 1);
        assert!(store.backlinks(&project, &BacklinkQuery::default()).await.unwrap().is_empty());
        let changes =
            store.changes(&project, id().kind, Revision(0), Refresh::Incremental).await.unwrap();
        assert_eq!(changes, Changes::Since { revision: committed.revision, ids: vec![id()] });

        let text = metrics.render();
        for operation in ["get", "versions", "find", "named", "linking", "changes"] {
            assert_eq!(times(&text, operation), Some(1.0), "{operation} in {text}");
        }
        assert_eq!(times(&text, "commit"), Some(2.0), "{text}");
    }

    fn times(text: &str, operation: &str) -> Option<f64> {
        let name = format!("reqlore_storage_duration_seconds_count{{operation=\"{operation}\"}}");
        value(text, &name)
    }

    #[tokio::test]
    async fn what_calls_ask_of_the_other_ports_is_timed_as_well() {
        let metrics = Metrics::new("1", Timestamp::default());
        let memory = Arc::new(MemoryStore::default());
        let identities = metrics.store::<dyn IdentityRepository>(memory.clone());
        assert_eq!(identities.epoch().await.unwrap(), memory.epoch().await.unwrap());
        let id = TokenId::parse("Ab3dEf6hIj9l").unwrap();
        assert_eq!(identities.holder(&id).await.unwrap(), None);
        let log = metrics.store::<dyn AuditLog>(memory.clone());
        log.record(Vec::new()).await.unwrap();
        assert_eq!(log.newest().await.unwrap(), memory.newest().await.unwrap());
        let answers = metrics.store::<dyn IdempotencyStore>(memory);
        answers.save_response("key", "answer".to_owned()).await.unwrap();
        assert!(answers.find_record("key").await.unwrap().is_none(), "no change, no key");
        let text = metrics.render();
        for operation in ["epoch", "holder", "record", "keep", "earlier"] {
            assert_eq!(times(&text, operation), Some(1.0), "{operation} in {text}");
        }
    }
}
