//! The schema: numbered migrations, run by one server at a time.
//!
//! A migration that adds something leaves older servers running. They verify rows, so a column of
//! a later version is nullable and not part of the checksum. An older server that replaces a row
//! keeps the value of such a column: the later version must store `checksum` with it, and ignore it
//! if they differ.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use deadpool_postgres::ClientWrapper;
use reqlore_domain::audit_log::ChainHead;
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use tokio::sync::OnceCell;
use tokio::time::sleep;

use super::connect_options::PostgresConfig;
use super::connector::SessionKind;
use super::errors::{DatabaseError, LOSSY, NextStep};
use super::pool::ConnectionPool;
use super::statements::{SqlStatement, names};
use reqlore_row_store::METADATA_FORMAT;
use reqlore_row_store::StoreRow;
use reqlore_row_store::error::{refused, unavailable};
use reqlore_row_store::row::{TableRow, Value};
use reqlore_row_store::tables::{ColumnType, Index, STORE, TABLES, Table};

/// The newest version that this Reqlore knows. Earlier ones were not released.
pub(crate) const LATEST_VERSION: i64 = 4;
/// The tables of this module.
const BOOKKEEPING: [&str; 4] = [
    "leases (name TEXT COLLATE \"C\" NOT NULL, holder TEXT COLLATE \"C\" NOT NULL, \
     expires BIGINT NOT NULL, PRIMARY KEY (name))",
    "migrations (version BIGINT NOT NULL, step BIGINT NOT NULL, \
     statement TEXT COLLATE \"C\" NOT NULL, PRIMARY KEY (version, step))",
    "schema_version (id BIGINT NOT NULL, version BIGINT NOT NULL, \
     min_server_version BIGINT NOT NULL, PRIMARY KEY (id))",
    "group_lock (id BIGINT NOT NULL, turn BIGINT NOT NULL, PRIMARY KEY (id))",
];

const LEASE_MILLISECONDS: i64 = 30_000;
const LEASE_RENEWAL: Duration = Duration::from_secs(10);
const LEASE_POLL: Duration = Duration::from_millis(200);

/// Maximum attempts of a migration statement. DDL that waits for a lock blocks all later statements
/// on the table, so each attempt has a short `lock_timeout`.
const STEP_ATTEMPTS: usize = 100;

/// In the time of the database, because the clocks of servers differ.
const TAKE_LEASE: &str = "INSERT INTO leases (name, holder, expires) \
     VALUES ('schema', $1, (extract(epoch FROM now()) * 1000)::bigint + $2) \
     ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires = excluded.expires \
     WHERE leases.holder = excluded.holder \
     OR leases.expires <= (extract(epoch FROM now()) * 1000)::bigint";
const RELEASE_LEASE: &str = "DELETE FROM leases WHERE name = 'schema' AND holder = $1";
const READ_VERSION: &str = "SELECT version, min_server_version FROM schema_version WHERE id = 1";
/// Returns a row if this version of Reqlore can work with the schema, and [`DURABLE_ROWS`] while
/// the server has no setting that loses acknowledged writes. One statement, because each may fail.
const CHECK_VERSION: &str = "SELECT id FROM schema_version \
     WHERE id = 1 AND min_server_version <= $1 \
     UNION ALL SELECT n FROM (VALUES (2), (3)) AS durable (n) \
     WHERE coalesce(current_setting('fsync', true), 'on') = 'on' \
     AND coalesce(current_setting('full_page_writes', true), 'on') = 'on'";
const DURABLE_ROWS: u64 = 2;
const READ_INDEXES: &str =
    "SELECT indexname::text FROM pg_indexes WHERE schemaname = ANY (current_schemas(false))";
const READ_STEPS: &str = "SELECT version, step FROM migrations";
const RECORD_STEP: &str = "INSERT INTO migrations (version, step, statement) VALUES ($1, $2, $3) \
     ON CONFLICT (version, step) DO NOTHING";

