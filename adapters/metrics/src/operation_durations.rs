//! Durations of the operations of ports.

use std::time::Instant;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use reqlore_domain::ports::observed::{OperationObserver, PortOperations};

/// Durations of operations by their name.
#[derive(Debug, Clone)]
pub struct OperationDurations(DurationFamily);

impl OperationDurations {
    pub(crate) fn new(registry: &mut Registry, name: &str, help: &str) -> Self {
        let durations = duration_family();
        registry.register(name, help, durations.clone());
        Self(durations)
    }

    /// Creates the series of a port before its first operation, so that a rate includes it.
    pub(crate) fn of_port<Port: PortOperations + ?Sized>(&self) -> Self {
        for operation in Port::OPERATIONS {
            let _ = self.0.get_or_create(&[("operation", operation)]);
        }
        self.clone()
    }
}

impl OperationObserver for OperationDurations {
    type Running<'a> = OperationTimer<'a>;

    fn begin(&self, operation: &'static str) -> OperationTimer<'_> {
        OperationTimer { durations: &self.0, operation, started: Instant::now() }
    }
}

/// Records the duration on drop.
#[derive(Debug)]
pub struct OperationTimer<'a> {
    durations: &'a DurationFamily,
    operation: &'static str,
    started: Instant,
}

impl Drop for OperationTimer<'_> {
    fn drop(&mut self) {
        let duration = self.durations.get_or_create(&[("operation", self.operation)]);
        duration.observe(self.started.elapsed().as_secs_f64());
    }
}

/// Durations in seconds, by one label.
pub(crate) type DurationFamily =
    Family<[(&'static str, &'static str); 1], Histogram, fn() -> Histogram>;

pub(crate) fn duration_family() -> DurationFamily {
    Family::new_with_constructor(|| Histogram::new(DURATION_BUCKETS))
}

/// Upper bounds in seconds, from below the fastest read to the time limit of a request.
pub(crate) const DURATION_BUCKETS: [f64; 15] =
    [0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use reqlore_domain::document::DocumentId;
    use reqlore_domain::error::{Error, ErrorKind};
    use reqlore_domain::identity::{Access, Caller, TokenId};
    use reqlore_domain::ports::audit::AuditLog;
    use reqlore_domain::ports::documents::{
        BacklinkQuery, CommitRequest, DocumentChange, DocumentFilter, DocumentRepository, ReadSet,
        Refresh, Snapshot, StoreError,
    };
    use reqlore_domain::ports::history::{DocumentHistory, HistoryQuery};
    use reqlore_domain::ports::idempotency::IdempotencyStore;
    use reqlore_domain::ports::identity::IdentityRepository;
    use reqlore_domain::ports::write_context::WriteContext;
    use reqlore_domain::project_key::ProjectKey;
    use reqlore_domain::timestamp::Timestamp;
    use reqlore_storage_memory::memory_store;

    use crate::Metrics;
    use crate::tests::value;

    /// Operations that have been published.
    const OPERATIONS: [&str; 14] = [
        "get",
        "versions",
        "find",
        "lookup",
        "backlinks",
        "commit",
        "changes_since",
        "identity_epoch",
        "token_owner",
        "append_events",
        "find_record",
        "save_answer",
        "history",
        "document_at",
    ];

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
        records.save_answer("key", "answer".to_owned()).await.unwrap();
        assert!(records.find_record("key").await.unwrap().is_none(), "no change, no key");

        let text = metrics.render_text();
        let name = "reqlore_storage_duration_seconds_count";
        let timed = |operation| value(&text, &format!("{name}{{operation=\"{operation}\"}}"));
        for operation in OPERATIONS {
            let expected = if operation == "commit" { 2.0 } else { 1.0 };
            assert_eq!(timed(operation), Some(expected), "{operation} in {text}");
        }
        assert_eq!(timed("list"), Some(0.0), "{text}");
    }
}
