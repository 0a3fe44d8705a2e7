//! Composition root: the only module that knows every storage, transport and model.

pub(crate) mod file_store;

use std::path::Path;
use std::sync::Arc;

use reqlore_application::identity::user_admin::UserAdmin;
use reqlore_application::{ApplicationPorts, ApplicationSettings};
use reqlore_domain::identity::{Access, CallChannel, Caller, CallerName};
use reqlore_domain::ports::Store;
use reqlore_domain::ports::accepted_loss::AcceptedLoss;
use reqlore_domain::ports::clock::Clock;
use reqlore_domain::ports::documents::{DocumentRepository, StoreError};
use reqlore_domain::ports::embedder::Embedder;
use reqlore_domain::ports::project_resolver::ProjectResolver;
use reqlore_domain::ports::transport::Transport;
use reqlore_domain::ports::write_context::{AuditScope, WriteContext};
use reqlore_domain::project_key::ProjectKey;
#[cfg(feature = "semantic")]
use reqlore_domain::untrusted_text::encode_line;
#[cfg(feature = "semantic")]
use reqlore_embed_minilm::LazyModel;
use reqlore_embed_static::StaticEmbedder;
#[cfg(feature = "semantic")]
use reqlore_models::catalog::CATALOG;
use reqlore_search::LocalSearchIndex;
use reqlore_storage_fs::{FsProjects, is_system_folder};
use reqlore_storage_postgres::{
    PostgresConfig, SchemaStatus, ServerReport, inspect_schema, inspect_server, migrate_schema,
};
use reqlore_storage_sled::{DatabaseState, SledConfig};
use reqlore_storage_sqlite::{ReadOnlyOpen, SqliteConfig};
use reqlore_transport_http::Readiness;
use reqlore_transport_stdio::{StdioLimits, StdioTransport};
use tokio::runtime::{Builder, Runtime};

use crate::config::AppConfig;
use crate::config::paths::check_private_place;
use crate::exit::{CommandError, Result};
use crate::git;
use crate::progress::ProgressDisplay;
use crate::storage_spec::StorageSpec;
use crate::system::{RandomIds, SystemClock, open_file_limit};

/// Search indexes may use one part in this many of the open files. Connections and documents need
/// the rest.
const INDEX_FILES_SHARE: usize = 2;
/// Upper limit, enough for 256 indexes of a few segments. More open files also need more memory.
const MAX_INDEX_FILES: usize = 3_072;

/// Opens the ports of commands that call no tools. They are not audited.
pub(crate) fn open_ports(config: &AppConfig) -> Result<ApplicationPorts> {
    ports_over(config, &open_project_store(config, true)?, false)
}

pub(crate) fn ports_over(
    config: &AppConfig,
    store: &Arc<dyn Store>,
    is_audited: bool,
) -> Result<ApplicationPorts> {
    check_folder("root", &config.root)?;
    let projects: Arc<dyn ProjectResolver>;
    let tree: Option<Arc<dyn DocumentRepository>>;
    if let StorageSpec::Fs(documents) = &config.storage {
        projects = Arc::new(FsProjects::new(&files_config(config, documents)));
        tree = None;
    } else {
        // A database has no files of its own: imports read them from the workspace root.
        let files = files_config(config, &config.root);
        projects = Arc::new(FsProjects::of_database(&files));
        tree = Some(file_store::open_tree(&files));
    }
    Ok(ApplicationPorts {
        documents: Arc::clone(store) as _,
        // All databases have this one. Calls on files are not changed by it.
        read_scope: reqlore_storage_postgres::in_read_scope,
        history: Arc::clone(store) as _,
        root_files: tree,
        projects,
        search: Arc::new(LocalSearchIndex::new(search_config(config)?)),
        clock: Arc::new(SystemClock),
        ids: Arc::new(RandomIds),
        idempotency: Arc::clone(store) as _,
        claims: Arc::clone(store) as _,
        audit: is_audited.then(|| Arc::clone(store) as _),
        users: None,
        progress: Arc::new(ProgressDisplay::in_log()),
        settings: ApplicationSettings {
            toolsets: config.toolsets.enabled.clone(),
            listed_toolsets: config.toolsets.listed.clone(),
            wrap_columns: config.wrap_columns,
            index_memory_bytes: config.index_memory_bytes,
            write_guard: config.write_guard,
            awaits_index_builds: false,
        },
        schemas: Arc::default(),
        exchange_formats: &reqlore_exchange::FORMATS,
    })
}