/// Interval of schema checks by reads. A writer checks in each transaction.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Statements that lead from one version of the schema to a later one. Each can be repeated. If one
/// removes something, the first raises `min_server_version`, so that older servers stop before.
#[derive(Debug, Clone)]
pub(crate) struct Migration {
    /// 0 for an empty database, which gets the newest version at once.
    pub(crate) from: i64,
    pub(crate) version: i64,
    /// The last one writes `schema_version`: the new version, and the oldest version of a server
    /// that can work with it.
    pub(crate) steps: Vec<String>,
}

/// A statement that a database needs before this version of Reqlore can work with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingStatement {
    pub version: i64,
    /// From 1 on.
    pub step: i64,
    pub text: String,
}

/// The schema of a database. Version 0 is an empty database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaStatus {
    pub version: i64,
    /// The newest version that this Reqlore knows.
    pub latest: i64,
    pub pending: Vec<PendingStatement>,
}

/// The schema of a database, and the statements that `reqlore migrate up` would run. Changes
/// nothing.
pub async fn inspect_schema(config: PostgresConfig) -> StoreResult<SchemaStatus> {
    let pool = ConnectionPool::new(config)?;
    read_schema_status(&pool, &migrations()?).await.map_err(DatabaseError::into_operator_error)
}

/// Brings the schema of a database to the newest version. Returns the number of statements: 0 if
/// there is nothing to do, or another server did it.
pub async fn migrate_schema(config: PostgresConfig) -> StoreResult<usize> {
    let pool = ConnectionPool::new(config)?;
    update_schema(&pool).await.map_err(DatabaseError::into_operator_error)
}

/// Like [`migrate_schema`]. The work goes on if the caller gives up.
pub(crate) async fn update_schema(pool: &ConnectionPool) -> Result<usize, DatabaseError> {
    let migrations = migrations().map_err(DatabaseError::report)?;
    let worker = pool.clone();
    let task = pool.runtime().spawn(async move { migrate(&worker, &migrations).await });
    task.await.map_err(|error| DatabaseError::internal(error.to_string()))?
}

/// The schema of a database in use. Servers of other versions may change it at any time.
#[derive(Debug, Clone, Default)]
pub(crate) struct SchemaGuard {
    /// Set when the schema was brought to the newest version.
    is_current: Arc<OnceCell<()>>,
    last_check: Arc<Mutex<Option<Instant>>>,
}

impl SchemaGuard {
    /// Updates the schema before the first use of the database.
    pub(crate) async fn ensure_current(&self, pool: &ConnectionPool) -> Result<(), DatabaseError> {
        if !self.is_current.initialized() {
            // While the database is down, no caller waits for another one.
            drop(pool.get().await?);
            let update = || async { update_schema(pool).await.map(drop) };
            self.is_current.get_or_try_init(update).await?;
        }
        Ok(())
    }

    /// Records that the schema is current.
    pub(crate) fn mark_current(&self) {
        // Another caller may have set it.
        let _ = self.is_current.set(());
    }

    /// The statement of a read that also checks the schema and the settings of the server, if the
    /// last check is too old.
    pub(crate) fn check_if_due(&self) -> Option<SqlStatement<'static>> {
        let last = *self.last_check.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = last.is_none_or(|at| at.elapsed() >= CHECK_INTERVAL);
        is_due.then(check_statement)
    }

    /// Fails if [`check_statement`] returned too few rows.
    pub(crate) fn finish_check(
        &self,
        row_count: u64,
        accepts_loss: bool,
    ) -> Result<(), DatabaseError> {
        if row_count.is_multiple_of(DURABLE_ROWS) {
            return Err(DatabaseError::report(unavailable(
                "its schema needs a newer version of Reqlore; update this server",
            )));
        }
        if row_count < DURABLE_ROWS && !accepts_loss {
            // A new connection is refused with the name of the setting.
            return Err(DatabaseError::reconnect(LOSSY));
        }
        let mut last = self.last_check.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some(Instant::now());
        Ok(())
    }
}

