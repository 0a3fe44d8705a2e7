//! The composition root: one arm per storage, one per transport. The only place that knows all
//! names.

use std::sync::Arc;

use reqlore_application::{Application, Ports, Settings};
use reqlore_domain::identity::{Access, Caller};
use reqlore_domain::ports::embedder::Embedder;
use reqlore_domain::ports::transport::Transport;
use reqlore_embed_static::StaticEmbedder;
use reqlore_search::Index;
use reqlore_storage_fs::{FsProjects, FsStore};
use reqlore_transport_stdio::{Limits, Stdio};

use crate::config::Config;
use crate::{Failure, models};

/// The storage that the configuration names, as ports.
pub(crate) fn ports(config: &Config) -> Result<Ports, Failure> {
    let files = reqlore_storage_fs::Config {
        root: config.root.clone(),
        documents: config.documents.clone(),
        requirements_directory: config.requirements_directory.clone(),
        roots: config.roots.clone(),
        home: config.home.clone(),
        cache: config.cache.as_ref().map(|cache| cache.join("heads")),
    };
    files.check().map_err(Failure::usage)?;
    Ok(Ports {
        documents: Arc::new(FsStore::new(&files)),
        projects: Arc::new(FsProjects::new(&files)),
        search: Arc::new(Index::new(search(config)?)),
        settings: Settings { toolsets: config.toolsets.clone(), wrap_columns: config.wrap_columns },
    })
}

/// The index and the models that rank in it, the worst first.
fn search(config: &Config) -> Result<reqlore_search::Config, Failure> {
    let mut embedders: Vec<Arc<dyn Embedder>> = Vec::new();
    if config.model != "off" {
        embedders.push(Arc::new(StaticEmbedder::new()));
        if config.model != "static" {
            embedders.extend(models::open(config)?);
        }
    }
    Ok(reqlore_search::Config {
        cache: config.cache.as_ref().map(|cache| cache.join("search")),
        store: config.documents.to_string_lossy().into_owned(),
        embedders,
    })
}

pub(crate) fn application(config: &Config) -> Result<Application, Failure> {
    ports(config).map(Application::new)
}

/// The transport that the configuration names.
pub(crate) fn transport(config: &Config) -> Box<dyn Transport> {
    let access = if config.read_only { Access::Read } else { Access::Write };
    let name = config.user.clone().unwrap_or_else(|| "local".to_owned());
    Box::new(Stdio { caller: Caller { name, access }, limits: Limits::default() })
}

/// A single thread answers; file work has threads of its own. One client needs no more, and every
/// message that changes threads would cost more than its answer.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failure::refused(format!("the runtime did not start: {error}")))
}
