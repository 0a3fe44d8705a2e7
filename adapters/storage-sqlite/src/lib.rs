//! Documents in one SQLite file, which several processes of one machine may use at once.
//!
//! Writes go through one thread that gives many commits one sync; reads run beside them. The trap:
//! what SQLite promises rests on its locks and its log, so nothing but SQLite may touch the files.

mod archive;
mod check;
mod connection;
mod error;
mod look;
mod place;
mod pool;
mod read;
mod schema;
mod team;
mod write;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use async_trait::async_trait;
use reqlore_domain::document::{Document, DocumentId, DocumentMeta, Kind, Version};
use reqlore_domain::ports::documents::{
    BacklinkQuery, Changes, Commit, Committed, DocumentRepository, Filter, Page, Refresh, Revision,
    StoreResult,
};
use reqlore_domain::project::ProjectKey;
use reqlore_group_commit::Writer;
use reqlore_sqlite_team::connection::is_too_old;
use reqlore_sqlite_team::error::refused;
use rusqlite::Connection;

use check::Check;
use connection::{Connector, Mode, Use, needs_freezing};
use error::{Failed, system};
pub use look::Looked;
use place::Place;
use pool::Pool;
use write::Engine;

/// Up to so many documents or words are read on the caller's own thread.
const FEW: usize = 16;
/// And so many heads that link to something; who asks can't know how many there are.
const FEW_HEADS: usize = 200;

/// Where the database lies.
#[derive(Debug, Clone)]
pub struct Config {
    pub file: PathBuf,
}

/// A database, open. The fields close in this order; the writer, as the last one, leaves a clean
/// file behind.
#[derive(Debug)]
pub struct SqliteStore {
    _check: Check,
    pool: Arc<Pool>,
    writer: Writer<Engine>,
    connector: Connector,
}

impl SqliteStore {
    /// Opens the database, and creates it where there is none. Blocks; a few milliseconds, or as
    /// long as bringing an older one up to date takes.
    pub fn open(config: &Config) -> StoreResult<Self> {
        Self::open_with(config, schema::MIGRATIONS)
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
        connector.place.remember();
        let damaged = Arc::new(AtomicBool::new(false));
        if connector.mode == Mode::Frozen {
            tracing::warn!(
                file = shown,
                "the database and its folder can only be read; what others write to it shows at \
                 the next start"
            );
        }
        let engine = Engine {
            connection,
            place: Arc::clone(&connector.place),
            damaged: Arc::clone(&damaged),
            schema: migrations.len(),
            lost: None,
        };
        let thread = |error| system(&shown, "start a thread for it", error);
        Ok(Self {
            writer: Writer::start("sqlite-writer", engine).map_err(thread)?,
            pool: Arc::new(Pool::new(connector.clone(), migrations.len())),
            _check: Check::start(connector.clone(), was_unclean, damaged).map_err(thread)?,
            connector,
        })
    }
}

/// The writer's connection, and whether whoever had the database last did not close it.
fn open(connector: &mut Connector, migrations: &[&str]) -> Result<(Connection, bool), Failed> {
    let place = Arc::clone(&connector.place);
    let was_unclean = place.has_wal() && is_alone(connector);
    let opened = connector.open(Use::Write).and_then(|connection| {
        // The first look into the file.
        connection.pragma_query_value(None, "schema_version", |_| Ok(()))?;
        Ok(connection)
    });
    let mut connection = match opened {
        Err(error) if needs_freezing(&error) && place.is_there() && !place.has_wal() => {
            connector.mode = Mode::Frozen;
            connector.open(Use::Write)?
        }
        opened => opened?,
    };
    schema::prepare(connector, &mut connection, migrations)?;
    Ok((connection, was_unclean))
}

/// Does nobody else have the database open? Then what lies in its log was left there.
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
        let few = ids.len() <= FEW;
        let read = move |connection: &Connection| read::documents(connection, &project, &ids);
        if few { self.pool.small(read).await } else { self.pool.large(read).await }
    }

    async fn versions(
        &self,
        project: &ProjectKey,
        ids: &[DocumentId],
    ) -> StoreResult<Vec<Option<Version>>> {
        let (project, ids) = (project.clone(), ids.to_vec());
        let few = ids.len() <= FEW;
        let read = move |connection: &Connection| read::versions(connection, &project, &ids);
        if few { self.pool.small(read).await } else { self.pool.large(read).await }
    }

    async fn find(&self, project: &ProjectKey, filter: &Filter) -> StoreResult<Page> {
        let (project, filter) = (project.clone(), filter.clone());
        self.pool.large(move |connection| read::page(connection, &project, &filter)).await
    }

    async fn lookup(
        &self,
        project: &ProjectKey,
        kind: Kind,
        words: &[String],
    ) -> StoreResult<Vec<Vec<Arc<DocumentMeta>>>> {
        let (project, words) = (project.clone(), words.to_vec());
        let few = words.len() <= FEW;
        let read = move |connection: &Connection| read::lookup(connection, &project, kind, &words);
        if few { self.pool.small(read).await } else { self.pool.large(read).await }
    }

    async fn backlinks(
        &self,
        project: &ProjectKey,
        links: &BacklinkQuery,
    ) -> StoreResult<Vec<Vec<Arc<DocumentMeta>>>> {
        let (project, links) = (project.clone(), links.clone());
        if links.targets.len() <= FEW {
            let (project, links) = (project.clone(), links.clone());
            let few = move |connection: &Connection| {
                read::backlinks(connection, &project, &links, FEW_HEADS)
            };
            if let Some(found) = self.pool.small(few).await? {
                return Ok(found);
            }
        }
        let all = move |connection: &Connection| {
            read::backlinks(connection, &project, &links, usize::MAX).map(Option::unwrap_or_default)
        };
        self.pool.large(all).await
    }

    async fn commit(&self, project: &ProjectKey, commit: Commit) -> StoreResult<Committed> {
        let project = project.clone();
        self.writer.run(move |engine| engine.apply(&project, commit)).await
    }

    /// Every commit of whatever process is in the database, so there is nothing to look for.
    async fn changes(
        &self,
        project: &ProjectKey,
        kind: Kind,
        since: Revision,
        _: Refresh,
    ) -> StoreResult<Changes> {
        let project = project.clone();
        self.pool.small(move |connection| read::changes(connection, &project, kind, since)).await
    }
}

#[cfg(test)]
mod tests;