/// Checks that this version of Reqlore can work with the schema, and the settings of the server.
pub(crate) fn check_statement() -> SqlStatement<'static> {
    SqlStatement {
        parameters: vec![Box::new(LATEST_VERSION)],
        ..SqlStatement::fixed(CHECK_VERSION)
    }
}

/// The migrations of this version of Reqlore.
pub(crate) fn migrations() -> StoreResult<Vec<Migration>> {
    let (mut store_id, mut epoch) = ([0; 16], [0; 8]);
    for random in [&mut store_id[..], &mut epoch] {
        getrandom::fill(random).map_err(|error| StoreError::Internal(error.to_string()))?;
    }
    let row = StoreRow {
        state: StoreRow::COMPLETE.to_owned(),
        store_id,
        epoch: i64::from_le_bytes(epoch) & i64::MAX,
        newest_audit: ChainHead::default(),
        metadata_format: METADATA_FORMAT,
    };
    Ok(vec![Migration { from: 0, version: LATEST_VERSION, steps: creation_steps(&row.encode()) }])
}

/// The statements that create the tables with this row of `store`.
fn creation_steps(store: &TableRow) -> Vec<String> {
    let mut steps = Vec::new();
    for table in BOOKKEEPING {
        steps.push(format!("CREATE TABLE IF NOT EXISTS {table}"));
    }
    steps.extend(TABLES.iter().map(|table| create_table(table)));
    for table in TABLES {
        steps.extend(table.indexes.iter().map(|index| create_index(table, index)));
    }
    let mut values = Vec::new();
    for value in store.values() {
        values.push(match value {
            Value::Null => "NULL".to_owned(),
            Value::Integer(number) => number.to_string(),
            Value::Text(text) => format!("'{text}'"),
            Value::Binary(bytes) => format!("'\\x{:x}'", store.share(bytes)),
        });
    }
    let columns = names(STORE.columns).join(", ");
    let (values, checksum) = (values.join(", "), STORE.checksum(store));
    steps.push(
        "INSERT INTO group_lock (id, turn) VALUES (1, 0) ON CONFLICT (id) DO NOTHING".to_owned(),
    );
    steps.push(format!(
        "INSERT INTO store ({columns}, checksum) VALUES ({values}, {checksum}) \
         ON CONFLICT (id) DO NOTHING"
    ));
    steps.push(format!(
        "INSERT INTO schema_version (id, version, min_server_version) \
         VALUES (1, {LATEST_VERSION}, {LATEST_VERSION}) ON CONFLICT (id) DO UPDATE \
         SET version = excluded.version, min_server_version = excluded.min_server_version"
    ));
    steps
}

fn create_table(table: &Table) -> String {
    let mut text = format!("CREATE TABLE IF NOT EXISTS {} (\n", table.name);
    for column in table.columns {
        let kind = match column.kind {
            ColumnType::Integer => "BIGINT",
            ColumnType::Text => "TEXT COLLATE \"C\"",
            ColumnType::Binary => "BYTEA",
        };
        let null = if column.is_nullable { "" } else { " NOT NULL" };
        let _ = writeln!(text, "    {} {kind}{null},", column.name);
    }
    let key = names(&table.columns[..table.key_width]).join(", ");
    let _ = write!(text, "    checksum BIGINT NOT NULL,\n    PRIMARY KEY ({key})\n)");
    text
}

const CREATE_INDEX: &str = "CREATE INDEX IF NOT EXISTS ";

fn create_index(table: &Table, index: &Index) -> String {
    let Index { name, columns, condition } = index;
    let condition = condition.map(|column| format!(" WHERE {column} IS NOT NULL"));
    let (columns, condition) = (columns.join(", "), condition.unwrap_or_default());
    format!("{CREATE_INDEX}{name} ON {} ({columns}){condition}", table.name)
}

