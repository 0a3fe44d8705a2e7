//! Documents in one SQLite file that several processes of one machine may use at once.
//!
//! One thread writes groups of commits that share one sync; reads run concurrently. Only SQLite may
//! open the files: closing another descriptor would drop its locks.

mod archive;
mod changes;
mod commit_count;
mod connection;
mod damage;
mod database_file;
mod error;
mod history;
mod integrity_check;
mod loss;
mod read;
mod schema;
mod tables;
mod team;
mod torn_copy;
mod write;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::document::{Document, DocumentId, DocumentKind, DocumentMeta, Version};
use reqlore_domain::ports::change_page::{ChangePage, ChangePosition};
use reqlore_domain::ports::documents::{
    BacklinkQuery, CommitRequest, CommitResult, DocumentFilter, DocumentRepository, MetadataPage,
    Refresh, StoreError, StoreResult, scan_items,
};
use reqlore_domain::ports::entity_list::{
    DuplicateIds, EntityCounts, SimilarEntities, UntaggedList,
};
use reqlore_domain::ports::item_list::{DiagnosticList, ItemPage, ItemQuery, StatusCounts};
use reqlore_domain::ports::storage_health::StorageHealth;
use reqlore_domain::project_key::ProjectKey;
use reqlore_group_commit::GroupWriter;
use reqlore_sqlite_metadata::MetadataTables;
use reqlore_sqlite_team::connection::is_too_old;
use reqlore_sqlite_team::error::refused;
use rusqlite::Connection;

use connection::{
    ConnectionUse, Connector, INLINE_LIMIT, OpenMode, ReadPool, needs_immutable_mode, run_blocking,
};
use damage::{CheckStage, DamageState};
use database_file::DatabaseFile;
use error::{QueryError, io_error};
use integrity_check::IntegrityCheck;
use loss::CommitLoss;
use write::SqliteEngine;

/// Maximum number of backlinks that are read on the caller's thread. Their number is unknown before
/// the read.
const INLINE_BACKLINKS: usize = 200;

#[derive(Debug, Clone)]
pub struct SqliteConfig {
    /// The database. Its log is in the same folder.
    pub file: PathBuf,
}

/// An open database. The fields are dropped in this order: the writer closes the last connection
/// and leaves an empty log.
#[derive(Debug)]
pub struct SqliteStore {
    _check: IntegrityCheck,
    damage: Arc<DamageState>,
    pool: Arc<ReadPool>,
    writer: GroupWriter<SqliteEngine>,
    connector: Connector,
    /// The database's ID. A process assigns a new one only while it has exclusive access.
    store_id: u128,
}

/// The outcome of a read-only open.
#[derive(Debug)]
pub enum ReadOnlyOpen {
    Open(SqliteStore),
    /// The last process did not close it, and its log cannot be read without a recovery.
    NeedsRecovery,
}

impl SqliteStore {
    /// Opens the database, or creates it if it is missing. Blocks for a few milliseconds.
    pub fn open(config: &SqliteConfig) -> StoreResult<Self> {
        let file = Arc::new(DatabaseFile::prepare(&config.file)?);
        let shown_path = file.shown_path.clone();
        if is_too_old(rusqlite::version_number()) {
            let reason = format!(
                "cannot be opened: SQLite {} may lose commits; build reqlore with its bundled \
                 SQLite",
                rusqlite::version()
            );
            return Err(refused(&shown_path, reason));
        }
        let mut connector = Connector { file, mode: OpenMode::Shared };
        let opened = open_for_writing(&mut connector);
        let connection = opened.map_err(|failed| failed.into_store_error(&shown_path))?;
        if connector.mode == OpenMode::Immutable {
            tracing::warn!(
                file = shown_path,
                "the database is read-only; changes by other processes show after a restart"
            );
        }
        Self::start(connector, connection)
    }

