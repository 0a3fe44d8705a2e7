//! Times the operations of a storage that requests wait for.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use prometheus_client::registry::Registry;
use reqlore_domain::audit_log::{self, AuditEvent, AuditRow};
use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::document::{Document, DocumentId, DocumentKind, DocumentMeta, Version};
use reqlore_domain::identity::{Token, TokenId, TokenOwner, User};
use reqlore_domain::ports::audit::AuditLog;
use reqlore_domain::ports::change_page::{ChangePage, ChangePosition};
use reqlore_domain::ports::documents::{
    BacklinkQuery, CommitRequest, CommitResult, DocumentFilter, DocumentRepository, MetadataPage,
    Refresh, StoreResult,
};
use reqlore_domain::ports::entity_list::{
    DuplicateIds, EntityCounts, SimilarEntities, UntaggedList,
};
use reqlore_domain::ports::history::{DocumentHistory, HistoryPage, HistoryQuery, RecentChange};
use reqlore_domain::ports::idempotency::{IdempotencyRecord, IdempotencyStore};
use reqlore_domain::ports::identity::{IdentityCommit, IdentityRepository};
use reqlore_domain::ports::item_list::{DiagnosticList, ItemPage, ItemQuery, StatusCounts};
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;

use crate::{DurationFamily, duration_family};

/// Labels that exist from the start of the process.
const OPERATIONS: [&str; 14] = [
    "get",
    "versions",
    "find",
    "named",
    "linking",
    "commit",
    "changes",
    "epoch",
    "holder",
    "record",
    "earlier",
    "keep",
    "history",
    "document_at",
];

#[derive(Debug, Clone)]
pub(crate) struct StoreMetrics(DurationFamily);

impl StoreMetrics {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let durations = duration_family();
        registry.register(
            "reqlore_storage_duration_seconds",
            "Duration of storage operations; a commit includes the wait for the write lock",
            durations.clone(),
        );
        for operation in OPERATIONS {
            // Created before the first operation, so that a rate includes it.
            let _ = durations.get_or_create(&[("operation", operation)]);
        }
        Self(durations)
    }

    async fn time_operation<T>(&self, operation: &'static str, work: impl Future<Output = T>) -> T {
        let _timer = OperationTimer::start(&self.0, operation);
        work.await
    }
}

/// Records the duration on drop, also after a time limit or a panic.
pub(crate) struct OperationTimer<'a> {
    durations: &'a DurationFamily,
    operation: &'static str,
    started: Instant,
}

impl<'a> OperationTimer<'a> {
    pub(crate) fn start(durations: &'a DurationFamily, operation: &'static str) -> Self {
        Self { durations, operation, started: Instant::now() }
    }
}

impl Drop for OperationTimer<'_> {
    fn drop(&mut self) {
        let duration = self.durations.get_or_create(&[("operation", self.operation)]);
        duration.observe(self.started.elapsed().as_secs_f64());
    }
}

/// Port of a storage whose operations are timed.
pub struct MeasuredStore<Port: ?Sized> {
    pub(crate) inner: Arc<Port>,
    pub(crate) metrics: StoreMetrics,
}

impl<Port: ?Sized> std::fmt::Debug for MeasuredStore<Port> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MeasuredStore").finish_non_exhaustive()
    }
}

/// Implements a port: each method calls the inner port, timed under its label if it has one.
/// Methods in braces are implemented as they are.
macro_rules! measured_port {
    (
        $port:ident $({ $($method_as_is:tt)* })?;
        $($($label:literal:)? $method:ident($($arg:ident: $type:ty),*) -> $result:ty;)*
    ) => {
        #[async_trait]
        impl $port for MeasuredStore<dyn $port> {
            $($($method_as_is)*)?

            $(async fn $method(&self, $($arg: $type),*) -> StoreResult<$result> {
                measured_port!(@call self, self.inner.$method($($arg),*) $(, $label)?)
            })*
        }
    };
    (@call $self:ident, $call:expr) => { $call.await };
    (@call $self:ident, $call:expr, $label:literal) => {
        $self.metrics.time_operation($label, $call).await
    };
}