/// Inspects the schema and changes nothing. Fails if only a newer Reqlore can work with it.
pub(crate) async fn read_schema_status(
    pool: &ConnectionPool,
    migrations: &[Migration],
) -> Result<SchemaStatus, DatabaseError> {
    let client = pool.get().await?;
    let latest = migrations.last().map_or(0, |migration| migration.version);
    let mut version = 0;
    for row in rows_or_none(&client, READ_VERSION).await? {
        version = row.try_get(0)?;
        let min_server_version: i64 = row.try_get(1)?;
        if min_server_version > latest {
            return Err(DatabaseError::report(refused(format!(
                "was written by a newer version of Reqlore (schema {version}, this one knows \
                 {latest}); update Reqlore"
            ))));
        }
    }
    let (mut done, mut pending) = (Vec::new(), Vec::new());
    if version == latest {
        pending = missing_indexes(&client, migrations).await?;
    }
    if version < latest {
        for row in rows_or_none(&client, READ_STEPS).await? {
            done.push((row.try_get(0)?, row.try_get(1)?));
        }
    }
    let mut reached = version;
    while let Some(migration) = migrations.iter().find(|migration| migration.from == reached) {
        reached = migration.version;
        for (step, text) in (1..).zip(&migration.steps) {
            if !done.contains(&(migration.version, step)) {
                let text = text.clone();
                pending.push(PendingStatement { version: migration.version, step, text });
            }
        }
    }
    if reached < latest {
        return Err(DatabaseError::report(refused(format!(
            "has schema {version} of a build before the first release; back it up with that build \
             and restore it into a new database"
        ))));
    }
    Ok(SchemaStatus { version, latest, pending })
}

/// Returns the statements that recreate dropped indexes.
async fn missing_indexes(
    client: &ClientWrapper,
    migrations: &[Migration],
) -> Result<Vec<PendingStatement>, DatabaseError> {
    let mut existing: Vec<String> = Vec::new();
    for row in client.query(READ_INDEXES, &[]).await? {
        existing.push(row.try_get(0)?);
    }
    let mut missing = Vec::new();
    for Migration { version, steps, .. } in migrations {
        for (step, text) in (1..).zip(steps) {
            let created = text.strip_prefix(CREATE_INDEX).and_then(|rest| rest.split(' ').next());
            if created.is_some_and(|name| existing.iter().all(|one| one != name)) {
                missing.push(PendingStatement { version: *version, step, text: text.clone() });
            }
        }
    }
    Ok(missing)
}

/// The rows of a table that an empty database does not have.
async fn rows_or_none(
    client: &ClientWrapper,
    select: &str,
) -> Result<Vec<tokio_postgres::Row>, DatabaseError> {
    match client.query(select, &[]).await.map_err(DatabaseError::from) {
        Err(error) if error.has_code(&["42P01"]) => Ok(Vec::new()),
        result => result,
    }
}

/// Runs the pending statements, or waits until another server did. Returns their number.
pub(crate) async fn migrate(
    pool: &ConnectionPool,
    migrations: &[Migration],
) -> Result<usize, DatabaseError> {
    let mut holder = [0; 16];
    getrandom::fill(&mut holder).map_err(|error| DatabaseError::internal(error.to_string()))?;
    let holder = format!("{:032x}", u128::from_be_bytes(holder));
    let (mut count, mut is_waiting) = (0, false);
    loop {
        let SchemaStatus { version, pending, .. } = read_schema_status(pool, migrations).await?;
        let Some(first) = pending.first() else {
            if count > 0 {
                tracing::info!(version, statements = count, "updated the schema of the database");
            }
            return Ok(count);
        };
        let client = pool.connect(SessionKind::Migration).await?;
        if (version, first.step) == (0, 1) {
            check_encoding(&client).await?;
            for step in pending.iter().take(BOOKKEEPING.len()) {
                run_step(pool, &client, &step.text, None)
                    .await
                    .map_err(explain_missing_privilege)?;
            }
        }
        if take_lease(&client, &holder).await? {
            count += run_pending(pool, &client, migrations, &holder).await?;
            client.execute(RELEASE_LEASE, &[&holder]).await?;
        } else {
            if !std::mem::replace(&mut is_waiting, true) {
                tracing::info!("waiting for another server that updates the schema");
            }
            sleep(LEASE_POLL).await;
        }
    }
}