    /// Fails if files next to a missing database show that it was lost. Changes nothing.
    pub fn check_never_used(config: &SqliteConfig) -> StoreResult<()> {
        // A missing folder has no such files, and would be created.
        if !config.file.parent().is_some_and(Path::is_dir) {
            return Ok(());
        }
        DatabaseFile::prepare(&config.file)?.check_never_used()
    }

    /// Opens an existing database for reading, without creating or recovering it.
    ///
    /// To read a log, SQLite changes the shared memory file. So a database with an empty log is
    /// read as immutable. Such a read may fail once if another process begins to write.
    pub fn open_read_only(config: &SqliteConfig) -> StoreResult<ReadOnlyOpen> {
        let file = Arc::new(DatabaseFile::prepare(&config.file)?);
        let shown_path = file.shown_path.clone();
        let mode = match (file.has_pending_log(), file.has_shared_memory()) {
            (false, _) => OpenMode::Immutable,
            (true, true) => OpenMode::ReadOnly,
            (true, false) => return Ok(ReadOnlyOpen::NeedsRecovery),
        };
        let connector = Connector { file, mode };
        let connection =
            open_existing(&connector).map_err(|failed| failed.into_store_error(&shown_path))?;
        Ok(ReadOnlyOpen::Open(Self::start(connector, connection)?))
    }

    fn start(connector: Connector, connection: Connection) -> StoreResult<Self> {
        let file = Arc::clone(&connector.file);
        let counter = commit_count::read_counter(&connection);
        let counter = counter.map_err(|failed| failed.into_store_error(&file.shown_path))?;
        let store_id = u128::from_be_bytes(counter.database_id.0);
        file.record_identity();
        let file_name = file.path.file_name().unwrap_or_default().display().to_string();
        let damage = Arc::new(DamageState::new(file_name));
        let engine = SqliteEngine {
            connection,
            file: Arc::clone(&file),
            damage: Arc::clone(&damage),
            group_error: None,
            changes: 0,
            has_steps: false,
        };
        let writer = GroupWriter::start("sqlite-writer", engine);
        let writer = writer.map_err(|error| thread_error(&file, error))?;
        let check = IntegrityCheck::start(&connector, &damage);
        Ok(Self {
            _check: check.map_err(|error| thread_error(&file, error))?,
            pool: Arc::new(ReadPool::new(connector.clone(), Arc::clone(&damage))),
            damage,
            writer,
            connector,
            store_id,
        })
    }
}

fn thread_error(file: &DatabaseFile, error: std::io::Error) -> StoreError {
    io_error(&file.shown_path, "start a thread for it", error)
}

/// Returns the writer's connection.
fn open_for_writing(connector: &mut Connector) -> Result<Connection, QueryError> {
    if !connector.file.exists() {
        schema::create_database(&connector.file)?;
    }
    let connection = connect(connector)?;
    schema::prepare_database(&connector.file, &connection)?;
    Ok(connection)
}

/// Opens an existing database, as immutable if it can only be read.
fn connect(connector: &mut Connector) -> Result<Connection, QueryError> {
    let file = Arc::clone(&connector.file);
    if loss::is_log_missing(&file)? {
        return Err(CommitLoss::MissingLog.into_error(&file).into());
    }
    if file.has_pending_log() {
        torn_copy::check_log(&file)?;
    }
    match open_and_access(connector, ConnectionUse::Write) {
        Err(error) if needs_immutable_mode(&error) && file.exists() && !file.has_pending_log() => {
            // File or folder are read-only. Without a log the file alone is complete.
            connector.mode = OpenMode::Immutable;
            Ok(connector.open(ConnectionUse::Write)?)
        }
        result => Ok(result?),
    }
}

/// Opens a database for reading.
fn open_existing(connector: &Connector) -> Result<Connection, QueryError> {
    let file = &connector.file;
    if loss::is_log_missing(file)? {
        return Err(CommitLoss::MissingLog.into_error(file).into());
    }
    let connection = connector.open(ConnectionUse::Read)?;
    // Before the tables are read, which another format may not have.
    schema::FORMAT.check(&connection, &file.shown_path)?;
    if let Some(loss) = loss::find_loss(file, &connection)? {
        return Err(loss.into_error(file).into());
    }
    read::check_complete(&file.shown_path, &connection)?;
    Ok(connection)
}

