//! Stores and applications in the process of the bench.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use reqlore_application::{Application, ApplicationPorts, ApplicationSettings};
use reqlore_domain::identity::{Access, Caller};
use reqlore_domain::ports::Store;
use reqlore_domain::ports::documents::DocumentRepository;
use reqlore_domain::ports::id_generator::CountedIds;
use reqlore_domain::ports::idempotency::IdempotencyStore;
use reqlore_domain::ports::service::NoProgress;
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::timestamp::Timestamp;
use reqlore_git_runner::GitEnvironment;
use reqlore_storage_fs::FsStore;
use reqlore_storage_memory::{MemoryIndex, NamedProjects, memory_store};

use super::Result;

pub(crate) fn open_store(folder: &Path, storage: &str) -> Result<Arc<dyn Store>> {
    Ok(match storage {
        "sqlite" => {
            let config = reqlore_storage_sqlite::SqliteConfig { file: folder.join("reqlore.db") };
            Arc::new(reqlore_storage_sqlite::open(&config)?)
        }
        "sled" => {
            let config = reqlore_storage_sled::SledConfig { folder: folder.join("sled") };
            Arc::new(reqlore_storage_sled::open(&config)?)
        }
        _ => Arc::new(FsStore::open(&reqlore_storage_fs::Config {
            root: folder.to_owned(),
            documents: folder.to_owned(),
            projects: BTreeMap::default(),
            requirements_directory: None,
            roots: Vec::new(),
            home: None,
            cache: None,
            git: GitEnvironment::default(),
        })?),
    })
}

/// An application on these documents with a fixed clock and without an audit log.
pub(crate) fn application(
    now: Timestamp,
    documents: Arc<dyn DocumentRepository>,
    answers: Arc<dyn IdempotencyStore>,
) -> Application {
    Application::new(ApplicationPorts {
        documents,
        read_scope: reqlore_storage_postgres::in_read_scope,
        // No measured tool reads it.
        history: Arc::new(memory_store()),
        root_files: None,
        projects: Arc::new(NamedProjects::default()),
        search: Arc::new(MemoryIndex::default()),
        clock: Arc::new(now),
        ids: Arc::new(CountedIds::default()),
        idempotency: answers,
        claims: Arc::new(memory_store()),
        audit: None,
        users: None,
        progress: Arc::new(NoProgress),
        settings: ApplicationSettings::default(),
        schemas: Arc::default(),
        exchange_formats: &[],
    })
}

/// Context of a write directly at a port.
pub(crate) fn write_context(at: Timestamp) -> WriteContext {
    WriteContext {
        caller: Arc::new(Caller::local("bench", Access::Write)),
        tool: "bench",
        reason: String::new(),
        correlation_id: String::new(),
        at,
        audited: None,
        idempotency_key: None,
    }
}
