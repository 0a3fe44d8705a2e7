//! Tests with a storage that rejects rows for a while.

use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use reqlore_domain::audit_log::{AuditRow, ChainHead};
use reqlore_domain::ports::documents::StoreError;
use reqlore_domain::timestamp::Timestamp;
use reqlore_storage_memory::MemoryStore;

use super::*;

/// Accepts rows only while `is_available` is set.
#[derive(Default)]
struct FailingLog {
    store: MemoryStore,
    is_available: AtomicBool,
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
    let log = Arc::new(FailingLog::default());
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
    log.is_available.store(true, Ordering::Relaxed);
    recorder.add_event(row(0)).await.unwrap();
    recorder.flush().await.unwrap();
    assert_eq!(log.newest().await.unwrap().number, MAX_PENDING_ROWS as u64 + 1);
}
