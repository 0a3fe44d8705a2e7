//! Transactions of writers, and reads on the pool.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use async_trait::async_trait;
use deadpool_postgres::ClientWrapper;
use futures_util::future::join_all;
use futures_util::{TryStreamExt, pin_mut};
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_domain::timestamp::Timestamp;
use reqlore_row_store::StoreRow;
use reqlore_row_store::database::{
    BegunTransaction, CommitOutcome, Database, DatabaseHealth, RowSource, SessionError,
    WriteSession,
};
use reqlore_row_store::row::{RowBuffer, RowChange, RowQuery, TableRow};
use reqlore_row_store::tables::{STORE, Table};
use tokio::time::timeout;
use tokio_postgres::Statement;

use super::connect_options::PostgresConfig;
use super::connect_options::WriteIsolation;
use super::connector::SessionKind;
use super::errors::{DatabaseError, NextStep, lost_connection};
use super::pool::{Client, ConnectionPool, UnpooledClient, callers_runtime};
use super::rows::UnionLayout;
use super::schema::{SchemaGuard, SchemaStatus, check_statement, migrations, read_schema_status};
use super::statements::SqlStatement;

/// Maximum attempts of a read. It has no side effects, so it can be repeated.
const READ_ATTEMPTS: usize = 3;

/// Number of written rows after which a table is analyzed for the first time.
const FIRST_ANALYSIS: usize = 500;

/// Limits for a server that is connected but does not answer. The database limits statements
/// itself, but no wait of a commit for a standby.
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);
const COMMIT_TIMEOUT: Duration = Duration::from_secs(if cfg!(test) { 5 } else { 15 });

/// Writers queue on this row, so that each of them reads the state that the one before left.
const LOCK: &str = "UPDATE group_lock SET turn = turn + 1 WHERE id = 1";

/// The state of a transaction at this isolation level is that of its first query.
const BEGIN_READ: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

const COMMIT: &str = "COMMIT";

/// In microseconds since 1970, in the time of the database, because the clocks of servers differ.
const CURRENT_TIME: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

#[derive(Debug, Default)]
struct Response {
    /// The rows of each query.
    rows: Vec<Vec<TableRow>>,
    /// Number of rows that were changed or returned.
    count: u64,
}

/// Sends all statements at once and waits for all responses: one round trip, and one more if a
/// statement is new to the connection. Returns the first error. The database ignores what follows
/// an error in a transaction, so `COMMIT` must not be sent with writes.
async fn send_all(
    client: &ClientWrapper,
    statements: Vec<SqlStatement<'_>>,
) -> Result<Vec<Response>, DatabaseError> {
    let texts = statements.iter().map(|sql| client.prepare_cached(&sql.text));
    let prepared = join_all(texts).await;
    let mut calls = Vec::with_capacity(statements.len());
    for (statement, sql) in prepared.into_iter().zip(statements) {
        calls.push(send(client, statement?, sql));
    }
    // All futures are polled in their order before one is polled again.
    let mut responses = Vec::with_capacity(calls.len());
    for response in join_all(calls).await {
        responses.push(response?);
    }
    Ok(responses)
}

async fn send(
    client: &ClientWrapper,
    prepared: Statement,
    sql: SqlStatement<'_>,
) -> Result<Response, DatabaseError> {
    let (queries, layout) = (sql.queries, UnionLayout::new(sql.queries));
    let (mut rows, mut buffer) = (vec![Vec::new(); queries.len()], RowBuffer::default());
    let stream = client.query_raw(&prepared, sql.parameters).await?;
    pin_mut!(stream);
    while let Some(row) = stream.try_next().await? {
        if !queries.is_empty() {
            let (number, row) = layout.decode(&row, &mut buffer)?;
            rows[number].push(row);
        }
    }
    for (query, rows) in queries.iter().zip(&mut rows) {
        // The rows of several queries may arrive in any order.
        query.sort(rows);
    }
    Ok(Response { rows, count: stream.rows_affected().unwrap_or_default() })
}

/// The statement for these queries, if there are any.
fn select(queries: &[RowQuery]) -> Result<Option<SqlStatement<'_>>, DatabaseError> {
    if queries.is_empty() { Ok(None) } else { SqlStatement::select(queries).map(Some) }
}

/// The rows of each query of [`select`].
fn rows_of(response: Option<Response>) -> Vec<Vec<TableRow>> {
    response.unwrap_or_default().rows
}

/// The tables of this storage in a real database.
#[derive(Debug, Clone)]
pub(crate) struct PostgresDatabase {
    pool: ConnectionPool,
    isolation: WriteIsolation,
    schema: SchemaGuard,
}

