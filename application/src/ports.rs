//! The adapters and settings of the application.

use std::sync::Arc;

use reqlore_domain::error::Result;
use reqlore_domain::ports::audit::AuditLog;
use reqlore_domain::ports::claims::ClaimStore;
use reqlore_domain::ports::clock::Clock;
use reqlore_domain::ports::documents::{DocumentRepository, ReadScope};
use reqlore_domain::ports::exchange::ExchangeFormat;
use reqlore_domain::ports::history::DocumentHistory;
use reqlore_domain::ports::id_generator::IdGenerator;
use reqlore_domain::ports::idempotency::IdempotencyStore;
use reqlore_domain::ports::identity::IdentityRepository;
use reqlore_domain::ports::project_resolver::{ProjectResolver, Toolset};
use reqlore_domain::ports::search::SearchIndex;
use reqlore_domain::ports::service::ProgressSink;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::records::schema::RecordSchema;

use crate::record_schemas::RecordSchemas;

/// The adapters and settings that the application runs on.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "ports are traits without one")]
pub struct ApplicationPorts {
    pub documents: Arc<dyn DocumentRepository>,
    /// Runs calls that only read `documents`.
    pub read_scope: ReadScope,
    /// Earlier versions of `documents`.
    pub history: Arc<dyn DocumentHistory>,
    /// Files of the workspace root, which `ixchel_sync` imports. Set only if `documents` is a
    /// database.
    pub root_files: Option<Arc<dyn DocumentRepository>>,
    pub projects: Arc<dyn ProjectResolver>,
    pub search: Arc<dyn SearchIndex>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn IdGenerator>,
    /// Stored answers of writes with an idempotency key.
    pub idempotency: Arc<dyn IdempotencyStore>,
    pub claims: Arc<dyn ClaimStore>,
    /// `None` turns the audit log off.
    pub audit: Option<Arc<dyn AuditLog>>,
    /// The valid assignees of items. `None` on stdio: any name is valid.
    pub users: Option<Arc<dyn IdentityRepository>>,
    /// Reports progress of background tasks, for which no client waits.
    pub progress: Arc<dyn ProgressSink>,
    pub settings: ApplicationSettings,
    /// Custom fields and statuses of projects.
    pub schemas: Arc<RecordSchemas>,
    /// The first one that recognizes a file reads it.
    pub exchange_formats: &'static [&'static dyn ExchangeFormat],
}

impl ApplicationPorts {
    /// The record schema of a project.
    pub(crate) async fn schema(&self, project: &ProjectKey) -> Result<Arc<RecordSchema>> {
        self.schemas.current(&*self.documents, project).await
    }

    /// The users that records may name; `None` if they may name anyone.
    pub(crate) async fn user_names(&self) -> Result<Option<Vec<String>>> {
        let Some(users) = &self.users else { return Ok(None) };
        let users = users.list_users().await?;
        Ok(Some(users.into_iter().map(|user| user.name.to_string()).collect()))
    }
}

#[derive(Debug, Clone)]
pub struct ApplicationSettings {
    /// The toolsets whose documents and tools can be used.
    pub toolsets: Vec<Toolset>,
    /// The toolsets whose tools are all listed. Of the others, only the core tools are.
    pub listed_toolsets: Vec<Toolset>,
    /// Maximum characters per line of a requirement; 0 turns wrapping off.
    pub wrap_columns: usize,
    /// Limits the memory of indexing besides the search index itself.
    pub index_memory_bytes: usize,
    /// Refuses writes that would replace a change that their caller was not shown.
    pub write_guard: bool,
    /// Searches wait for the end of any build of the index, because the process ends with its
    /// only call. A server answers meanwhile.
    pub awaits_index_builds: bool,
}

impl Default for ApplicationSettings {
    fn default() -> Self {
        Self {
            toolsets: Toolset::ALL.to_vec(),
            listed_toolsets: Toolset::ALL.to_vec(),
            wrap_columns: reqlore_domain::sections::text::WRAP_COLUMNS,
            index_memory_bytes: 128 << 20,
            write_guard: true,
            awaits_index_builds: false,
        }
    }
}
