//! Documents in one SQLite file, which several processes of one machine may use at once.
//!
//! One thread writes and gives many commits one sync; reads run concurrently. SQLite's promises
//! rest on its locks and its log, so nothing but SQLite may open the files.

mod archive;
mod check;
mod connection;
mod error;
mod place;
mod read;
mod schema;
mod team;
mod write;

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use reqlore_domain::document::{Document, DocumentId, DocumentKind, DocumentMeta, Version};
use reqlore_domain::ports::documents::{
    BacklinkQuery, ChangeSet, CommitRequest, CommitResult, DocumentFilter, DocumentRepository,
    MetadataPage, Refresh, Revision, StoreResult,
};
use reqlore_domain::project_key::ProjectKey;
use reqlore_group_commit::GroupWriter;
use reqlore_sqlite_team::connection::is_too_old;
use reqlore_sqlite_team::error::refused;
use rusqlite::Connection;

use check::Check;
use connection::{Connector, INLINE_LIMIT, Mode, Pool, Use, needs_freezing};
use error::{Failed, system};
use place::Place;
use schema::MIGRATIONS;
use write::Engine;

/// At most this many backlinks are read on the caller's thread; callers can't know their number.
const INLINE_BACKLINKS: usize = 200;

#[derive(Debug, Clone)]
pub struct Config {
    /// The database; its log lies next to it.
    pub file: PathBuf,
}

/// An open database. The fields close in this order; the writer, as the last one, leaves a clean
/// file.
#[derive(Debug)]
pub struct SqliteStore {
    _check: Check,
    pool: Arc<Pool>,
    writer: GroupWriter<Engine>,
    connector: Connector,
}

/// The outcome of a read-only open.
#[derive(Debug)]
pub enum Looked {
    Open {
        store: SqliteStore,
        schema: usize,
    },
    /// The next [`SqliteStore::open`] migrates it; schema 0 is an empty file.
    Older {
        schema: usize,
        newest: usize,
    },
    /// Its last process did not close it, and the log can't be read without recovering it.
    Unsettled,
}

impl SqliteStore {
    /// Opens the database and creates it if it is missing. Blocks for a few milliseconds, or for as
    /// long as a migration takes.
    pub fn open(config: &Config) -> StoreResult<Self> {
        Self::open_with(config, MIGRATIONS)
    }

    fn open_with(config: &Config, migrations: &[&str]) -> StoreResult<Self> {
        let place = Arc::new(Place::prepare(&config.file)?);
        let shown = place.shown.clone();
        if is_too_old(rusqlite::version_number()) {
            let reason = format!(
                "can't be opened by SQLite {}, which may lose commits; build reqlore with its own",
                rusqlite::version()
            );
            return Err(refused(&shown, reason));
        }
        let mut connector = Connector { place, mode: Mode::Shared };
        let opened = open(&mut connector, migrations);
        let (connection, was_unclean) = opened.map_err(|failed| failed.into_store_error(&shown))?;
        if connector.mode == Mode::Frozen {
            tracing::warn!(
                file = shown,
                "the database and its folder can only be read; what others write to it shows at \
                 the next start"
            );
        }
        Self::start(connector, connection, migrations.len(), was_unclean)
    }

    /// Opens an existing database for reading and changes nothing: it is not created, migrated or
    /// recovered.
    ///
    /// Reading a log needs the memory file that processes share, and SQLite creates a missing one.
    /// A database without a log is therefore read as immutable; a read may fail once if another
    /// process begins to write.
    pub fn look(config: &Config) -> StoreResult<Looked> {
        let place = Arc::new(Place::prepare(&config.file)?);
        let shown = place.shown.clone();
        let mode = match (place.has_log(), place.has_shared_memory()) {
            (false, _) => Mode::Frozen,
            (true, true) => Mode::ReadOnly,
            (true, false) => return Ok(Looked::Unsettled),
        };
        let connector = Connector { place, mode };
        let newest = MIGRATIONS.len();
        let inspected = inspect(&connector, newest);
        let (connection, schema, is_current) =
            inspected.map_err(|failed| failed.into_store_error(&shown))?;
        if !is_current {
            return Ok(Looked::Older { schema, newest });
        }
        let store = Self::start(connector, connection, newest, false)?;
        Ok(Looked::Open { store, schema })
    }

    fn start(
        connector: Connector,
        connection: Connection,
        schema: usize,
        was_unclean: bool,
    ) -> StoreResult<Self> {
        let place = Arc::clone(&connector.place);
        place.remember();
        let thread = |error| system(&connector.place.shown, "start a thread for it", error);
        let damaged = Arc::default();
        let engine =
            Engine { connection, place, damaged: Arc::clone(&damaged), schema, lost: None };
        Ok(Self {
            writer: GroupWriter::start("sqlite-writer", engine).map_err(thread)?,
            pool: Arc::new(Pool::new(connector.clone(), schema)),
            _check: Check::start(connector.clone(), was_unclean, damaged).map_err(thread)?,
            connector,
        })
    }
}

