//! The connections of one store. They run on the runtime of the server, or on one of their own:
//! the runtime of another caller has one thread and may end before the store.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use deadpool::Status;
use deadpool::managed::{
    Hook, HookError, Manager, Metrics, Object, Pool, PoolError, RecycleError, RecycleResult,
};
use deadpool_postgres::ClientWrapper;
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_domain::ports::storage_health::DatabaseStatistics;
use tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor};
use tokio::time::{Timeout, timeout};

use super::connect_options::{PostgresConfig, address_of};
use super::connection_log::ConnectionLog;
use super::connector::{SessionKind, connect};
use super::errors::{DatabaseError, lost_connection};
use reqlore_row_store::error::DATABASE_LABEL;

/// A connection that returns to the pool when it is dropped.
pub(crate) type Client = Object<ClientManager>;

/// Some services close connections after an hour. The limit is spread over ten minutes, so that
/// the connections of a restarted server are not renewed all at once.
const MIN_CONNECTION_AGE: Duration = Duration::from_secs(45 * 60);
const CONNECTION_AGE_SPREAD: u64 = 10 * 60;
/// Limit of the wait for a connection that is in use. A new one takes as long as its hosts may.
const WAIT_TIMEOUT: Duration = Duration::from_secs(10);
/// Threads that move bytes between connections and callers.
const RUNTIME_THREADS: usize = 2;

/// Connections to one database. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionPool {
    pool: Pool<ClientManager>,
    connector: Arc<Connector>,
    runtime: Arc<OwnRuntime>,
    /// Connections that were opened before this time are not used again.
    not_before: Arc<Mutex<Instant>>,
}

impl ConnectionPool {
    /// True if the server may have settings that lose acknowledged writes.
    pub(crate) fn accepts_loss(&self) -> bool {
        self.connector.config.accepts_loss
    }

    /// Opens no connection yet.
    pub(crate) fn new(config: PostgresConfig) -> StoreResult<Self> {
        let runtime = Arc::new(OwnRuntime::start()?);
        let size = config.pool_size;
        let runtime_handle = runtime.handle.clone();
        let connector = Connector {
            config,
            last_targets: Default::default(),
            runtime: runtime_handle,
            log: ConnectionLog::default(),
        };
        let connector = Arc::new(connector);
        let manager = ClientManager(Arc::clone(&connector));
        let not_before = Arc::new(Mutex::new(Instant::now()));
        let limit = Arc::clone(&not_before);
        let pool = Pool::builder(manager)
            .max_size(size)
            .pre_recycle(Hook::sync_fn(move |_, metrics: &Metrics| {
                let not_before = *limit.lock().unwrap_or_else(PoisonError::into_inner);
                if metrics.created < not_before || is_expired(metrics.created) {
                    return Err(HookError::message("the connection is too old"));
                }
                Ok(())
            }))
            .build()
            .map_err(|error| internal(&error))?;
        Ok(Self { pool, connector, runtime, not_before })
    }

    /// Returns a connection that reads. Waits while all are in use.
    pub(crate) async fn get(&self) -> Result<Client, DatabaseError> {
        self.get_within(WAIT_TIMEOUT + self.connector.config.connect_timeout()).await
    }

    pub(super) async fn get_within(&self, limit: Duration) -> Result<Client, DatabaseError> {
        match self.within(limit, self.pool.get()).await {
            Ok(Ok(client)) => Ok(client),
            Ok(Err(PoolError::Backend(error))) => Err(error),
            Ok(Err(error)) => Err(DatabaseError::report(internal(&error))),
            Err(_) => Err(DatabaseError::report(StoreError::Busy {
                reason: format!(
                    "{DATABASE_LABEL}: all {} connections to it are in use; try again, or raise \
                     pool_size in its URL",
                    self.connector.config.pool_size
                ),
            })),
        }
    }

    /// Limits the time of work.
    pub(crate) fn within<F: Future>(&self, limit: Duration, work: F) -> Timeout<F> {
        // The caller's runtime may have no timer.
        let _entered = self.runtime.handle.enter();
        timeout(limit, work)
    }

    pub(crate) fn statistics(&self) -> DatabaseStatistics {
        let Status { max_size, size, available, waiting } = self.pool.status();
        DatabaseStatistics {
            max_connections: max_size as u64,
            idle_connections: available as u64,
            used_connections: size.saturating_sub(available) as u64,
            waiting_reads: waiting as u64,
            ..DatabaseStatistics::default()
        }
    }

