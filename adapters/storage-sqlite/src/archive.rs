//! The database as a whole: all of it as it was at one moment, and filling an empty one.
//!
//! The trap: while it is being filled nothing is synced; the last transaction syncs the log, and
//! with it everything before.

use async_trait::async_trait;
use reqlore_domain::audit::AuditRow;
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::Kind;
use reqlore_domain::ports::archive::{Archive, Identities, Mark, Record, Sink, Source};
use reqlore_domain::ports::documents::{Revision, StoreError, StoreResult};
use reqlore_domain::project::ProjectKey;
use reqlore_domain::time::Timestamp;
use reqlore_sqlite_team::connection::keep_log_on_close;
use reqlore_sqlite_team::error::refused;
use reqlore_sqlite_team::{audit, identity};
use rusqlite::{Connection, TransactionBehavior};

use crate::connection::{Connector, Use};
use crate::error::{DATABASE, Failed, call_failed};
use crate::{SqliteStore, read, write};

/// While filling, the log is moved into the database when it has so many pages.
const LOG_PAGES: u32 = 8_000;

#[async_trait]
impl Archive for SqliteStore {
    async fn read(&self) -> StoreResult<Box<dyn Source>> {
        let connector = self.connector.clone();
        let moment = blocking(move || Moment::begin(&connector)).await?;
        Ok(Box::new(Reading { total: moment.total, moment: Some(moment) }))
    }

    async fn fill(&self) -> StoreResult<Box<dyn Sink>> {
        let connector = self.connector.clone();
        let connection = blocking(move || begin_filling(&connector)).await?;
        Ok(Box::new(Filling { connector: self.connector.clone(), connection: Some(connection) }))
    }
}

async fn blocking<T: Send + 'static>(
    act: impl FnOnce() -> Result<T, Failed> + Send + 'static,
) -> StoreResult<T> {
    let done = tokio::task::spawn_blocking(act).await;
    done.map_err(|error| StoreError::Internal(error.to_string()))?.map_err(call_failed)
}

fn interrupted() -> StoreError {
    StoreError::Internal("an earlier step of the copy did not come to its end".to_owned())
}

struct Reading {
    total: usize,
    moment: Option<Moment>,
}

#[async_trait]
impl Source for Reading {
    fn total(&self) -> Option<usize> {
        Some(self.total)
    }

    async fn next(&mut self) -> StoreResult<Vec<Record>> {
        self.look(Moment::next).await
    }

    async fn marks(&mut self) -> StoreResult<Vec<Mark>> {
        self.look(|moment| moment.marks()).await
    }

    async fn identities(&mut self) -> StoreResult<Identities> {
        self.look(|moment| identity::all(&moment.connection)).await
    }

    async fn audit(&mut self) -> StoreResult<Vec<AuditRow>> {
        self.look(Moment::audit).await
    }
}

impl Reading {
    /// After an error there is nothing more to be read.
    async fn look<T: Send + 'static>(
        &mut self,
        read: impl FnOnce(&mut Moment) -> Result<T, Failed> + Send + 'static,
    ) -> StoreResult<T> {
        let mut moment = self.moment.take().ok_or_else(interrupted)?;
        let (found, moment) = blocking(move || Ok((read(&mut moment)?, moment))).await?;
        self.moment = Some(moment);
        Ok(found)
    }
}

/// A read transaction, which sees the database as it was when this began.
struct Moment {
    connection: Connection,
    total: usize,
    /// Each project and kind that is still to be read, the next one last.
    parts: Vec<(i64, ProjectKey, Kind)>,
    /// Where the part that is being read goes on.
    from: String,
    /// The first row of the audit that is still to be read.
    row: u64,
}

impl Moment {
    fn begin(connector: &Connector) -> Result<Self, Failed> {
        connector.place.check()?;
        let connection = connector.open(Use::Read)?;
        connection.execute_batch("BEGIN")?;
        read::check_complete(DATABASE, &connection)?;
        let count = "SELECT count(*) FROM documents";
        let total = connection.query_one(count, [], |row| row.get(0))?;
        let mut parts = Vec::new();
        let mut projects = connection.prepare("SELECT id, key FROM projects ORDER BY key DESC")?;
        let mut rows = projects.query([])?;
        while let Some(row) = rows.next()? {
            let key = ProjectKey::new(row.get::<_, String>(1)?);
            let id = row.get(0)?;
            parts.extend(Kind::ALL.into_iter().rev().map(|kind| (id, key.clone(), kind)));
        }
        drop(rows);
        drop(projects);
        Ok(Self { connection, total, parts, from: String::new(), row: 1 })
    }

