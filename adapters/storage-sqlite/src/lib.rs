//! Documents in one SQLite file, which several processes of one machine may use at once.
//!
//! One thread writes and gives many commits one sync; reads run concurrently. SQLite's promises
//! rest on its locks and its log, so nothing but SQLite may open the files.

mod archive;
mod connection;
mod database_file;
mod error;
mod integrity_check;
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

use connection::{
    ConnectionUse, Connector, INLINE_LIMIT, OpenMode, ReadPool, needs_immutable_mode,
};
use database_file::DatabaseFile;
use error::{QueryError, io_error};
use integrity_check::IntegrityCheck;
use schema::MIGRATIONS;
use write::SqliteEngine;

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
    _check: IntegrityCheck,
    pool: Arc<ReadPool>,
    writer: GroupWriter<SqliteEngine>,
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
        let place = Arc::new(DatabaseFile::prepare(&config.file)?);
        let shown = place.shown_path.clone();
        if is_too_old(rusqlite::version_number()) {
            let reason = format!(
                "can't be opened by SQLite {}, which may lose commits; build reqlore with its own",
                rusqlite::version()
            );
            return Err(refused(&shown, reason));
        }
        let mut connector = Connector { file: place, mode: OpenMode::Shared };
        let opened = open_for_writing(&mut connector, migrations);
        let (connection, was_unclean) = opened.map_err(|failed| failed.into_store_error(&shown))?;
        if connector.mode == OpenMode::Immutable {
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
        let place = Arc::new(DatabaseFile::prepare(&config.file)?);
        let shown = place.shown_path.clone();
        let mode = match (place.has_log(), place.has_shared_memory()) {
            (false, _) => OpenMode::Immutable,
            (true, true) => OpenMode::ReadOnly,
            (true, false) => return Ok(Looked::Unsettled),
        };
        let connector = Connector { file: place, mode };
        let newest = MIGRATIONS.len();
        let inspected = open_existing(&connector, newest);
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
        let place = Arc::clone(&connector.file);
        place.record_identity();
        let thread = |error| io_error(&connector.file.shown_path, "start a thread for it", error);
        let damaged = Arc::default();
        let engine = SqliteEngine {
            connection,
            file: place,
            is_damaged: Arc::clone(&damaged),
            schema,
            group_error: None,
        };
        Ok(Self {
            writer: GroupWriter::start("sqlite-writer", engine).map_err(thread)?,
            pool: Arc::new(ReadPool::new(connector.clone(), schema)),
            _check: IntegrityCheck::start(connector.clone(), was_unclean, damaged)
                .map_err(thread)?,
            connector,
        })
    }
}

/// The writer's connection, and whether the last process did not close the database.
fn open_for_writing(
    connector: &mut Connector,
    migrations: &[&str],
) -> Result<(Connection, bool), QueryError> {
    let place = Arc::clone(&connector.file);
    let was_unclean = place.has_pending_log() && is_exclusive(connector);
    let opened = connector.open(ConnectionUse::Write).and_then(|connection| {
        // The first access to the file.
        connection.pragma_query_value(None, "schema_version", |_| Ok(()))?;
        Ok(connection)
    });
    let mut connection = match opened {
        Err(error)
            if needs_immutable_mode(&error) && place.exists() && !place.has_pending_log() =>
        {
            connector.mode = OpenMode::Immutable;
            connector.open(ConnectionUse::Write)?
        }
        opened => opened?,
    };
    schema::prepare_database(connector, &mut connection, migrations)?;
    Ok((connection, was_unclean))
}

/// The schema of a database that is there, and whether this program can use it as it is.
fn open_existing(
    connector: &Connector,
    newest: usize,
) -> Result<(Connection, usize, bool), QueryError> {
    let connection = connector.open(ConnectionUse::Read)?;
    let schema = schema::schema_version(&connector.file, &connection, newest)?;
    if schema < newest {
        return Ok((connection, schema, false));
    }
    read::check_complete(&connector.file.shown_path, &connection)?;
    let is_current = read::is_current(&connection, newest)?;
    Ok((connection, schema, is_current))
}

/// True if no other process has the database open; then its log is the rest of a crash.
fn is_exclusive(connector: &Connector) -> bool {
    let alone = connector
        .open(ConnectionUse::Exclusive)
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
        self.pool.read_by_count(count, move |from| read::documents(from, &project, &ids)).await
    }

    async fn versions(
        &self,
        project: &ProjectKey,
        ids: &[DocumentId],
    ) -> StoreResult<Vec<Option<Version>>> {
        let (project, ids) = (project.clone(), ids.to_vec());
        let count = ids.len();
        self.pool.read_by_count(count, move |from| read::versions(from, &project, &ids)).await
    }

    async fn find(
        &self,
        project: &ProjectKey,
        filter: &DocumentFilter,
    ) -> StoreResult<MetadataPage> {
        let (project, filter) = (project.clone(), filter.clone());
        self.pool.read_blocking(move |from| read::metadata_page(from, &project, &filter)).await
    }

    async fn lookup(
        &self,
        project: &ProjectKey,
        kind: DocumentKind,
        words: &[String],
    ) -> StoreResult<Vec<Vec<Arc<DocumentMeta>>>> {
        let (project, words) = (project.clone(), words.to_vec());
        let count = words.len();
        self.pool.read_by_count(count, move |from| read::lookup(from, &project, kind, &words)).await
    }

    async fn backlinks(
        &self,
        project: &ProjectKey,
        links: &BacklinkQuery,
    ) -> StoreResult<Vec<Vec<Arc<DocumentMeta>>>> {
        if links.targets.len() <= INLINE_LIMIT {
            let (project, links) = (project.clone(), links.clone());
            let few = move |from: &_| read::backlinks(from, &project, &links, INLINE_BACKLINKS);
            if let Some(found) = self.pool.read_inline(few).await? {
                return Ok(found);
            }
        }
        let (project, links) = (project.clone(), links.clone());
        let all = move |from: &_| read::backlinks(from, &project, &links, usize::MAX);
        Ok(self.pool.read_blocking(all).await?.unwrap_or_default())
    }

    async fn commit(
        &self,
        project: &ProjectKey,
        commit: CommitRequest,
    ) -> StoreResult<CommitResult> {
        let project = project.clone();
        self.writer.run(move |engine| engine.apply_commit(&project, commit)).await
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
        self.pool.read_inline(move |from| read::changes(from, &project, kind, since)).await
    }
}

#[cfg(test)]
mod tests;
