//! Composition root: the only module that knows every storage, transport and model.

use std::path::Path;
use std::sync::Arc;

use reqlore_application::identity::user_admin::UserAdmin;
use reqlore_application::{ApplicationPorts, ApplicationSettings};
use reqlore_domain::identity::{Access, Caller, CallerName};
use reqlore_domain::ports::Store;
use reqlore_domain::ports::documents::{DocumentRepository, StoreError};
use reqlore_domain::ports::embedder::Embedder;
use reqlore_domain::ports::project_resolver::ProjectResolver;
use reqlore_domain::ports::transport::Transport;
use reqlore_domain::project_key::ProjectKey;
#[cfg(feature = "semantic")]
use reqlore_embed_minilm::LazyModel;
use reqlore_embed_static::StaticEmbedder;
#[cfg(feature = "semantic")]
use reqlore_models::known::MODELS;
use reqlore_search::Index;
use reqlore_storage_fs::{ConfiguredProjects, FsProjects, FsStore, create_local};
use reqlore_storage_sled::{DatabaseState, SledStore};
use reqlore_storage_sqlite::{Looked, SqliteStore};
use reqlore_transport_stdio::{Limits, Stdio};
use tokio::runtime::{Builder, Runtime};

use crate::config::Config;
use crate::exit::CommandError;
use crate::git;
use crate::storage::Storage;
use crate::system::{RandomIds, SystemClock};

/// Opens the ports of commands that call no tools. They are not audited.
pub(crate) fn ports(config: &Config) -> Result<ApplicationPorts, CommandError> {
    ports_over(config, &store(config, &config.storage)?, false)
}

pub(crate) fn ports_over(
    config: &Config,
    store: &Arc<dyn Store>,
    is_audited: bool,
) -> Result<ApplicationPorts, CommandError> {
    let projects: Arc<dyn ProjectResolver>;
    let tree: Option<Arc<dyn DocumentRepository>>;
    if let Storage::Fs(documents) = &config.storage {
        projects = Arc::new(FsProjects::new(&files_config(config, documents)));
        tree = None;
    } else {
        // A database has no files of its own: imports read them from the workspace root.
        let files = files_config(config, &config.root);
        projects = Arc::new(ConfiguredProjects::new(&files));
        tree = Some(Arc::new(FsStore::new(&files)));
    }
    Ok(ApplicationPorts {
        documents: Arc::clone(store) as _,
        tree,
        projects,
        search: Arc::new(Index::new(search_config(config)?)),
        clock: Arc::new(SystemClock),
        ids: Arc::new(RandomIds),
        answers: Arc::clone(store) as _,
        audit: is_audited.then(|| Arc::clone(store) as _),
        settings: ApplicationSettings {
            toolsets: config.toolsets.clone(),
            wrap_columns: config.wrap_columns,
        },
    })
}

/// Opens the administration of users and tokens. The storage must exist, unless `is_first` says that
/// the command adds the first user: any other command would be about the wrong storage.
pub(crate) fn administration(config: &Config, is_first: bool) -> Result<UserAdmin, CommandError> {
    let store = if is_first { store(config, &config.storage)? } else { existing(config)? };
    let mut projects = vec![ProjectKey::default()];
    projects.extend(config.projects.keys().cloned());
    Ok(UserAdmin {
        identities: store,
        clock: Arc::new(SystemClock),
        ids: Arc::new(RandomIds),
        projects,
        caller: Arc::new(caller(config)),
        is_audited: config.audit != Some(false),
    })
}

/// Opens the configured storage, which must exist.
pub(crate) fn existing(config: &Config) -> Result<Arc<dyn Store>, CommandError> {
    let storage = &config.storage;
    let metadata = std::fs::symlink_metadata(storage.place());
    if metadata.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
        return Err(CommandError::refused(format!(
            "{storage} does not exist; pass --storage, or start with `reqlore user add NAME --role \
             administrator`"
        )));
    }
    store(config, storage)
}