/// Opens the administration of users and tokens. The storage must exist, unless `is_first` says
/// that the command adds the first user: any other command would be about the wrong storage.
pub(crate) fn open_administration(config: &AppConfig, is_first: bool) -> Result<UserAdmin> {
    // The first user creates the storage of a new server.
    let store =
        if is_first { open_store(config, &config.storage)? } else { open_existing_store(config)? };
    let mut projects = vec![ProjectKey::default()];
    projects.extend(config.projects.keys().cloned());
    Ok(UserAdmin {
        identities: store,
        clock: Arc::new(SystemClock),
        ids: Arc::new(RandomIds),
        projects,
        caller: Arc::new(local_caller(config)),
        is_audited: config.audit != Some(false),
    })
}

/// Opens the configured storage, which must exist.
pub(crate) fn open_existing_store(config: &AppConfig) -> Result<Arc<dyn Store>> {
    let advice = "pass --storage, or start with `reqlore user add NAME --role administrator`";
    open_existing(config, &config.storage, advice)
}

/// Opens the configured storage for a command about a project. A database must exist, because a
/// misspelt name would create one; at its default path, a command that adds content creates it.
pub(crate) fn open_project_store(config: &AppConfig, is_adding: bool) -> Result<Arc<dyn Store>> {
    let storage = &config.storage;
    let is_default = storage.is_default(&config.root);
    let may_be_missing = match storage {
        StorageSpec::Fs(_) => true,
        // Only its tables may be missing: a misspelt name is an error of the server.
        StorageSpec::Postgres(_) => is_adding,
        StorageSpec::Sqlite(_) | StorageSpec::Sled(_) => is_adding && is_default,
    };
    if !may_be_missing {
        let advice = if is_default {
            "pass --storage, or create it with `reqlore add` or `reqlore import`"
        } else {
            "correct the storage, or create it with `reqlore serve` or `reqlore copy`"
        };
        return open_existing(config, storage, advice);
    }
    open_store(config, storage)
}

/// Opens a storage, which must exist: `advice` is the next step if it does not.
pub(crate) fn open_existing(
    config: &AppConfig,
    storage: &StorageSpec,
    advice: &str,
) -> Result<Arc<dyn Store>> {
    if let StorageSpec::Postgres(database) = storage {
        check_storage_path(config, storage)?;
        let opened =
            reqlore_storage_postgres::open_if((**database).clone(), |schema| schema.version > 0);
        return match block_on_thread(opened)?.map_err(CommandError::failure)? {
            (_, Some(store)) => Ok(Arc::new(store)),
            (_, None) => Err(CommandError::failure(format!(
                "{storage} has no tables of Reqlore that this role may use; correct the URL or \
                 the role, or create them with `reqlore migrate up`"
            ))),
        };
    }
    check_exists(storage, advice)?;
    open_store(config, storage)
}

fn check_exists(storage: &StorageSpec, advice: &str) -> Result<()> {
    let Some(path) = storage.path() else { return Ok(()) };
    // A dangling link is an error when the storage is opened, not a missing storage.
    if path.symlink_metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
        return Err(CommandError::failure(format!("{storage} does not exist; {advice}")));
    }
    Ok(())
}

/// State of a storage, inspected without changing it.
pub(crate) enum StorageState {
    /// A starting server creates it.
    Absent,
    /// `schema` is the schema version of a database server.
    Open { store: Arc<dyn Store>, schema: Option<usize> },
    /// A database server needs statements that the next server runs, if its role may.
    Pending(SchemaStatus),
    /// A change is in progress or was interrupted; the next process that opens it recovers it.
    NeedsRecovery,
    /// It cannot be opened without changing it.
    Closed(DatabaseState),
}

