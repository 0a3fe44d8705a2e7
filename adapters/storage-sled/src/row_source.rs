//! Implements the `Database` and `RowSource` of the row store on sled.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_ordered_rows::find_damaged_rows;
use reqlore_row_store::database::{Database, DatabaseHealth, ReadLimit, RowSource, WriteSession};
use reqlore_row_store::row::RowQuery;
use tokio::sync::OwnedRwLockReadGuard;

use crate::database::{OpenDatabase, QueriedRows, lock};
use crate::error::catch_sled_panic;
use crate::open::{INCOMPLETE, read_totals};
use crate::session::SledSession;

/// Maximum number of damages that a search returns.
const MAX_DAMAGES: usize = 100;

pub(crate) struct SledDatabase {
    open: Arc<OpenDatabase>,
}

impl fmt::Debug for SledDatabase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SledDatabase").finish_non_exhaustive()
    }
}

impl SledDatabase {
    pub(crate) fn new(open: Arc<OpenDatabase>) -> Self {
        Self { open }
    }
}

impl OpenDatabase {
    fn find_damage(&self) -> StoreResult<Vec<String>> {
        let mut damages = find_damaged_rows(self.tree(), MAX_DAMAGES)?;
        // After a failed sync, the totals are those before it.
        if damages.is_empty() && self.undo.get().is_none() {
            let is_complete = read_totals(&self.tree().0, || {})
                .is_ok_and(|totals| totals == lock(&self.state).totals);
            damages.extend((!is_complete).then(|| INCOMPLETE.to_owned()));
        }
        if let Some(first) = damages.first() {
            self.damage.report(first, first == INCOMPLETE);
        }
        Ok(damages)
    }
}

/// Runs work on a thread where blocking is allowed, and holds a lock until its end, even if the
/// caller stops waiting.
async fn run_blocking<T: Send + 'static>(
    database: &Arc<OpenDatabase>,
    guard: OwnedRwLockReadGuard<()>,
    work: impl FnOnce(&OpenDatabase) -> StoreResult<T> + Send + 'static,
) -> StoreResult<T> {
    let database = Arc::clone(database);
    let done = tokio::task::spawn_blocking(move || {
        let _guard = guard;
        catch_sled_panic(|| work(&database))
    });
    done.await.unwrap_or_else(|error| Err(StoreError::Internal(error.to_string())))
}

#[async_trait]
impl RowSource for SledDatabase {
    async fn read(&self, queries: Vec<RowQuery>) -> StoreResult<QueriedRows> {
        // Waits until the current commit is durable.
        let guard = Arc::clone(&self.open.commit_lock).read_owned().await;
        let inline = catch_sled_panic(|| self.open.select(&queries, ReadLimit::INLINE))?;
        match inline {
            Some(rows) => Ok(rows),
            None => read_all(&self.open, guard, queries).await,
        }
    }
}

async fn read_all(
    database: &Arc<OpenDatabase>,
    guard: OwnedRwLockReadGuard<()>,
    queries: Vec<RowQuery>,
) -> StoreResult<QueriedRows> {
    let read = move |database: &OpenDatabase| database.select(&queries, ReadLimit::NONE);
    Ok(run_blocking(database, guard, read).await?.unwrap_or_default())
}

#[async_trait]
impl Database for SledDatabase {
    /// sled has no snapshots, so transactions wait until it is dropped.
    async fn begin_snapshot(&self) -> StoreResult<Box<dyn RowSource>> {
        let guard = Arc::clone(&self.open.copy_lock).read_owned().await;
        Ok(Box::new(SledSnapshot { open: Arc::clone(&self.open), _guard: guard }))
    }

    fn health(&self) -> DatabaseHealth {
        let problem = self.open.check_writable().err().map(|error| error.to_string());
        DatabaseHealth { connections: None, problem }
    }

    async fn find_damage(&self) -> StoreResult<Vec<String>> {
        let guard = Arc::clone(&self.open.copy_lock).read_owned().await;
        run_blocking(&self.open, guard, OpenDatabase::find_damage).await
    }

    fn open_session(&self) -> Box<dyn WriteSession> {
        Box::new(SledSession::new(Arc::clone(&self.open)))
    }
}

struct SledSnapshot {
    open: Arc<OpenDatabase>,
    _guard: OwnedRwLockReadGuard<()>,
}

#[async_trait]
impl RowSource for SledSnapshot {
    async fn read(&self, queries: Vec<RowQuery>) -> StoreResult<QueriedRows> {
        // Held by the thread that reads, even if the caller stops waiting and drops this.
        let guard = Arc::clone(&self.open.commit_lock).read_owned().await;
        read_all(&self.open, guard, queries).await
    }
}