/// State of a storage, inspected without changing it.
pub(crate) enum Found {
    /// A starting server creates it.
    Absent,
    /// `schema` is the schema version of a database.
    Open { store: Arc<dyn Store>, schema: Option<usize> },
    /// The next process that opens it migrates it.
    Older { schema: usize, newest: usize },
    /// A change is in progress or was interrupted; the next process that opens it recovers it.
    Unsettled,
    /// It cannot be opened without changing it.
    Closed(DatabaseState),
}

/// Inspects the configured storage without changing it.
pub(crate) fn look(config: &Config) -> Result<Found, CommandError> {
    let storage = &config.storage;
    let metadata = std::fs::metadata(storage.place());
    if metadata.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
        return Ok(Found::Absent);
    }
    Ok(match storage {
        Storage::Fs(place) => {
            match FsStore::look(&files_config(config, place)).map_err(CommandError::refused)? {
                Some(store) => Found::Open { store: Arc::new(store), schema: None },
                None => Found::Unsettled,
            }
        }
        Storage::Sqlite(file) => {
            let config = reqlore_storage_sqlite::Config { file: file.clone() };
            match SqliteStore::look(&config).map_err(CommandError::refused)? {
                Looked::Open { store, schema } => {
                    Found::Open { store: Arc::new(store), schema: Some(schema) }
                }
                Looked::Older { schema, newest } => Found::Older { schema, newest },
                Looked::Unsettled => Found::Unsettled,
            }
        }
        Storage::Sled(folder) => {
            let config = reqlore_storage_sled::Config { folder: folder.clone() };
            Found::Closed(SledStore::inspect(&config).map_err(CommandError::refused)?)
        }
    })
}

/// Rejects a configuration of the files that cannot be served.
pub(crate) fn check_files(config: &Config) -> Result<(), CommandError> {
    files_config(config, &config.root).check().map_err(CommandError::usage)
}

/// Opens the storage of an HTTP server and migrates the team data of version 0.1.0.
pub(crate) fn http_store(config: &Config) -> Result<Arc<dyn Store>, CommandError> {
    let storage = &config.storage;
    if let Storage::Fs(place) = storage {
        let files = files_config(config, place);
        FsStore::open(&files)
            .and_then(|store| store.migrate_team())
            .map_err(|error| storage_error(storage, &error))?;
    }
    store(config, storage)
}

fn storage_error(storage: &Storage, error: &StoreError) -> CommandError {
    CommandError::refused(format!("storage {}: {error}", storage.name()))
}

pub(crate) fn store(config: &Config, storage: &Storage) -> Result<Arc<dyn Store>, CommandError> {
    if let Storage::Fs(place) = storage {
        files_config(config, place).check().map_err(CommandError::usage)?;
    }
    connect_store(config, storage).map_err(|error| storage_error(storage, &error))
}

fn connect_store(config: &Config, storage: &Storage) -> Result<Arc<dyn Store>, StoreError> {
    if !matches!(storage, Storage::Fs(_)) && storage.is_local(&config.root) {
        create_local(&config.root)?;
    }
    Ok(match storage {
        Storage::Fs(place) => Arc::new(FsStore::open(&files_config(config, place))?),
        Storage::Sqlite(file) => {
            let config = reqlore_storage_sqlite::Config { file: file.clone() };
            Arc::new(SqliteStore::open(&config)?)
        }
        Storage::Sled(folder) => {
            let config = reqlore_storage_sled::Config { folder: folder.clone() };
            Arc::new(SledStore::open(&config)?)
        }
    })
}

fn files_config(config: &Config, documents: &Path) -> reqlore_storage_fs::Config {
    reqlore_storage_fs::Config {
        root: config.root.clone(),
        documents: documents.to_owned(),
        projects: config.projects.clone(),
        requirements_directory: config.requirements_directory.clone(),
        roots: config.roots.clone(),
        home: config.home.clone(),
        cache: config.cache.as_ref().map(|cache| cache.join("heads")),
    }
}

/// Returns the configuration of the search index with its models, the least accurate first.
fn search_config(config: &Config) -> Result<reqlore_search::Config, CommandError> {
    let mut embedders: Vec<Arc<dyn Embedder>> = Vec::new();
    if config.model != "off" {
        embedders.push(Arc::new(StaticEmbedder::new()));
        if config.model != "static" {
            embedders.extend(open_model(config)?);
        }
    }
    Ok(reqlore_search::Config {
        cache: config.cache.as_ref().map(|cache| cache.join("search")),
        store: index_name(&config.storage),
        embedders,
    })
}