/// Inspects the configured storage without changing it.
pub(crate) fn inspect_storage(config: &AppConfig) -> Result<StorageState> {
    let storage = &config.storage;
    let metadata = storage.path().map(std::fs::metadata).transpose();
    if metadata.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
        if let StorageSpec::Sqlite(file) = storage {
            let config = SqliteConfig { file: file.clone() };
            reqlore_storage_sqlite::check_never_used(&config).map_err(CommandError::failure)?;
        }
        return Ok(StorageState::Absent);
    }
    storage.check_file_types()?;
    Ok(match storage {
        StorageSpec::Fs(path) => {
            match file_store::open_to_inspect(&files_config(config, path))
                .map_err(CommandError::failure)?
            {
                Some(store) => StorageState::Open { store, schema: None },
                None => StorageState::NeedsRecovery,
            }
        }
        StorageSpec::Sqlite(file) => {
            let config = SqliteConfig { file: file.clone() };
            match reqlore_storage_sqlite::open_read_only(&config).map_err(CommandError::failure)? {
                ReadOnlyOpen::Open(store) => {
                    StorageState::Open { store: Arc::new(store), schema: None }
                }
                ReadOnlyOpen::NeedsRecovery => StorageState::NeedsRecovery,
            }
        }
        StorageSpec::Sled(folder) => {
            let config = SledConfig { folder: folder.clone() };
            let inspected = reqlore_storage_sled::inspect(&config);
            StorageState::Closed(inspected.map_err(CommandError::failure)?)
        }
        StorageSpec::Postgres(database) => {
            let opened = reqlore_storage_postgres::open_if((**database).clone(), |schema| {
                schema.pending.is_empty()
            });
            match block_on_thread(opened)?.map_err(CommandError::failure)? {
                (schema, Some(store)) => {
                    let schema = usize::try_from(schema.version).ok();
                    StorageState::Open { store: Arc::new(store), schema }
                }
                (schema, None) => StorageState::Pending(schema),
            }
        }
    })
}

/// Rejects a configuration of the files that cannot be served.
pub(crate) fn check_files(config: &AppConfig) -> Result<()> {
    check_folder("root", &config.root)?;
    files_config(config, &config.root).check().map_err(CommandError::usage_error)
}

/// Rejects a folder of the system, whose files a server running as root could change.
fn check_folder(setting: &str, folder: &Path) -> Result<()> {
    if !is_system_folder(folder) {
        return Ok(());
    }
    Err(CommandError::usage_error(format!(
        "{setting}: {} belongs to the system; name a project's folder, for example with --root",
        folder.display()
    )))
}

/// Opens the storage of an HTTP server. A database that cannot be reached yet is not ready. Its
/// connections belong to the server's runtime.
pub(crate) fn open_http_store(
    config: &AppConfig,
    runtime: &Runtime,
) -> Result<(Arc<dyn Store>, Readiness)> {
    let storage = &config.storage;
    if let Some(path) = storage.path() {
        check_private_place(path)?;
    }
    if let StorageSpec::Postgres(database) = storage {
        check_storage_path(config, storage)?;
        let opened =
            runtime.block_on(reqlore_storage_postgres::open_for_server((**database).clone()));
        let (store, is_reached) = opened.map_err(CommandError::failure)?;
        let readiness = if is_reached { Readiness::Ready } else { Readiness::Unavailable };
        return Ok((Arc::new(store), readiness));
    }
    Ok((open_store(config, storage)?, Readiness::Ready))
}

/// Returns the schema of a database server.
pub(crate) fn database_schema(database: &PostgresConfig) -> Result<SchemaStatus> {
    block_on_thread(inspect_schema(database.clone()))?.map_err(CommandError::failure)
}

/// Runs the pending statements of a database server. Returns their number.
pub(crate) fn migrate_database(database: &PostgresConfig) -> Result<usize> {
    block_on_thread(migrate_schema(database.clone()))?.map_err(CommandError::failure)
}

/// Returns what a database server says about itself.
pub(crate) fn database_server(database: &PostgresConfig) -> Result<ServerReport> {
    block_on_thread(inspect_server(database.clone()))?.map_err(CommandError::failure)
}