/// Runs pending statements while this server has the lease. Returns their number.
async fn run_pending(
    pool: &ConnectionPool,
    client: &ClientWrapper,
    migrations: &[Migration],
    holder: &str,
) -> Result<usize, DatabaseError> {
    let mut count = 0;
    let status = read_schema_status(pool, migrations).await?;
    for step in status.pending {
        if !take_lease(client, holder).await? {
            break;
        }
        let (version, number) = (step.version, step.step);
        if status.version == status.latest {
            tracing::warn!(statement = step.text, "an index of the database is missing");
        }
        tracing::debug!(version, statement = number, "changing the schema of the database");
        run_step(pool, client, &step.text, Some(holder))
            .await
            .map_err(explain_missing_privilege)?;
        client.execute(RECORD_STEP, &[&step.version, &step.step, &step.text]).await?;
        count += 1;
    }
    Ok(count)
}

/// The error of a role that may not change the schema.
fn explain_missing_privilege(error: DatabaseError) -> DatabaseError {
    if !error.has_code(&["42501"]) {
        return error;
    }
    DatabaseError::report(unavailable(
        "its schema is incomplete, and this role may not change it; run `reqlore migrate up` \
         with a role that may",
    ))
}

async fn check_encoding(client: &ClientWrapper) -> Result<(), DatabaseError> {
    let row = client.query_one("SHOW server_encoding", &[]).await?;
    let encoding: &str = row.try_get(0)?;
    if encoding == "UTF8" {
        return Ok(());
    }
    let reason = format!("has the encoding {encoding}; create it with ENCODING 'UTF8'");
    Err(DatabaseError::report(refused(reason)))
}

async fn renew_lease(pool: &ConnectionPool, holder: &str) -> Result<(), DatabaseError> {
    take_lease(&*pool.get().await?, holder).await.map(drop)
}

async fn take_lease(client: &ClientWrapper, holder: &str) -> Result<bool, DatabaseError> {
    Ok(client.execute(TAKE_LEASE, &[&holder, &LEASE_MILLISECONDS]).await? == 1)
}

/// Runs a statement and keeps the lease meanwhile. Repeats it after conflicts with other servers:
/// despite `IF NOT EXISTS`, PostgreSQL reports two that create the same object at the same time.
async fn run_step(
    pool: &ConnectionPool,
    client: &ClientWrapper,
    statement: &str,
    holder: Option<&str>,
) -> Result<(), DatabaseError> {
    const CONCURRENT: [&str; 4] = ["23505", "42P07", "42710", "XX000"];
    let mut attempt = 1;
    loop {
        let step = client.batch_execute(statement);
        tokio::pin!(step);
        let result = loop {
            tokio::select! {
                result = &mut step => break result,
                () = sleep(LEASE_RENEWAL) => {
                    if let Some(holder) = holder
                        && let Err(error) = renew_lease(pool, holder).await
                    {
                        // The statement continues, and another server may wait for it.
                        tracing::warn!(%error, "could not renew the lease of a migration");
                    }
                }
            }
        };
        let Err(error) = result.map_err(DatabaseError::from) else { return Ok(()) };
        let is_conflict = error.next == NextStep::Repeat || error.has_code(&CONCURRENT);
        if !is_conflict || attempt == STEP_ATTEMPTS {
            return Err(error);
        }
        attempt += 1;
        sleep(LEASE_POLL).await;
    }
}
