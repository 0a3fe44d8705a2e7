//! The composition root: one arm per storage, one per transport. The only place that knows all
//! names.

use std::path::Path;
use std::sync::Arc;

use reqlore_application::identity::administration::Administration;
use reqlore_application::{Ports, Settings};
use reqlore_domain::identity::{Access, Caller};
use reqlore_domain::ports::Store;
use reqlore_domain::ports::documents::{DocumentRepository, StoreError};
use reqlore_domain::ports::embedder::Embedder;
use reqlore_domain::ports::project_resolver::ProjectResolver;
use reqlore_domain::ports::transport::Transport;
use reqlore_domain::project::ProjectKey;
use reqlore_embed_static::StaticEmbedder;
use reqlore_search::Index;
use reqlore_storage_fs::{ConfiguredProjects, FsProjects, FsStore, create_local};
use reqlore_storage_sled::SledStore;
use reqlore_storage_sled::outside::Outside;
use reqlore_storage_sqlite::{Looked, SqliteStore};
use reqlore_transport_stdio::{Limits, Stdio};

use crate::clock::SystemClock;
use crate::config::Config;
use crate::exit::CommandError;
use crate::ids::RandomIds;
use crate::models;
use crate::person::{self, Sources};
use crate::storage::Storage;

/// The storage that the configuration names, as the ports of commands that call no tools: what they
/// do is not recorded.
pub(crate) fn ports(config: &Config) -> Result<Ports, CommandError> {
    ports_over(config, &store(config, &config.storage)?, false)
}

/// A storage as all the ports that it is.
pub(crate) fn ports_over(
    config: &Config,
    store: &Arc<dyn Store>,
    is_audited: bool,
) -> Result<Ports, CommandError> {
    let is_files = matches!(config.storage, Storage::Fs(_));
    let files = files(config, if is_files { config.storage.place() } else { &config.root });
    let projects: Arc<dyn ProjectResolver> = if is_files {
        Arc::new(FsProjects::new(&files))
    } else {
        Arc::new(ConfiguredProjects::new(&files))
    };
    Ok(Ports {
        documents: Arc::clone(store) as _,
        tree: (!is_files).then(|| Arc::new(FsStore::new(&files)) as Arc<dyn DocumentRepository>),
        projects,
        search: Arc::new(Index::new(search(config)?)),
        clock: Arc::new(SystemClock),
        ids: Arc::new(RandomIds),
        answers: Arc::clone(store) as _,
        audit: is_audited.then(|| Arc::clone(store) as _),
        settings: Settings { toolsets: config.toolsets.clone(), wrap_columns: config.wrap_columns },
    })
}

/// What users and tokens are administered with. The first user may come before the storage;
/// whatever else is asked of one that is not there is asked of the wrong one.
pub(crate) fn administration(
    config: &Config,
    is_first: bool,
) -> Result<Administration, CommandError> {
    let store = if is_first { store(config, &config.storage)? } else { existing(config)? };
    let keys = config.projects.keys().cloned();
    Ok(Administration {
        identities: store,
        clock: Arc::new(SystemClock),
        ids: Arc::new(RandomIds),
        projects: std::iter::once(ProjectKey::default()).chain(keys).collect(),
        caller: Arc::new(caller(config)),
        is_audited: config.audit != Some(false),
    })
}

/// The storage that the configuration names, if it is there.
pub(crate) fn existing(config: &Config) -> Result<Arc<dyn Store>, CommandError> {
    let storage = &config.storage;
    let found = std::fs::symlink_metadata(storage.place());
    if found.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
        return Err(CommandError::refused(format!(
            "{storage} is not there; name the server's own with --storage, or begin with `reqlore \
             user add NAME --role administrator`"
        )));
    }
    store(config, storage)
}

/// A storage as somebody finds it who changes nothing.
pub(crate) enum Found {
    /// It is made when a server starts.
    Absent,
    /// Its schema, where it has one.
    Open { store: Arc<dyn Store>, schema: Option<usize> },
    /// Who opens it next will bring it up to date.
    Older { schema: usize, newest: usize },
    /// A change is being made or was cut short; who opens it next puts it in order.
    Unsettled,
    /// It can't be opened without being changed.
    Closed(Outside),
}