/// The writer's connection, and whether the last process did not close the database.
fn open(connector: &mut Connector, migrations: &[&str]) -> Result<(Connection, bool), Failed> {
    let place = Arc::clone(&connector.place);
    let was_unclean = place.has_unmoved_log() && is_alone(connector);
    let opened = connector.open(Use::Write).and_then(|connection| {
        // The first access to the file.
        connection.pragma_query_value(None, "schema_version", |_| Ok(()))?;
        Ok(connection)
    });
    let mut connection = match opened {
        Err(error) if needs_freezing(&error) && place.exists() && !place.has_unmoved_log() => {
            connector.mode = Mode::Frozen;
            connector.open(Use::Write)?
        }
        opened => opened?,
    };
    schema::prepare(connector, &mut connection, migrations)?;
    Ok((connection, was_unclean))
}

/// The schema of a database that is there, and whether this program can use it as it is.
fn inspect(connector: &Connector, newest: usize) -> Result<(Connection, usize, bool), Failed> {
    let connection = connector.open(Use::Read)?;
    let schema = schema::version_of(&connector.place, &connection, newest)?;
    if schema < newest {
        return Ok((connection, schema, false));
    }
    read::check_complete(&connector.place.shown, &connection)?;
    let is_current = read::is_current(&connection, newest)?;
    Ok((connection, schema, is_current))
}

/// True if no other process has the database open; then its log is the rest of a crash.
fn is_alone(connector: &Connector) -> bool {
    let alone = connector
        .open(Use::Alone)
        .and_then(|connection| connection.pragma_query_value(None, "schema_version", |_| Ok(())));
    alone.is_ok()
}

#[async_trait]
impl DocumentRepository for SqliteStore {
    async fn get(
        &self,
        project: &ProjectKey,
        ids: &[DocumentId],
    ) -> StoreResult<Vec<Option<Document>>> {
        let (project, ids) = (project.clone(), ids.to_vec());
        let count = ids.len();
        self.pool.sized(count, move |from| read::documents(from, &project, &ids)).await
    }

    async fn versions(
        &self,
        project: &ProjectKey,
        ids: &[DocumentId],
    ) -> StoreResult<Vec<Option<Version>>> {
        let (project, ids) = (project.clone(), ids.to_vec());
        let count = ids.len();
        self.pool.sized(count, move |from| read::versions(from, &project, &ids)).await
    }

    async fn find(
        &self,
        project: &ProjectKey,
        filter: &DocumentFilter,
    ) -> StoreResult<MetadataPage> {
        let (project, filter) = (project.clone(), filter.clone());
        self.pool.large(move |from| read::page(from, &project, &filter)).await
    }

    async fn lookup(
        &self,
        project: &ProjectKey,
        kind: DocumentKind,
        words: &[String],
    ) -> StoreResult<Vec<Vec<Arc<DocumentMeta>>>> {
        let (project, words) = (project.clone(), words.to_vec());
        let count = words.len();
        self.pool.sized(count, move |from| read::lookup(from, &project, kind, &words)).await
    }

    async fn backlinks(
        &self,
        project: &ProjectKey,
        links: &BacklinkQuery,
    ) -> StoreResult<Vec<Vec<Arc<DocumentMeta>>>> {
        if links.targets.len() <= INLINE_LIMIT {
            let (project, links) = (project.clone(), links.clone());
            let few = move |from: &_| read::backlinks(from, &project, &links, INLINE_BACKLINKS);
            if let Some(found) = self.pool.small(few).await? {
                return Ok(found);
            }
        }
        let (project, links) = (project.clone(), links.clone());
        let all = move |from: &_| read::backlinks(from, &project, &links, usize::MAX);
        Ok(self.pool.large(all).await?.unwrap_or_default())
    }

    async fn commit(
        &self,
        project: &ProjectKey,
        commit: CommitRequest,
    ) -> StoreResult<CommitResult> {
        let project = project.clone();
        self.writer.run(move |engine| engine.apply(&project, commit)).await
    }

    /// Commits of every process are in the database, so a refresh has nothing to do.
    async fn changes(
        &self,
        project: &ProjectKey,
        kind: DocumentKind,
        since: Revision,
        _: Refresh,
    ) -> StoreResult<ChangeSet> {
        let project = project.clone();
        self.pool.small(move |from| read::changes(from, &project, kind, since)).await
    }
}

#[cfg(test)]
mod tests;