impl PostgresDatabase {
    /// Opens no connection yet. The first use migrates the schema if it must, and if the role may.
    pub(crate) fn new(pool: ConnectionPool, isolation: WriteIsolation) -> Self {
        Self { pool, isolation, schema: SchemaGuard::default() }
    }

    pub(crate) fn of_config(config: PostgresConfig) -> StoreResult<Self> {
        let isolation = config.write_isolation;
        Ok(Self::new(ConnectionPool::new(config)?, isolation))
    }

    /// Connects, and migrates the schema if it must, and if the role may.
    pub(crate) async fn update_schema(&self) -> Result<(), DatabaseError> {
        self.schema.ensure_current(&self.pool).await
    }

    /// Connects and inspects the schema.
    pub(crate) async fn schema_status(&self) -> Result<SchemaStatus, DatabaseError> {
        let migrations = migrations().map_err(DatabaseError::report)?;
        let status = read_schema_status(&self.pool, &migrations).await?;
        if status.pending.is_empty() {
            self.schema.mark_current();
        }
        Ok(status)
    }

    /// Logs that a server starts without its database.
    pub(crate) fn warn_of_start(&self, error: &DatabaseError) {
        self.pool.warn_of_start(error);
    }

    /// Runs on the runtime of the connections, to the end even if the caller gives up: a
    /// connection returns to the pool without a transaction.
    async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, DatabaseError>> + Send + 'static,
    ) -> StoreResult<T> {
        match self.pool.runtime().spawn(work).await {
            Ok(result) => result.map_err(StoreError::from),
            Err(error) => Err(DatabaseError::internal(error.to_string()).into()),
        }
    }

    /// Reads on a connection of the pool, after a first statement. If the connection was lost, a
    /// new one repeats it.
    async fn read_pooled(
        &self,
        first: Option<&'static str>,
        queries: &[RowQuery],
    ) -> Result<(Client, Vec<Vec<TableRow>>), DatabaseError> {
        self.update_schema().await?;
        let mut attempt = 1;
        loop {
            let client = self.pool.get().await?;
            let mut statements = Vec::with_capacity(3);
            statements.extend(self.schema.check_if_due());
            let is_checked = !statements.is_empty();
            statements.extend(first.map(SqlStatement::fixed));
            statements.extend(select(queries)?);
            let Ok(outcome) = self.pool.within(REPLY_TIMEOUT, send_all(&client, statements)).await
            else {
                drop(Client::take(client));
                return Err(no_answer());
            };
            let outcome = outcome.and_then(|mut responses| {
                // Without queries, its response is also the last one.
                if is_checked {
                    let count = responses.first().map_or(0, |check| check.count);
                    self.schema.finish_check(count, self.pool.accepts_loss())?;
                }
                Ok(rows_of(responses.pop()))
            });
            let error = match outcome {
                Ok(rows) => return Ok((client, rows)),
                Err(error) => error,
            };
            // The connection is lost or in a transaction, so it must not return to the pool.
            drop(Client::take(client));
            if error.next == NextStep::Report || attempt == READ_ATTEMPTS {
                return Err(error);
            }
            if error.is_lost_server() {
                // The other connections may be lost as well.
                self.pool.expire_connections();
            }
            attempt += 1;
        }
    }
}

#[async_trait]
impl RowSource for PostgresDatabase {
    async fn read(&self, queries: Vec<RowQuery>) -> StoreResult<Vec<Vec<TableRow>>> {
        if queries.is_empty() {
            return Ok(Vec::new());
        }
        let database = self.clone();
        let work = async move {
            let (_, rows) = database.read_pooled(None, &queries).await?;
            Ok(rows)
        };
        match callers_runtime() {
            // A caller may give up: one statement leaves no transaction open.
            Some(_) => work.await.map_err(StoreError::from),
            None => self.run(work).await,
        }
    }
}

#[async_trait]
impl Database for PostgresDatabase {
    async fn begin_snapshot(&self) -> StoreResult<Box<dyn RowSource>> {
        let database = self.clone();
        let queries = vec![RowQuery::keys(&STORE, vec![StoreRow::key()])];
        let pool = self.pool.clone();
        // Made by the task, so that its transaction ends even if the caller gives up.
        let snapshot = self.run(async move {
            let (client, _) = database.read_pooled(Some(BEGIN_READ), &queries).await?;
            Ok(PostgresSnapshot { client: Some(client), pool })
        });
        Ok(Box::new(snapshot.await?))
    }

    fn is_remote(&self) -> bool {
        true
    }