/// Like [`block_on`], also inside a runtime.
fn block_on_thread<T: Send>(work: impl Future<Output = T> + Send) -> Result<T> {
    std::thread::scope(|scope| match scope.spawn(|| block_on(work)).join() {
        Ok(outcome) => outcome,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

/// Opens a database, and creates or updates its tables if its role may.
fn open_postgres(database: &PostgresConfig) -> Result<Arc<dyn Store>, StoreError> {
    let opened = block_on_thread(reqlore_storage_postgres::open(database.clone()));
    match opened {
        Ok(store) => Ok(Arc::new(store?)),
        Err(error) => Err(StoreError::Internal(error.message)),
    }
}

fn storage_error(storage: &StorageSpec, error: &StoreError) -> CommandError {
    if let StorageSpec::Postgres(_) = storage {
        // It names the database.
        return CommandError::failure(error);
    }
    CommandError::failure(format!("storage {}: {error}", storage.name()))
}

pub(crate) fn open_store(config: &AppConfig, storage: &StorageSpec) -> Result<Arc<dyn Store>> {
    check_storage_path(config, storage)?;
    connect_store(config, storage).map_err(|error| storage_error(storage, &error))
}

fn check_storage_path(config: &AppConfig, storage: &StorageSpec) -> Result<()> {
    if let StorageSpec::Fs(path) = storage {
        check_folder(if *path == config.root { "root" } else { "storage" }, path)?;
        files_config(config, path).check().map_err(CommandError::usage_error)?;
    } else if storage.is_local(&config.root) {
        check_folder("root", &config.root)?;
    }
    storage.check_file_types()?;
    for (key, folder) in &config.projects {
        check_folder(&format!("projects.{key}.root"), folder)?;
    }
    Ok(())
}

fn connect_store(config: &AppConfig, storage: &StorageSpec) -> Result<Arc<dyn Store>, StoreError> {
    // The local state directory must exist and be ignored by Git before the database is in it.
    if !matches!(storage, StorageSpec::Fs(_)) && storage.is_local(&config.root) {
        file_store::create_local_state_dir(&config.root)?;
    }
    Ok(match storage {
        StorageSpec::Fs(path) => file_store::open(&files_config(config, path))?,
        StorageSpec::Sqlite(file) => {
            let config = SqliteConfig { file: file.clone() };
            Arc::new(reqlore_storage_sqlite::open(&config)?)
        }
        StorageSpec::Sled(folder) => {
            let config = SledConfig { folder: folder.clone() };
            Arc::new(reqlore_storage_sled::open(&config)?)
        }
        StorageSpec::Postgres(database) => open_postgres(database)?,
    })
}

/// Accepts that the configured storage lost commits. No process may have it open.
pub(crate) fn accept_loss(config: &AppConfig) -> Result<AcceptedLoss> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let context = WriteContext {
        caller: Arc::new(local_caller(config)),
        tool: "check --accept-loss",
        // The storage adds the loss.
        reason: String::new(),
        correlation_id: "accept-loss".to_owned(),
        at: clock.now(),
        audited: (config.audit != Some(false)).then(|| AuditScope::begin(clock)),
        idempotency_key: None,
    };
    let storage = &config.storage;
    let accepted = match storage {
        StorageSpec::Fs(path) => file_store::accept_loss(&files_config(config, path), context),
        StorageSpec::Sqlite(file) => {
            let config = SqliteConfig { file: file.clone() };
            reqlore_storage_sqlite::accept_loss(&config, context)
        }
        StorageSpec::Sled(folder) => {
            let config = SledConfig { folder: folder.clone() };
            reqlore_storage_sled::accept_loss(&config, context)
        }
        StorageSpec::Postgres(_) => {
            return Err(CommandError::usage_error(
                "--accept-loss: not for PostgreSQL, which recovers its own log; restore a backup \
                 if data is missing",
            ));
        }
    };
    accepted.map_err(|error| storage_error(storage, &error))
}

fn files_config(config: &AppConfig, documents: &Path) -> reqlore_storage_fs::Config {
    reqlore_storage_fs::Config {
        root: config.root.clone(),
        documents: documents.to_owned(),
        projects: config.projects.clone(),
        requirements_directory: config.requirements_directory.clone(),
        roots: config.roots.clone(),
        home: config.home.clone(),
        cache: config.cache.as_ref().map(|cache| cache.join("heads")),
        git: git::git_environment(),
    }
}

/// Returns the configuration of the search index with its models, the least accurate first.
fn search_config(config: &AppConfig) -> Result<reqlore_search::SearchConfig> {
    let mut embedders: Vec<Arc<dyn Embedder>> = Vec::new();
    if config.model != "off" {
        embedders.push(Arc::new(StaticEmbedder::new()));
        if config.model != "static" {
            embedders.extend(open_model(config)?);
        }
    }
    Ok(reqlore_search::SearchConfig {
        cache_folder: config.cache.as_ref().map(|cache| cache.join("search")),
        store: index_name(&config.storage),
        embedders,
        memory_bytes: config.index_memory_bytes,
        max_open_files: (open_file_limit() / INDEX_FILES_SHARE).min(MAX_INDEX_FILES),
    })
}

/// Returns the name of a storage in the search index.
pub(crate) fn index_name(storage: &StorageSpec) -> String {
    match storage {
        StorageSpec::Fs(path) => path.to_string_lossy().into_owned(),
        database => database.to_string(),
    }
}

/// Returns the transport for one client over standard input and output.
pub(crate) fn stdio_transport(config: &AppConfig) -> Box<dyn Transport> {
    let caller = local_caller(config).through(CallChannel::Mcp);
    let mut transport = StdioTransport::new(caller, StdioLimits::default());
    transport.answers = config.answers;
    // Another work tree has no other documents if a setting names a path.
    transport.follows_client_roots =
        config.found_root.is_some() && config.storage == StorageSpec::Fs(config.root.clone());
    Box::new(transport)
}

/// Returns the local user of a command, with the maximum access.
pub(crate) fn local_caller(config: &AppConfig) -> Caller {
    // Resolved lazily, because it starts Git.
    let root = config.root.clone();
    let name = CallerName::from_lookup(move || git::user_name(&root));
    Caller::local(name, max_access(config)).through(CallChannel::Cli)
}

/// Returns the maximum access of any caller.
pub(crate) fn max_access(config: &AppConfig) -> Access {
    if config.read_only { Access::Read } else { Access::Write }
}

/// Runs a command. Background tasks that still wait for a lock are abandoned.
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> Result<T> {
    let runtime = single_thread_runtime()?;
    let outcome = runtime.block_on(work);
    // Does not wait for threads that block in a system call.
    runtime.shutdown_background();
    Ok(outcome)
}

/// Returns a runtime with one thread: moving a message to another thread costs more than the work
/// for one client.
pub(crate) fn single_thread_runtime() -> Result<Runtime> {
    build_runtime(Builder::new_current_thread())
}

/// Returns a runtime with one thread per core, for many clients.
pub(crate) fn multi_thread_runtime() -> Result<Runtime> {
    build_runtime(Builder::new_multi_thread())
}

fn build_runtime(mut runtime: Builder) -> Result<Runtime> {
    let runtime = runtime.enable_all().build();
    runtime
        .map_err(|error| CommandError::failure(format!("the async runtime did not start: {error}")))
}

/// Opens the store of installed models.
#[cfg(feature = "semantic")]
pub(crate) fn model_store(config: &AppConfig) -> Result<reqlore_models::ModelStore> {
    let cache = config
        .cache
        .as_ref()
        .ok_or_else(|| CommandError::failure("models: no cache folder; set REQLORE_CACHE"))?;
    Ok(reqlore_models::ModelStore::new(&CATALOG, cache.join("models")))
}

/// Opens the configured model, or the best installed one. A multilingual model is preferred to an
/// English one: a user who needs only English does not install it.
#[cfg(feature = "semantic")]
pub(crate) fn open_model(config: &AppConfig) -> Result<Option<Arc<dyn Embedder>>> {
    let Ok(store) = model_store(config) else {
        return if config.model == "best" { Ok(None) } else { Err(not_installed(&config.model)) };
    };
    let installed = match config.model.as_str() {
        "best" => {
            CATALOG.iter().rev().find_map(|model| Some((model.name, store.open(model.name)?)))
        }
        name => Some((name, store.open(name).ok_or_else(|| not_installed(name))?)),
    };
    let Some((name, folder)) = installed else { return Ok(None) };
    let model = LazyModel::new(name, folder).map_err(CommandError::failure)?;
    Ok(Some(Arc::new(model)))
}

#[cfg(feature = "semantic")]
fn not_installed(name: &str) -> CommandError {
    let names = CATALOG.each_ref().map(|model| model.name).join(", ");
    let name = encode_line(name);
    CommandError::usage_error(format!(
        "search.model: \"{name}\" is not installed; run `reqlore model install {name}` if it is \
         one of {names}, or use best, static or off"
    ))
}

#[cfg(not(feature = "semantic"))]
pub(crate) fn open_model(config: &AppConfig) -> Result<Option<Arc<dyn Embedder>>> {
    match config.model.as_str() {
        "best" => Ok(None),
        name => Err(CommandError::usage_error(format!(
            "search.model: {name:?} needs a build with the feature `semantic`; use best, static or \
             off"
        ))),
    }
}
