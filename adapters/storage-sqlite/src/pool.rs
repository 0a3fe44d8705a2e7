//! Connections for reading, kept open between reads.
//!
//! The trap: a small read runs on the caller's own thread, so there it waits for nobody; it goes to
//! a thread that may wait only when the database is busy.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqlore_domain::ports::documents::{StoreError, StoreResult};
use rusqlite::Connection;
use tokio::sync::Semaphore;

use crate::connection::{Connector, Use, wait_when_busy};
use crate::error::Failed;

/// So many stay open while nobody reads.
const IDLE: usize = 4;
/// So many large reads run at once.
const LARGE: usize = 4;

#[derive(Debug)]
pub(crate) struct Pool {
    connector: Connector,
    idle: Mutex<Vec<Connection>>,
    large: Arc<Semaphore>,
}

impl Pool {
    pub(crate) fn new(connector: Connector) -> Self {
        Self { connector, idle: Mutex::default(), large: Arc::new(Semaphore::new(LARGE)) }
    }

    /// Reads a few documents, at once if nothing is in the way.
    pub(crate) async fn small<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl Fn(&Connection) -> Result<T, Failed> + Send + 'static,
    ) -> StoreResult<T> {
        match self.read(false, &read) {
            Err(StoreError::Busy { .. }) => self.large(read).await,
            done => done,
        }
    }

    /// Reads on a thread that may wait.
    pub(crate) async fn large<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl Fn(&Connection) -> Result<T, Failed> + Send + 'static,
    ) -> StoreResult<T> {
        let fault = |error: &dyn std::error::Error| StoreError::Fault(error.to_string());
        let turn = Arc::clone(&self.large).acquire_owned().await.map_err(|e| fault(&e))?;
        let pool = Arc::clone(self);
        let reading = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            pool.read(true, &read)
        });
        reading.await.map_err(|error| fault(&error))?
    }

    fn read<T>(
        &self,
        may_wait: bool,
        read: &impl Fn(&Connection) -> Result<T, Failed>,
    ) -> StoreResult<T> {
        self.connector.place.check()?;
        let outcome = self.take(may_wait).map_err(Failed::from).and_then(|connection| {
            let transaction = connection.unchecked_transaction()?;
            let found = read(&transaction)?;
            transaction.commit()?;
            Ok((found, connection))
        });
        // After a failure the connection is closed.
        let (found, connection) = outcome.map_err(Failed::told)?;
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE {
            idle.push(connection);
        }
        Ok(found)
    }

    fn take(&self, may_wait: bool) -> rusqlite::Result<Connection> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut connection = idle.map_or_else(|| self.connector.open(Use::Read), Ok)?;
        if may_wait {
            wait_when_busy(&mut connection)?;
        } else {
            connection.busy_timeout(Duration::ZERO)?;
        }
        Ok(connection)
    }
}
