//! Tests with a storage that rejects rows for a while.

use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use reqlore_domain::audit_log::{AuditRow, ChainHead};
use reqlore_domain::identity::Access;
use reqlore_domain::ports::documents::StoreError;
use reqlore_domain::timestamp::Timestamp;
use reqlore_storage_memory::{RowStore, memory_store};

use super::*;

/// Accepts rows only while `is_available` is set.
struct FailingLog {
    store: RowStore,
    is_available: AtomicBool,
}

impl FailingLog {
    fn new() -> Self {
        Self { store: memory_store(), is_available: AtomicBool::new(false) }
    }
}

#[async_trait]
impl AuditLog for FailingLog {
    async fn append_events(&self, events: Vec<AuditEvent>) -> StoreResult<()> {
        if self.is_available.load(Ordering::Relaxed) {
            return self.store.append_events(events).await;
        }
        Err(StoreError::Busy { reason: "not now".to_owned() })
    }

    async fn rows(&self, from: u64, limit: usize) -> StoreResult<Vec<AuditRow>> {
        self.store.rows(from, limit).await
    }

    async fn newest(&self) -> StoreResult<ChainHead> {
        self.store.newest().await
    }

    async fn prune(&self, older_than: Timestamp, now: Timestamp) -> StoreResult<u64> {
        self.store.prune(older_than, now).await
    }
}

fn row(number: usize) -> AuditEvent {
    AuditEvent::rejected("test", "ok", number.to_string(), Timestamp::default())
}

// Accepted events are written; no call goes unrecorded.
#[tokio::test]
async fn full_audit_queue_rejects_calls_until_rows_are_written() {
    let log = Arc::new(FailingLog::new());
    let recorder = AuditRecorder::new(Some(Arc::clone(&log) as _), Arc::new(Timestamp::default()));
    let (mut accepted, mut rejected) = (0, 0);
    for number in 0..MAX_PENDING_ROWS + 10 {
        match recorder.add_event(row(number)).await {
            Ok(()) => accepted += 1,
            Err(error) => {
                assert_eq!(error.kind, ErrorKind::Unavailable);
                rejected += 1;
            }
        }
    }
    assert_eq!((accepted, rejected), (MAX_PENDING_ROWS, 10));
    assert!(recorder.is_failing(), "a server is not ready");
    log.is_available.store(true, Ordering::Relaxed);
    recorder.add_event(row(0)).await.unwrap();
    recorder.flush().await.unwrap();
    assert!(!recorder.is_failing());
    assert_eq!(log.newest().await.unwrap().number, MAX_PENDING_ROWS as u64 + 1);
}

async fn refuse(recorder: &AuditRecorder, kind: ErrorKind) {
    let caller = Caller::local("ann", Access::Read);
    recorder.record_access(AccessRecord::new(&caller, "id", "test"), Some(kind)).await.unwrap();
}

#[tokio::test]
async fn refusals_are_written_at_once_and_other_rows_with_them() {
    let log = Arc::new(FailingLog::new());
    log.is_available.store(true, Ordering::Relaxed);
    let recorder = AuditRecorder::new(Some(Arc::clone(&log) as _), Arc::new(Timestamp::default()));
    let mut expected = 0;
    for kind in ErrorKind::ALL {
        recorder.add_event(row(0)).await.unwrap();
        refuse(&recorder, kind).await;
        let rows = log.newest().await.unwrap().number;
        let pending = recorder.lock_pending().rows.len() as u64;
        if is_refusal(kind) {
            assert_eq!(pending, 0, "{kind:?}");
        }
        expected += 2;
        assert_eq!(rows + pending, expected);
    }
    assert!(is_refusal(ErrorKind::Forbidden) && !is_refusal(ErrorKind::Unavailable));
}

#[tokio::test]
async fn refusals_beyond_the_queue_are_counted_in_one_row() {
    let log = Arc::new(FailingLog::new());
    let recorder = AuditRecorder::new(Some(Arc::clone(&log) as _), Arc::new(Timestamp::default()));
    for _ in 0..MAX_PENDING_REFUSALS + 7 {
        refuse(&recorder, ErrorKind::Forbidden).await;
    }
    // Reads still have their half of the queue.
    recorder.add_event(row(0)).await.unwrap();
    log.is_available.store(true, Ordering::Relaxed);
    recorder.flush().await.unwrap();
    let rows = log.rows(1, usize::MAX).await.unwrap();
    assert_eq!(rows.len(), MAX_PENDING_REFUSALS + 2);
    let last = rows.last().unwrap().parse_event().unwrap();
    assert_eq!((&*last.action, &*last.reason), ("audit/overflow", "7 more calls were refused"));
    recorder.flush().await.unwrap();
    assert_eq!(log.newest().await.unwrap().number, MAX_PENDING_REFUSALS as u64 + 2);
}