    async fn current_time(&self) -> StoreResult<Option<Timestamp>> {
        let database = self.clone();
        let asked = self.run(async move {
            let (client, _) = database.read_pooled(None, &[]).await?;
            Ok(client.query_one(CURRENT_TIME, &[]).await?.try_get::<_, i64>(0)?)
        });
        let microseconds = asked.await?;
        Ok(Some(Timestamp(microseconds.saturating_mul(1_000))))
    }

    fn health(&self) -> DatabaseHealth {
        DatabaseHealth { connections: Some(self.pool.statistics()), problem: None }
    }

    fn open_session(&self) -> Box<dyn WriteSession> {
        Box::new(PostgresSession {
            pool: self.pool.clone(),
            isolation: self.isolation,
            schema: self.schema.clone(),
            connection: None,
            is_open: false,
            was_interrupted: false,
            growth: BTreeMap::new(),
        })
    }
}

struct PostgresSnapshot {
    /// Taken at the end only.
    client: Option<Client>,
    pool: ConnectionPool,
}

#[async_trait]
impl RowSource for PostgresSnapshot {
    async fn read(&self, queries: Vec<RowQuery>) -> StoreResult<Vec<Vec<TableRow>>> {
        let Some(client) = &self.client else { return Ok(Vec::new()) };
        let statements = Vec::from_iter(select(&queries)?);
        match self.pool.within(REPLY_TIMEOUT, send_all(client, statements)).await {
            Ok(responses) => Ok(rows_of(responses?.pop())),
            Err(_) => Err(no_answer().into()),
        }
    }
}

impl Drop for PostgresSnapshot {
    fn drop(&mut self) {
        let Some(client) = self.client.take() else { return };
        self.pool.runtime().spawn(async move {
            if client.batch_execute("ROLLBACK").await.is_err() {
                drop(Client::take(client));
            }
        });
    }
}

fn not_written(error: DatabaseError) -> CommitOutcome {
    CommitOutcome::NotWritten(error.into())
}

fn no_answer() -> DatabaseError {
    DatabaseError::reconnect("does not answer; check its disk and its standby, then try again")
}

/// The connection of a writer.
#[derive(Debug)]
struct PostgresSession {
    pool: ConnectionPool,
    isolation: WriteIsolation,
    schema: SchemaGuard,
    connection: Option<UnpooledClient>,
    /// True if a transaction is open, and none of its statements failed.
    is_open: bool,
    was_interrupted: bool,
    growth: BTreeMap<&'static str, TableGrowth>,
}

/// Number of rows that a session wrote to a table, and the number after which it is analyzed.
#[derive(Debug)]
struct TableGrowth {
    written: usize,
    limit: usize,
}

impl PostgresSession {
    fn block_on<T>(&mut self, work: impl AsyncFnOnce(&mut Self) -> T) -> T {
        let runtime = self.pool.runtime();
        runtime.block_on(work(self))
    }

    fn disconnect(&mut self) {
        self.is_open = false;
        if self.connection.take().is_some() {
            self.was_interrupted = true;
            self.pool.expire_connections();
        }
    }

    async fn begin_transaction(
        &mut self,
        queries: &[RowQuery],
    ) -> Result<Vec<Vec<TableRow>>, DatabaseError> {
        self.end_transaction().await;
        if self.connection.as_ref().is_some_and(|connection| connection.is_closed()) {
            self.disconnect();
        }
        if self.connection.as_ref().is_some_and(UnpooledClient::is_expired) {
            // Another server may have taken over since it was opened.
            self.connection = None;
            self.was_interrupted = true;
        }
        if self.connection.is_none() {
            self.schema.ensure_current(&self.pool).await?;
            self.connection = Some(self.pool.connect(SessionKind::Writer).await?);
        }
        self.is_open = true;
        let mut statements = vec![
            SqlStatement::fixed(self.isolation.begin()),
            SqlStatement::fixed(LOCK),
            check_statement(),
        ];
        statements.extend(select(queries)?);
        let mut responses = self.send_all(statements).await?;
        let count = |index| responses.get(index).map_or(0, |response: &Response| response.count);
        let checked = match count(1) {
            1 => self.schema.finish_check(count(2), self.pool.accepts_loss()),
            _ => Err(DatabaseError::damaged_row("table group_lock")),
        };
        if let Err(error) = checked {
            self.end_transaction().await;
            return Err(error);
        }
        Ok(rows_of(responses.pop().filter(|_| !queries.is_empty())))
    }

