//! Tools, resources and prompts of Reqlore: one folder per toolset, one file per tool.
//!
//! [`Application`] implements the service port. It depends on no protocol and on no storage.

mod addresses;
mod answers;
mod apply_changes;
pub mod backlog;
pub mod check;
pub mod docsets;
pub mod history;
pub mod identity;
mod knowledge;
pub mod project_index;
pub mod sections;
mod service;
#[cfg(test)]
mod test_support;
mod tools;
pub mod transfer;
mod writes;

use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqlore_domain::identity::Access;
use reqlore_domain::ports::audit::AuditLog;
use reqlore_domain::ports::clock::Clock;
use reqlore_domain::ports::documents::{DocumentRepository, ReadScope};
use reqlore_domain::ports::history::DocumentHistory;
use reqlore_domain::ports::id_generator::IdGenerator;
use reqlore_domain::ports::idempotency::{IdempotencyKey, IdempotencyStore};
use reqlore_domain::ports::identity::IdentityRepository;
use reqlore_domain::ports::project_resolver::{ProjectResolver, Toolset};
use reqlore_domain::ports::search::SearchIndex;
use reqlore_domain::ports::service::{ProgressSink, ToolSpec};
use reqlore_domain::ports::write_context::AuditScope;

use apply_changes::stored_plans::StoredPlans;
use identity::administration::Administration;
use identity::sessions::TokenSessions;
use identity::token_authenticator::TokenAuthenticator;
use project_index::ProjectIndexes;
use service::audit_recorder::AuditRecorder;
use service::idempotency::KeyLocks;
pub use service::maintenance::{Maintenance, RetentionDays};
use tools::tool::Tool;
use writes::write_guard::WriteGuard;

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
    /// Stored responses of writes with an idempotency key.
    pub idempotency: Arc<dyn IdempotencyStore>,
    /// `None` turns the audit log off.
    pub audit: Option<Arc<dyn AuditLog>>,
    /// The valid assignees of items. `None` on stdio: any name is valid.
    pub users: Option<Arc<dyn IdentityRepository>>,
    /// Reports progress of background tasks, for which no client waits.
    pub progress: Arc<dyn ProgressSink>,
    pub settings: ApplicationSettings,
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

/// The state that all calls share.
pub(crate) struct SharedContext {
    /// The ports outside of calls. Background tasks use them, because they may outlive their call.
    pub(crate) server_ports: Arc<ApplicationPorts>,
    /// The enabled tools, sorted by name.
    pub(crate) tools: Vec<(ToolSpec, Box<dyn Tool>)>,
    pub(crate) indexes: ProjectIndexes,
    pub(crate) configurations: docsets::ConfigCache,
    pub(crate) recorder: Arc<AuditRecorder>,
    pub(crate) key_locks: KeyLocks,
    pub(crate) plans: StoredPlans,
    pub(crate) guard: Arc<WriteGuard>,
}

/// The context of one call: the shared state, and the records that its writes belong to.
#[derive(Clone)]
pub(crate) struct ToolContext {
    shared: Arc<SharedContext>,
    pub(crate) ports: Arc<ApplicationPorts>,
    /// Set for an audited tool call.
    pub(crate) audit: Option<AuditScope>,
    /// Set for a write with an idempotency key.
    pub(crate) idempotency_key: Option<IdempotencyKey>,
}

impl Deref for ToolContext {
    type Target = SharedContext;

    fn deref(&self) -> &SharedContext {
        &self.shared
    }
}

/// All tools over one set of ports.
#[expect(missing_debug_implementations, reason = "ports are traits without one")]
pub struct Application {
    context: ToolContext,
}

impl Application {
    pub fn new(ports: ApplicationPorts) -> Self {
        let mut tools = tools::tool::enabled_tools(&ports);
        // Clients show tools in this order, independent of their toolsets.
        tools.sort_by_key(|(spec, _)| spec.name);
        let recorder = Arc::new(AuditRecorder::new(ports.audit.clone(), Arc::clone(&ports.clock)));
        let is_guarded = ports.settings.write_guard;
        let ports = Arc::new(ports);
        let shared = SharedContext {
            server_ports: Arc::clone(&ports),
            tools,
            indexes: ProjectIndexes::default(),
            configurations: docsets::ConfigCache::default(),
            recorder,
            key_locks: KeyLocks::default(),
            plans: StoredPlans::default(),
            guard: Arc::new(WriteGuard::new(is_guarded)),
        };
        let context =
            ToolContext { shared: Arc::new(shared), ports, audit: None, idempotency_key: None };
        Self { context }
    }

    /// Waits until no index is being built, at most for this time. The next process continues a
    /// build that has not ended.
    pub async fn finish_index_builds(&self, timeout: Duration) {
        let builds = self.context.indexes.finish_builds();
        if tokio::time::timeout(timeout, builds).await.is_err() {
            tracing::info!("search index: the build has not ended; the next process continues it");
        }
    }

    /// Authenticates callers by token. `max_access` limits the access level of every caller.
    pub fn authenticator(
        &self,
        identities: Arc<dyn IdentityRepository>,
        max_access: Access,
    ) -> TokenAuthenticator {
        let ApplicationPorts { projects, clock, .. } = (*self.context.ports).clone();
        let recorder = Arc::clone(&self.context.recorder);
        TokenAuthenticator::new(identities, projects, clock, recorder, max_access)
    }

    /// Sessions of browsers, which sign in with a token.
    pub fn sessions(&self, authenticator: Arc<TokenAuthenticator>) -> TokenSessions {
        let ids = Arc::clone(&self.context.ports.ids);
        let is_audited = self.context.ports.audit.is_some();
        TokenSessions { authenticator, ids, is_audited, begun: Mutex::default() }
    }

    /// Administration of users, tokens and the audit log by people with a page.
    pub fn administration(&self, identities: Arc<dyn IdentityRepository>) -> Administration {
        let ApplicationPorts { projects, clock, ids, .. } = (*self.context.ports).clone();
        let recorder = Arc::clone(&self.context.recorder);
        Administration { identities, projects, clock, ids, recorder }
    }

    /// Periodic maintenance of a server. Older audit rows and versions are pruned.
    pub fn maintenance(
        &self,
        authenticator: Option<Arc<TokenAuthenticator>>,
        keep_days: RetentionDays,
    ) -> Maintenance {
        let recorder = Arc::clone(&self.context.recorder);
        Maintenance::new(&self.context.ports, recorder, authenticator, keep_days)
    }
}