    /// Opens a connection outside the pool.
    pub(crate) async fn connect(&self, kind: SessionKind) -> Result<UnpooledClient, DatabaseError> {
        let client = Connector::connect(&self.connector, kind).await?;
        Ok(UnpooledClient { client, created: Instant::now() })
    }

    /// Logs that a server starts without its database.
    pub(crate) fn warn_of_start(&self, error: &DatabaseError) {
        self.connector.log.warn(error);
    }

    /// The runtime for connections and for threads that block on them.
    pub(crate) fn runtime(&self) -> Handle {
        callers_runtime().unwrap_or_else(|| self.runtime.handle.clone())
    }

    /// Replaces all connections before their next use. After a failover they may lead to a server
    /// that no longer gets the newest commits.
    pub(crate) fn expire_connections(&self) {
        *self.not_before.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }
}

/// A connection outside the pool.
#[derive(Debug)]
pub(crate) struct UnpooledClient {
    client: ClientWrapper,
    created: Instant,
}

impl UnpooledClient {
    /// True if it should be replaced before the next transaction.
    pub(crate) fn is_expired(&self) -> bool {
        is_expired(self.created)
    }
}

impl Deref for UnpooledClient {
    type Target = ClientWrapper;

    fn deref(&self) -> &ClientWrapper {
        &self.client
    }
}

impl DerefMut for UnpooledClient {
    fn deref_mut(&mut self) -> &mut ClientWrapper {
        &mut self.client
    }
}

fn internal(error: &dyn fmt::Display) -> StoreError {
    StoreError::Internal(format!("{DATABASE_LABEL}: connection pool: {error}"))
}

/// True if a connection that was opened at this time should be replaced.
fn is_expired(created: Instant) -> bool {
    // The time itself is random enough to spread the ages.
    let mut hasher = DefaultHasher::new();
    created.hash(&mut hasher);
    let spread = Duration::from_secs(hasher.finish() % CONNECTION_AGE_SPREAD);
    created.elapsed() > MIN_CONNECTION_AGE + spread
}

#[derive(Debug)]
struct Connector {
    config: PostgresConfig,
    /// The targets of the last connections for reads and for writes, so that others do not wait
    /// for a lost host.
    last_targets: [AtomicUsize; 2],
    runtime: Handle,
    log: ConnectionLog,
}

impl Connector {
    async fn connect(
        connector: &Arc<Self>,
        kind: SessionKind,
    ) -> Result<ClientWrapper, DatabaseError> {
        let shared = Arc::clone(connector);
        let runtime = callers_runtime().unwrap_or_else(|| connector.runtime.clone());
        let task = runtime.spawn(async move {
            let last_target = &shared.last_targets[usize::from(kind != SessionKind::Reader)];
            let first = last_target.load(Ordering::Relaxed);
            match connect(&shared.config, first, kind).await {
                Ok((client, target)) => {
                    last_target.store(target, Ordering::Relaxed);
                    shared.log.connected(&address_of(&shared.config.targets[target]));
                    Ok(client)
                }
                Err(error) => {
                    shared.log.failed(&error);
                    Err(error)
                }
            }
        });
        task.await.unwrap_or_else(|_| Err(lost_connection()))
    }
}

#[derive(Debug)]
pub(crate) struct ClientManager(Arc<Connector>);

impl Manager for ClientManager {
    type Type = ClientWrapper;
    type Error = DatabaseError;

    async fn create(&self) -> Result<ClientWrapper, DatabaseError> {
        Connector::connect(&self.0, SessionKind::Reader).await
    }

    async fn recycle(
        &self,
        client: &mut ClientWrapper,
        _: &Metrics,
    ) -> RecycleResult<DatabaseError> {
        if client.is_closed() {
            return Err(RecycleError::message("the connection is closed"));
        }
        Ok(())
    }
}

/// The runtime of a server, which has several threads and lives as long as the store. Messages to
/// the threads of another runtime would take longer than the work.
pub(super) fn callers_runtime() -> Option<Handle> {
    let handle = Handle::try_current().ok()?;
    (handle.runtime_flavor() == RuntimeFlavor::MultiThread).then_some(handle)
}

/// A runtime that may be dropped anywhere, also inside another one.
#[derive(Debug)]
struct OwnRuntime {
    runtime: Option<Runtime>,
    handle: Handle,
}

impl OwnRuntime {
    fn start() -> StoreResult<Self> {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(RUNTIME_THREADS).thread_name("database").enable_all();
        let runtime = builder.build().map_err(|error| internal(&error))?;
        Ok(Self { handle: runtime.handle().clone(), runtime: Some(runtime) })
    }
}

impl Drop for OwnRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