/// Opens a connection and reads from the file: SQLite reports most errors only then.
fn open_and_access(connector: &Connector, purpose: ConnectionUse) -> rusqlite::Result<Connection> {
    let connection = connector.open(purpose)?;
    connection.pragma_query_value(None, "schema_version", |_| Ok(()))?;
    Ok(connection)
}

#[async_trait]
impl StorageHealth for SqliteStore {
    fn known_damage(&self) -> Option<String> {
        // A missing file stops all writes, but only writes would find that out.
        let check_files = || self.connector.file.check_all_identities().err();
        self.damage.known().or_else(|| check_files().map(|error| error.to_string()))
    }

    async fn find_damage(&self) -> StoreResult<Vec<String>> {
        let connector = self.connector.clone();
        run_blocking(move || integrity_check::find_all_damage(&connector)).await
    }
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
        let read = self.pool.read_by_count(count, move |connection| {
            read::documents(connection, read::project_id(connection, &project)?, &ids)
        });
        self.confirm_missing(read.await?).await
    }

    async fn versions(
        &self,
        project: &ProjectKey,
        ids: &[DocumentId],
    ) -> StoreResult<Vec<Option<Version>>> {
        let (project, ids) = (project.clone(), ids.to_vec());
        let count = ids.len();
        let read = self
            .pool
            .read_by_count(count, move |connection| read::versions(connection, &project, &ids));
        self.confirm_missing(read.await?).await
    }

    async fn find(
        &self,
        project: &ProjectKey,
        filter: &DocumentFilter,
    ) -> StoreResult<MetadataPage> {
        let (project, filter) = (project.clone(), filter.clone());
        self.damage.wait_for_stage(CheckStage::Documents).await?;
        self.pool
            .read_blocking(move |connection| read::metadata_page(connection, &project, &filter))
            .await
    }

    async fn items(&self, project: &ProjectKey, query: &ItemQuery) -> StoreResult<ItemPage> {
        if query.needs_scan() {
            return scan_items(self, project, query).await;
        }
        let query = query.clone();
        self.read_list(project, move |tables| tables.items(&query)).await
    }

    async fn child_statuses(
        &self,
        project: &ProjectKey,
        kind: ItemKind,
        parents: &[Reference],
    ) -> StoreResult<Vec<StatusCounts>> {
        let parents = parents.to_vec();
        self.read_list(project, move |tables| tables.child_statuses(kind, &parents)).await
    }

    async fn diagnostics(
        &self,
        project: &ProjectKey,
        kind: DocumentKind,
        limit: usize,
    ) -> StoreResult<DiagnosticList> {
        self.read_list(project, move |tables| tables.diagnostics(kind, limit)).await
    }

    async fn entity_kinds(&self, project: &ProjectKey) -> StoreResult<EntityCounts> {
        self.read_list(project, |tables| tables.entity_kinds()).await
    }

    async fn tag_counts(
        &self,
        project: &ProjectKey,
        kind: Option<String>,
    ) -> StoreResult<EntityCounts> {
        self.read_list(project, move |tables| tables.tag_counts(kind.as_deref())).await
    }

    async fn untagged(
        &self,
        project: &ProjectKey,
        kind: Option<String>,
        limit: usize,
    ) -> StoreResult<UntaggedList> {
        self.read_list(project, move |tables| tables.untagged(kind.as_deref(), limit)).await
    }

    async fn similar_entities(
        &self,
        project: &ProjectKey,
        text: &str,
    ) -> StoreResult<SimilarEntities> {
        let text = text.to_owned();
        self.read_list(project, move |tables| tables.similar_entities(&text)).await
    }

    async fn duplicate_ids(&self, project: &ProjectKey, limit: usize) -> StoreResult<DuplicateIds> {
        self.read_list(project, move |tables| tables.duplicate_ids(limit)).await
    }

    async fn lookup(
        &self,
        project: &ProjectKey,
        kind: DocumentKind,
        words: &[String],
    ) -> StoreResult<Vec<Vec<Arc<DocumentMeta>>>> {
        let (project, words) = (project.clone(), words.to_vec());
        let count = words.len();
        // Even a hit says that no other document has the same reference.
        self.damage.wait_for_stage(CheckStage::Documents).await?;
        self.pool
            .read_by_count(count, move |connection| {
                read::lookup(connection, &project, kind, &words)
            })
            .await
    }

    async fn backlinks(
        &self,
        project: &ProjectKey,
        links: &BacklinkQuery,
    ) -> StoreResult<Vec<Vec<Arc<DocumentMeta>>>> {
        self.damage.wait_for_stage(CheckStage::Links).await?;
        // Most targets have few backlinks: reading them is cheaper than a switch of threads.
        if links.targets.len() <= INLINE_LIMIT {
            let (project, links) = (project.clone(), links.clone());
            let read = self.pool.read_inline(move |connection| {
                let project = read::project_id(connection, &project)?;
                read::backlinks(connection, project, &links, INLINE_BACKLINKS)
            });
            if let Some(backlinks) = read.await? {
                return Ok(backlinks);
            }
        }
        let (project, links) = (project.clone(), links.clone());
        let read = self.pool.read_blocking(move |connection| {
            let project = read::project_id(connection, &project)?;
            read::backlinks(connection, project, &links, usize::MAX)
        });
        Ok(read.await?.unwrap_or_default())
    }

    async fn commit(
        &self,
        project: &ProjectKey,
        commit: CommitRequest,
    ) -> StoreResult<CommitResult> {
        let project = project.clone();
        self.writer.run(move |engine| engine.apply_commit(&project, commit)).await
    }

    /// Reads the commits of all processes from the database, so it needs no refresh.
    async fn changes_since(
        &self,
        project: &ProjectKey,
        since: Option<ChangePosition>,
        limit: usize,
        _: Refresh,
    ) -> StoreResult<ChangePage> {
        let store_id = self.store_id;
        // Most polls end here, and need not wait for the check of all documents.
        if let Some(position) = since {
            let key = project.clone();
            let is_latest = move |connection: &Connection| {
                changes::is_latest(connection, store_id, &key, position)
            };
            if self.pool.read_inline_statement(is_latest).await? {
                return Ok(ChangePage::Since { ids: Vec::new(), position, has_more: false });
            }
        }
        self.damage.wait_for_stage(CheckStage::Documents).await?;
        let project = project.clone();
        let read = move |connection: &Connection, limit| {
            changes::changes_since(connection, store_id, &project, since, limit)
        };
        let read_few = read.clone();
        let few = limit.min(INLINE_LIMIT);
        let page = self.pool.read_inline(move |connection| read_few(connection, few)).await?;
        // Most pages are short; only a long one is worth a switch of threads.
        match page {
            ChangePage::Since { has_more: true, .. } if few < limit => {
                self.pool.read_blocking(move |connection| read(connection, limit)).await
            }
            page => Ok(page),
        }
    }
}

impl SqliteStore {
    async fn read_list<T: Send + 'static>(
        &self,
        project: &ProjectKey,
        read: impl Fn(MetadataTables<'_>) -> Result<T, QueryError> + Send + 'static,
    ) -> StoreResult<T> {
        let project = project.clone();
        self.damage.wait_for_stage(CheckStage::Lists).await?;
        self.pool
            .read_inline(move |connection| {
                let project = read::project_id(connection, &project)?;
                let read_metadata = read::metadata_by_row;
                read(MetadataTables { connection, project, read_metadata })
            })
            .await
    }

    /// Waits before an answer says that a document is missing.
    async fn confirm_missing<T>(&self, found: Vec<Option<T>>) -> StoreResult<Vec<Option<T>>> {
        if found.iter().any(Option::is_none) {
            self.damage.wait_for_stage(CheckStage::Documents).await?;
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests;