/// Looks at the storage that the configuration names.
pub(crate) fn look(config: &Config) -> Result<Found, CommandError> {
    let storage = &config.storage;
    let refused = |error: StoreError| CommandError::refused(error.to_string());
    match std::fs::metadata(storage.place()) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Found::Absent),
        _ => {}
    }
    Ok(match storage {
        Storage::Fs(place) => match FsStore::look(&files(config, place)).map_err(refused)? {
            Some(store) => Found::Open { store: Arc::new(store), schema: None },
            None => Found::Unsettled,
        },
        Storage::Sqlite(file) => {
            let config = reqlore_storage_sqlite::Config { file: file.clone() };
            match SqliteStore::look(&config).map_err(refused)? {
                Looked::Open { store, schema } => {
                    Found::Open { store: Arc::new(store), schema: Some(schema) }
                }
                Looked::Older { schema, newest } => Found::Older { schema, newest },
                Looked::Unsettled => Found::Unsettled,
            }
        }
        Storage::Sled(folder) => {
            let config = reqlore_storage_sled::Config { folder: folder.clone() };
            Found::Closed(reqlore_storage_sled::outside::look(&config).map_err(refused)?)
        }
    })
}

/// What can't be served as the files are configured.
pub(crate) fn check_files(config: &Config) -> Result<(), CommandError> {
    files(config, &config.root).check().map_err(CommandError::usage)
}

/// A storage, opened.
pub(crate) fn store(config: &Config, storage: &Storage) -> Result<Arc<dyn Store>, CommandError> {
    let refused =
        |error: StoreError| CommandError::refused(format!("storage {}: {error}", storage.name()));
    if !matches!(storage, Storage::Fs(_)) && storage.is_local(&config.root) {
        create_local(&config.root).map_err(refused)?;
    }
    let store: Arc<dyn Store> = match storage {
        Storage::Fs(place) => {
            let files = files(config, place);
            files.check().map_err(CommandError::usage)?;
            Arc::new(FsStore::open(&files).map_err(refused)?)
        }
        Storage::Sqlite(file) => {
            let config = reqlore_storage_sqlite::Config { file: file.clone() };
            Arc::new(SqliteStore::open(&config).map_err(refused)?)
        }
        Storage::Sled(folder) => {
            let config = reqlore_storage_sled::Config { folder: folder.clone() };
            Arc::new(SledStore::open(&config).map_err(refused)?)
        }
    };
    Ok(store)
}

fn files(config: &Config, documents: &Path) -> reqlore_storage_fs::Config {
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

/// The index and the models that rank in it, the worst first.
fn search(config: &Config) -> Result<reqlore_search::Config, CommandError> {
    let mut embedders: Vec<Arc<dyn Embedder>> = Vec::new();
    if config.model != "off" {
        embedders.push(Arc::new(StaticEmbedder::new()));
        if config.model != "static" {
            embedders.extend(models::open(config)?);
        }
    }
    Ok(reqlore_search::Config {
        cache: config.cache.as_ref().map(|cache| cache.join("search")),
        store: index_name(&config.storage),
        embedders,
    })
}

/// What the index calls a storage.
pub(crate) fn index_name(storage: &Storage) -> String {
    match storage {
        Storage::Fs(place) => place.to_string_lossy().into_owned(),
        database => database.to_string(),
    }
}

/// The transport for one client over standard input and output.
pub(crate) fn stdio(config: &Config) -> Box<dyn Transport> {
    Box::new(Stdio { caller: caller(config), limits: Limits::default() })
}

/// The local person.
pub(crate) fn caller(config: &Config) -> Caller {
    let name = person::name(&Sources {
        author: config.author.as_deref(),
        root: config.root.clone(),
        files: config.git.clone(),
        login: config.user.as_deref(),
    });
    Caller::local(name, most(config))
}

/// What this server allows to anybody.
pub(crate) fn most(config: &Config) -> Access {
    if config.read_only { Access::Read } else { Access::Write }
}

/// Runs a command's work. What still waits for a lock in the background is left behind.
pub(crate) fn run<T>(work: impl Future<Output = T>) -> Result<T, CommandError> {
    let runtime = runtime()?;
    let done = runtime.block_on(work);
    runtime.shutdown_background();
    Ok(done)
}

/// A single thread answers; file work has threads of its own. One client needs no more, and every
/// message that changes threads would cost more than its answer.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, CommandError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| CommandError::refused(format!("the runtime did not start: {error}")))
}

/// Many clients are answered by as many threads as the machine runs at once.
pub(crate) fn threads() -> Result<tokio::runtime::Runtime, CommandError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.map_err(|error| CommandError::refused(format!("the runtime did not start: {error}")))
}