measured_port! { DocumentRepository {
        fn for_call(&self) -> Option<Arc<dyn DocumentRepository>> {
            let inner = self.inner.for_call()?;
            Some(Arc::new(Self { inner, metrics: self.metrics.clone() }))
        }
    };
    "get": get(project: &ProjectKey, ids: &[DocumentId]) -> Vec<Option<Document>>;
    "versions": versions(project: &ProjectKey, ids: &[DocumentId]) -> Vec<Option<Version>>;
    "find": find(project: &ProjectKey, filter: &DocumentFilter) -> MetadataPage;
    "items": items(project: &ProjectKey, query: &ItemQuery) -> ItemPage;
    "child_statuses": child_statuses(project: &ProjectKey, kind: ItemKind, parents: &[Reference])
        -> Vec<StatusCounts>;
    "diagnostics": diagnostics(project: &ProjectKey, kind: DocumentKind, limit: usize)
        -> DiagnosticList;
    "entity_kinds": entity_kinds(project: &ProjectKey) -> EntityCounts;
    "tag_counts": tag_counts(project: &ProjectKey, kind: Option<String>) -> EntityCounts;
    "untagged": untagged(project: &ProjectKey, kind: Option<String>, limit: usize) -> UntaggedList;
    "similar_entities": similar_entities(project: &ProjectKey, text: &str) -> SimilarEntities;
    "duplicate_ids": duplicate_ids(project: &ProjectKey, limit: usize) -> DuplicateIds;
    "named": lookup(project: &ProjectKey, kind: DocumentKind, words: &[String])
        -> Vec<Vec<Arc<DocumentMeta>>>;
    "linking": backlinks(project: &ProjectKey, links: &BacklinkQuery)
        -> Vec<Vec<Arc<DocumentMeta>>>;
    "commit": commit(project: &ProjectKey, commit: CommitRequest) -> CommitResult;
    "changes": changes_since(
        project: &ProjectKey,
        since: Option<ChangePosition>,
        limit: usize,
        refresh: Refresh
    ) -> ChangePage;
}

measured_port! { DocumentHistory;
    "history": history(project: &ProjectKey, id: &DocumentId, query: &HistoryQuery) -> HistoryPage;
    "document_at": document_at(project: &ProjectKey, id: &DocumentId, version: Version)
        -> Option<Document>;
    recent_changes(project: &ProjectKey, since: Timestamp, limit: usize)
        -> Vec<RecentChange>;
    purge_history(
        project: &ProjectKey,
        id: &DocumentId,
        version: Option<Version>,
        context: WriteContext
    ) -> u64;
    prune_history(ended_before: Timestamp) -> u64;
}

// Operations that only administrators and maintenance use have no label.
measured_port! { IdentityRepository;
    list_users() -> Vec<User>;
    list_tokens() -> Vec<Token>;
    "holder": token_owner(id: &TokenId) -> Option<TokenOwner>;
    "epoch": identity_epoch() -> u64;
    commit_identities(commit: IdentityCommit) -> ();
    record_use(uses: Vec<(TokenId, Timestamp)>) -> ();
    expire_sessions(now: Timestamp) -> ();
}

measured_port! { AuditLog;
    "record": append_events(events: Vec<AuditEvent>) -> ();
    rows(from: u64, limit: usize) -> Vec<AuditRow>;
    newest() -> audit_log::ChainHead;
    prune(older_than: Timestamp, now: Timestamp) -> u64;
}

measured_port! { IdempotencyStore;
    "earlier": find_record(key: &str) -> Option<IdempotencyRecord>;
    "keep": save_response(key: &str, response: String) -> ();
    expire_records(before: Timestamp) -> ();
}