/// Returns the name of a storage in the search index.
pub(crate) fn index_name(storage: &Storage) -> String {
    match storage {
        Storage::Fs(place) => place.to_string_lossy().into_owned(),
        database => database.to_string(),
    }
}

/// Returns the transport for one client over standard input and output.
pub(crate) fn stdio(config: &Config) -> Box<dyn Transport> {
    Box::new(Stdio::new(caller(config), Limits::default()))
}

/// Returns the local user with the maximum access.
pub(crate) fn caller(config: &Config) -> Caller {
    // Resolved lazily, because it starts Git.
    let root = config.root.clone();
    Caller::local(CallerName::lazy(move || git::user_name(&root)), max_access(config))
}

/// Returns the maximum access of any caller.
pub(crate) fn max_access(config: &Config) -> Access {
    if config.read_only { Access::Read } else { Access::Write }
}

/// Runs a command. Background tasks that still wait for a lock are abandoned.
pub(crate) fn run<T>(work: impl Future<Output = T>) -> Result<T, CommandError> {
    let runtime = runtime()?;
    let outcome = runtime.block_on(work);
    runtime.shutdown_background();
    Ok(outcome)
}

/// Returns a runtime with one thread: moving a message to another thread costs more than the work
/// for one client.
pub(crate) fn runtime() -> Result<Runtime, CommandError> {
    build_runtime(Builder::new_current_thread())
}

/// Returns a runtime with one thread per core, for many clients.
pub(crate) fn multi_thread_runtime() -> Result<Runtime, CommandError> {
    build_runtime(Builder::new_multi_thread())
}

fn build_runtime(mut runtime: Builder) -> Result<Runtime, CommandError> {
    let runtime = runtime.enable_all().build();
    runtime
        .map_err(|error| CommandError::refused(format!("the async runtime did not start: {error}")))
}

/// Opens the store of installed models.
#[cfg(feature = "semantic")]
pub(crate) fn model_store(config: &Config) -> Result<reqlore_models::Store, CommandError> {
    let cache = config
        .cache
        .as_ref()
        .ok_or_else(|| CommandError::refused("models: no cache folder; set REQLORE_CACHE"))?;
    Ok(reqlore_models::Store::new(&MODELS, cache.join("models")))
}

/// Opens the configured model, or the best installed one. A multilingual model is preferred to an
/// English one: a user who needs only English does not install it.
#[cfg(feature = "semantic")]
pub(crate) fn open_model(config: &Config) -> Result<Option<Arc<dyn Embedder>>, CommandError> {
    let Ok(store) = model_store(config) else {
        return if config.model == "best" { Ok(None) } else { Err(not_installed(&config.model)) };
    };
    let installed = match config.model.as_str() {
        "best" => MODELS.iter().rev().find_map(|model| Some((model.name, store.open(model.name)?))),
        name => Some((name, store.open(name).ok_or_else(|| not_installed(name))?)),
    };
    let Some((name, folder)) = installed else { return Ok(None) };
    let model = LazyModel::new(name, folder).map_err(CommandError::refused)?;
    Ok(Some(Arc::new(model)))
}

#[cfg(feature = "semantic")]
fn not_installed(name: &str) -> CommandError {
    let names = MODELS.each_ref().map(|model| model.name).join(", ");
    let name = name.escape_debug();
    CommandError::usage(format!(
        "search.model: \"{name}\" is not installed; run `reqlore model install {name}` if it is one \
         of {names}, or use best, static or off"
    ))
}

#[cfg(not(feature = "semantic"))]
pub(crate) fn open_model(config: &Config) -> Result<Option<Arc<dyn Embedder>>, CommandError> {
    match config.model.as_str() {
        "best" => Ok(None),
        name => Err(CommandError::usage(format!(
            "search.model: {name:?} needs a build with the feature `semantic`; use best, static or \
             off"
        ))),
    }
}
