//! Connections: a pool for reads, and single ones for writers.

use std::fmt;

use deadpool_postgres::{Client, ClientWrapper, Manager, ManagerConfig, Pool, RecyclingMethod};
use deadpool_postgres::{PoolError, Runtime};
use tokio::runtime::Handle;
use tokio_postgres::{Config, NoTls};

use super::errors::DatabaseError;

/// Connections to one database, driven by a runtime of their own.
#[derive(Clone)]
pub(crate) struct ConnectionPool {
    pool: Pool,
    config: Config,
    runtime: Handle,
}

impl fmt::Debug for ConnectionPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionPool").finish_non_exhaustive()
    }
}

impl ConnectionPool {
    /// A stand-in until addresses, TLS and limits are configured.
    pub(crate) fn new(config: Config, runtime: Handle) -> Result<Self, DatabaseError> {
        let settings = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_config(config.clone(), NoTls, settings);
        let pool = Pool::builder(manager)
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|_| DatabaseError::reconnect("cannot be configured"))?;
        Ok(Self { pool, config, runtime })
    }

    /// A connection for reads. It returns to the pool when it is dropped.
    pub(crate) async fn get(&self) -> Result<Client, DatabaseError> {
        self.pool.get().await.map_err(|error| match error {
            PoolError::Backend(error) => error.into(),
            _ => DatabaseError::reconnect("all connections are in use; try again"),
        })
    }

    /// A new connection outside of the pool.
    pub(crate) async fn connect_writer(&self) -> Result<ClientWrapper, DatabaseError> {
        let (client, connection) = self.config.connect(NoTls).await?;
        let task = self.runtime.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended");
            }
        });
        Ok(ClientWrapper::new(client, task))
    }

    /// The runtime that drives the connections.
    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }
}