#[cfg(test)]
mod tests {
    use reqlore_domain::error::{Error, ErrorKind};
    use reqlore_domain::identity::{Access, Caller};
    use reqlore_domain::ports::documents::{DocumentChange, ReadSet, Snapshot, StoreError};
    use reqlore_domain::ports::write_context::WriteContext;
    use reqlore_storage_memory::memory_store;

    use super::*;
    use crate::Metrics;
    use crate::tests::value;

    fn id() -> DocumentId {
        DocumentId::section("auth")
    }

    fn commit(
        decide: impl FnMut(&Snapshot) -> Result<Vec<DocumentChange>, Error> + Send + 'static,
    ) -> CommitRequest {
        let context = WriteContext {
            caller: Arc::new(Caller::local("me", Access::Write)),
            tool: "test",
            reason: String::new(),
            correlation_id: String::new(),
            at: Timestamp::default(),
            audited: None,
            idempotency_key: None,
        };
        CommitRequest {
            read_set: ReadSet::of_documents(vec![id()]),
            decide: Box::new(decide),
            context,
        }
    }

    #[tokio::test]
    async fn measured_store_times_operations_and_returns_results() {
        let metrics = Metrics::new("1", Timestamp::default());
        let memory = Arc::new(memory_store());
        let store = metrics.measured_store::<dyn DocumentRepository>(memory.clone());
        let project = ProjectKey::default();
        let put = |_: &Snapshot| Ok(vec![DocumentChange::put(id(), "text")]);
        let committed = store.commit(&project, commit(put)).await.unwrap();
        let refuse = |_: &Snapshot| Err(Error::new(ErrorKind::Refused, "no"));
        let refused = store.commit(&project, commit(refuse)).await.unwrap_err();
        assert!(matches!(refused, StoreError::Decided(_)), "{refused:?}");

        let found = store.get(&project, &[id()]).await.unwrap();
        assert_eq!(found[0].as_ref().unwrap().body, "text");
        assert_eq!(store.versions(&project, &[id()]).await.unwrap(), committed.versions);
        let filter = DocumentFilter::of_kind(id().kind);
        assert_eq!(store.find(&project, &filter).await.unwrap().metadata.len(), 1);
        let words = ["auth".to_owned()];
        assert_eq!(store.lookup(&project, id().kind, &words).await.unwrap()[0].len(), 1);
        assert!(store.backlinks(&project, &BacklinkQuery::default()).await.unwrap().is_empty());
        let changes = store.changes_since(&project, None, 1, Refresh::Incremental).await.unwrap();
        assert_eq!(changes.position().revision, committed.revision);

        let identities = metrics.measured_store::<dyn IdentityRepository>(memory.clone());
        assert_eq!(
            identities.identity_epoch().await.unwrap(),
            memory.identity_epoch().await.unwrap()
        );
        let token = TokenId::parse("Ab3dEf6hIj9l").unwrap();
        assert_eq!(identities.token_owner(&token).await.unwrap(), None);
        let history = metrics.measured_store::<dyn DocumentHistory>(memory.clone());
        let query = HistoryQuery { after: None, limit: 1 };
        let page = history.history(&project, &id(), &query).await.unwrap();
        let version = page.entries[0].version.unwrap();
        assert!(history.document_at(&project, &id(), version).await.unwrap().is_some());
        let log = metrics.measured_store::<dyn AuditLog>(memory.clone());
        log.append_events(Vec::new()).await.unwrap();
        assert_eq!(log.newest().await.unwrap(), memory.newest().await.unwrap());
        let records = metrics.measured_store::<dyn IdempotencyStore>(memory);
        records.save_response("key", "response".to_owned()).await.unwrap();
        assert!(records.find_record("key").await.unwrap().is_none(), "no change, no key");

        let text = metrics.render_text();
        let name = "reqlore_storage_duration_seconds_count";
        for operation in OPERATIONS {
            let timed = value(&text, &format!("{name}{{operation=\"{operation}\"}}"));
            let expected = if operation == "commit" { 2.0 } else { 1.0 };
            assert_eq!(timed, Some(expected), "{operation} in {text}");
        }
    }
}