    /// Ends the transaction after an error.
    async fn send_all(
        &mut self,
        statements: Vec<SqlStatement<'_>>,
    ) -> Result<Vec<Response>, DatabaseError> {
        let Some(connection) = self.connection.as_ref().filter(|_| self.is_open) else {
            return Err(DatabaseError::internal("no transaction is open"));
        };
        let result = match timeout(REPLY_TIMEOUT, send_all(connection, statements)).await {
            Ok(result) => result,
            Err(_) => Err(no_answer()),
        };
        if let Err(error) = &result {
            if error.next == NextStep::Reconnect {
                self.disconnect();
            }
            self.end_transaction().await;
        }
        result
    }

    async fn end_transaction(&mut self) {
        if !self.is_open {
            return;
        }
        self.is_open = false;
        let Some(connection) = &self.connection else { return };
        let roll_back = timeout(REPLY_TIMEOUT, connection.batch_execute("ROLLBACK"));
        if !matches!(roll_back.await, Ok(Ok(()))) {
            self.disconnect();
        }
    }

    /// Without statistics, PostgreSQL may take an index that fits a whole project. Its own analysis
    /// of a new table comes up to a minute late. Ignored if the role does not own the tables.
    fn analyze_grown_tables(&mut self) {
        let mut statements = Vec::new();
        for (table, growth) in &mut self.growth {
            if growth.written >= growth.limit {
                growth.limit = 10 * growth.written;
                statements.push(format!("ANALYZE {table}"));
            }
        }
        if statements.is_empty() {
            return;
        }
        let pool = self.pool.clone();
        self.pool.runtime().spawn(async move {
            let Ok(client) = pool.get().await else { return };
            for statement in statements {
                if let Err(error) = client.batch_execute(&statement).await {
                    tracing::debug!(%error, "{statement}");
                }
            }
        });
    }

    async fn commit_transaction(&mut self) -> CommitOutcome {
        let Some(connection) = self.connection.as_ref().filter(|_| self.is_open) else {
            return not_written(DatabaseError::internal("no transaction is open"));
        };
        self.is_open = false;
        if connection.is_closed() {
            self.disconnect();
            return not_written(lost_connection());
        }
        let error = match timeout(COMMIT_TIMEOUT, connection.batch_execute(COMMIT)).await {
            Ok(Ok(())) => {
                self.analyze_grown_tables();
                return CommitOutcome::Committed;
            }
            Ok(Err(error)) => DatabaseError::from(error),
            Err(_) => no_answer(),
        };
        if error.next == NextStep::Repeat || error.is_rejected_data() {
            return not_written(error);
        }
        // On some engines, another error does not tell whether the transaction was committed.
        self.disconnect();
        CommitOutcome::Unknown(error.problem())
    }
}

impl WriteSession for PostgresSession {
    fn begin(&mut self, queries: &[RowQuery]) -> Result<BegunTransaction, SessionError> {
        let rows = self.block_on(async |session| session.begin_transaction(queries).await)?;
        Ok(BegunTransaction { rows, was_interrupted: std::mem::take(&mut self.was_interrupted) })
    }

    fn read(&mut self, queries: &[RowQuery]) -> Result<Vec<Vec<TableRow>>, SessionError> {
        let statements = Vec::from_iter(select(queries)?);
        let mut responses = self.block_on(async |session| session.send_all(statements).await)?;
        Ok(rows_of(responses.pop()))
    }

    fn write(
        &mut self,
        changes: Vec<(&'static Table, Vec<RowChange>)>,
    ) -> Result<(), SessionError> {
        let mut statements = Vec::with_capacity(2 * changes.len());
        for (table, changes) in &changes {
            let (mut rows, mut keys) = (Vec::with_capacity(changes.len()), Vec::new());
            for change in changes {
                match change {
                    RowChange::Insert(row) | RowChange::Update { row, .. } => rows.push(row),
                    RowChange::Delete { key, .. } => keys.push(key),
                }
            }
            if !keys.is_empty() {
                statements.push(SqlStatement::delete(table, &keys)?);
            }
            if !rows.is_empty() {
                let growth = self
                    .growth
                    .entry(table.name)
                    .or_insert(TableGrowth { written: 0, limit: FIRST_ANALYSIS });
                growth.written += rows.len();
                statements.push(SqlStatement::upsert(table, &rows)?);
            }
        }
        self.block_on(async |session| session.send_all(statements).await)?;
        Ok(())
    }

    fn commit(&mut self) -> CommitOutcome {
        self.block_on(async |session| session.commit_transaction().await)
    }

    fn roll_back(&mut self) {
        self.block_on(async |session| session.end_transaction().await);
    }
}