    fn next(&mut self) -> Result<Vec<Record>, Failed> {
        let mut select = self.connection.prepare_cached(
            "SELECT d.kind, d.name, d.version, b.body, d.modified, d.place \
             FROM documents d JOIN bodies b ON b.document = d.id \
             WHERE d.project = ?1 AND d.kind = ?2 AND d.name >= ?3 \
             ORDER BY d.name",
        )?;
        let (mut records, mut bytes) = (Vec::new(), 0);
        while let Some((id, project, kind)) = self.parts.last() {
            let mut rows = select.query((id, kind.name(), &self.from))?;
            while let Some(row) = rows.next()? {
                let document = read::whole(row)?;
                bytes += document.body.len();
                self.from = read::beyond(&document.id.name);
                let place: Option<String> = row.get(5)?;
                records.push(Record {
                    project: project.clone(),
                    document,
                    modified: Timestamp(row.get(4)?),
                    place: place.map(Into::into),
                });
                if records.len() >= read::BATCH || bytes > read::BATCH_BYTES {
                    return Ok(records);
                }
            }
            drop(rows);
            self.parts.pop();
            self.from.clear();
        }
        Ok(records)
    }

    fn marks(&self) -> Result<Vec<Mark>, Failed> {
        let mut select = self.connection.prepare(
            "SELECT p.key, m.kind, m.number FROM marks m JOIN projects p ON p.id = m.project",
        )?;
        let mut rows = select.query([])?;
        let mut marks = Vec::new();
        while let Some(row) = rows.next()? {
            let (key, kind): (String, String) = (row.get(0)?, row.get(1)?);
            let kind = ItemKind::ALL.into_iter().find(|known| known.name() == kind);
            let kind = kind.ok_or_else(|| Failed::damaged("the kind of a number"))?;
            marks.push(Mark { project: ProjectKey::new(key), kind, number: row.get(2)? });
        }
        marks.sort_unstable();
        Ok(marks)
    }

    fn audit(&mut self) -> Result<Vec<AuditRow>, Failed> {
        let rows = audit::rows(&self.connection, self.row, read::BATCH, read::BATCH_BYTES)?;
        self.row = rows.last().map_or(self.row, |row| row.number + 1);
        Ok(rows)
    }
}

/// Marks the database incomplete, durably, if there is nothing in it.
fn begin_filling(connector: &Connector) -> Result<Connection, Failed> {
    connector.place.check_all()?;
    let mut connection = connector.open(Use::Write)?;
    keep_log_on_close(&connection, false)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    read::check_complete(DATABASE, &transaction)?;
    let holds = "SELECT EXISTS (SELECT 1 FROM documents) OR EXISTS (SELECT 1 FROM users) \
                 OR EXISTS (SELECT 1 FROM tokens) OR EXISTS (SELECT 1 FROM audit)";
    if transaction.query_one(holds, [], |row| row.get(0))? {
        let reason = "is not empty; copy into a new one";
        return Err(refused(DATABASE, reason).into());
    }
    transaction.execute("UPDATE store SET state = 'filling'", [])?;
    transaction.commit()?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)?;
    Ok(connection)
}

struct Filling {
    connector: Connector,
    connection: Option<Connection>,
}

#[async_trait]
impl Sink for Filling {
    async fn put(&mut self, records: Vec<Record>) -> StoreResult<()> {
        self.fill(move |transaction| put(transaction, &records)).await
    }

    async fn mark(&mut self, marks: Vec<Mark>) -> StoreResult<()> {
        let mark =
            move |transaction: &_| marks.iter().try_for_each(|m| write::mark(transaction, m));
        self.fill(mark).await
    }

    async fn identities(&mut self, identities: Identities) -> StoreResult<()> {
        self.fill(move |transaction| identity::put_all(transaction, &identities)).await
    }

    async fn audit(&mut self, rows: Vec<AuditRow>) -> StoreResult<()> {
        let put = move |transaction: &_| rows.iter().try_for_each(|r| audit::put(transaction, r));
        self.fill(put).await
    }

    async fn finish(mut self: Box<Self>) -> StoreResult<()> {
        let connection = self.connection.take().ok_or_else(interrupted)?;
        let connector = self.connector.clone();
        blocking(move || finish(&connector, &connection)).await
    }
}

impl Filling {
    /// One transaction. After an error nothing more is taken in.
    async fn fill(
        &mut self,
        write: impl FnOnce(&Connection) -> Result<(), Failed> + Send + 'static,
    ) -> StoreResult<()> {
        let mut connection = self.connection.take().ok_or_else(interrupted)?;
        let filled = blocking(move || {
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            write(&transaction)?;
            transaction.commit()?;
            Ok(connection)
        });
        self.connection = Some(filled.await?);
        Ok(())
    }
}

fn put(connection: &Connection, records: &[Record]) -> Result<(), Failed> {
    let mut current: Option<(&ProjectKey, (i64, Revision))> = None;
    for Record { project, document, modified, place } in records {
        let row = match current {
            Some((key, row)) if key == project => row,
            _ => write::next_revision(connection, project)?,
        };
        current = Some((project, row));
        write::count(connection, row.0, &document.id)?;
        write::put(connection, row, document, *modified, place.as_deref())?;
    }
    Ok(())
}

fn finish(connector: &Connector, connection: &Connection) -> Result<(), Failed> {
    connector.place.check_all()?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.execute("UPDATE store SET state = 'complete'", [])?;
    connector.place.check_all()?;
    Ok(())
}
