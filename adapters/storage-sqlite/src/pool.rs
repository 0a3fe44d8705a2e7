//! Connections for reading, kept open between reads.
//!
//! The trap: a small read runs on the caller's own thread, so there it waits for nobody; it goes to
//! a thread that may wait only when the database is busy.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqlore_domain::document::DocumentMeta;
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_sqlite_team::connection::wait_when_busy;
use reqlore_sqlite_team::error::refused;
use rusqlite::Connection;
use tokio::sync::Semaphore;

use crate::connection::{Connector, Use};
use crate::error::{DATABASE, Failed, WAIT, call_failed};

/// So many stay open while nobody reads.
const IDLE: usize = 4;
/// So many large reads run at once.
const LARGE: usize = 4;

#[derive(Debug)]
pub(crate) struct Pool {
    connector: Connector,
    /// Which schema it has, as far as this process knows.
    schema: usize,
    idle: Mutex<Vec<Connection>>,
    large: Arc<Semaphore>,
}

impl Pool {
    pub(crate) fn new(connector: Connector, schema: usize) -> Self {
        let large = Arc::new(Semaphore::new(LARGE));
        Self { connector, schema, idle: Mutex::default(), large }
    }

    /// Reads a few documents, at once if nothing is in the way.
    pub(crate) async fn small<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl Fn(&Connection) -> Result<T, Failed> + Send + 'static,
    ) -> StoreResult<T> {
        self.single(move |connection| moment(connection, &read)).await
    }

    /// The same for what is one statement, which is a moment by itself.
    pub(crate) async fn single<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl Fn(&Connection) -> Result<T, Failed> + Send + 'static,
    ) -> StoreResult<T> {
        match self.read(false, &read) {
            Err(StoreError::Busy { .. }) => self.wait(read).await,
            done => done,
        }
    }

    /// Reads on a thread that may wait.
    pub(crate) async fn large<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl Fn(&Connection) -> Result<T, Failed> + Send + 'static,
    ) -> StoreResult<T> {
        self.wait(move |connection| moment(connection, &read)).await
    }

    async fn wait<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl Fn(&Connection) -> Result<T, Failed> + Send + 'static,
    ) -> StoreResult<T> {
        let fault = |error: &dyn std::error::Error| StoreError::Internal(error.to_string());
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
            let found = read(&connection).map_err(|failed| self.explained(&connection, failed))?;
            Ok((found, connection))
        });
        // After a failure the connection is closed.
        let (found, connection) = outcome.map_err(call_failed)?;
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE {
            idle.push(connection);
        }
        Ok(found)
    }

    /// What another version wrote is no damage.
    fn explained(&self, connection: &Connection, failed: Failed) -> Failed {
        let now = connection.query_one(
            "SELECT heads, (SELECT user_version FROM pragma_user_version) FROM store",
            [],
            |row| Ok((row.get::<_, u32>(0)?, row.get::<_, usize>(1)?)),
        );
        if now.is_ok_and(|now| now != (DocumentMeta::FORMAT, self.schema)) {
            let reason = "was brought to another version by another reqlore; start this one again";
            return refused(DATABASE, reason).into();
        }
        failed
    }

    fn take(&self, may_wait: bool) -> rusqlite::Result<Connection> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut connection = idle.map_or_else(|| self.connector.open(Use::Read), Ok)?;
        if may_wait {
            wait_when_busy(&mut connection, WAIT)?;
        } else {
            connection.busy_timeout(Duration::ZERO)?;
        }
        Ok(connection)
    }
}

/// However many statements it is, they see one moment.
fn moment<T>(
    connection: &Connection,
    read: &impl Fn(&Connection) -> Result<T, Failed>,
) -> Result<T, Failed> {
    let transaction = connection.unchecked_transaction()?;
    let found = read(&transaction)?;
    transaction.commit()?;
    Ok(found)
}
