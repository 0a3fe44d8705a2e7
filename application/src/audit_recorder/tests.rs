//! A storage that takes no rows for a while.

use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use reqlore_domain::audit_log::{AuditRow, ChainHead};
use reqlore_domain::ports::documents::StoreError;
use reqlore_domain::timestamp::Timestamp;
use reqlore_storage_memory::MemoryStore;

use super::*;

/// Takes rows only while it is told so.
#[derive(Default)]
struct Moody {
    store: MemoryStore,
    takes: AtomicBool,
}

#[async_trait]
impl AuditLog for Moody {
    async fn record(&self, entries: Vec<AuditEvent>) -> StoreResult<()> {
        if self.takes.load(Ordering::Relaxed) {
            return self.store.record(entries).await;
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
    AuditEvent::refused("test", "ok", number.to_string(), Timestamp::default())
}

/// Nobody is answered off the record, and what was promised a row gets it.
#[tokio::test]
async fn when_no_row_is_taken_callers_are_refused_until_one_is() {
    let log = Arc::new(Moody::default());
    let recorder = AuditRecorder::new(Some(Arc::clone(&log) as _), Arc::new(Timestamp::default()));
    let (mut kept, mut refused) = (0, 0);
    for number in 0..MAX_PENDING_ROWS + 10 {
        match recorder.add_event(row(number)).await {
            Ok(()) => kept += 1,
            Err(error) => {
                assert_eq!(error.kind, ErrorKind::Unavailable);
                refused += 1;
            }
        }
    }
    assert_eq!((kept, refused), (MAX_PENDING_ROWS, 10));
    log.takes.store(true, Ordering::Relaxed);
    recorder.add_event(row(0)).await.unwrap();
    recorder.flush().await.unwrap();
    assert_eq!(log.newest().await.unwrap().number, MAX_PENDING_ROWS as u64 + 1);
}
