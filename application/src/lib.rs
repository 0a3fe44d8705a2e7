//! Tools, resources and prompts of Reqlore: one folder per toolset, one file per tool.
//!
//! [`Application`] implements the service port. It depends on no protocol and on no storage.

mod addresses;
mod answers;
mod apply_changes;
pub mod backlog;
pub mod check;
mod context;
pub mod docsets;
mod documents;
pub mod exchange;
pub mod history;
pub mod identity;
mod knowledge;
mod ports;
pub mod project_index;
mod record_schemas;
mod record_templates;
pub mod sections;
mod service;
mod task_context;
#[cfg(test)]
mod test_support;
mod tools;
pub mod transfer;
mod writes;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqlore_domain::identity::Access;
use reqlore_domain::ports::identity::IdentityRepository;

pub use ports::{ApplicationPorts, ApplicationSettings};
pub use service::maintenance::{Maintenance, RetentionDays};

use apply_changes::stored_plans::StoredPlans;
use context::{SharedContext, ToolContext};
use docsets::ConfigCache;
use identity::administration::Administration;
use identity::sessions::TokenSessions;
use identity::token_authenticator::TokenAuthenticator;
use project_index::ProjectIndexes;
pub use record_schemas::RecordSchemas;
use service::audit_recorder::AuditRecorder;
use service::idempotency::KeyLocks;
use tools::tool::ListedTool;
use writes::write_guard::WriteGuard;

/// All tools over one set of ports.
#[expect(missing_debug_implementations, reason = "ports are traits without one")]
pub struct Application {
    context: ToolContext,
    /// The enabled tools, sorted by name.
    tools: Vec<ListedTool>,
}

impl Application {
    pub fn new(ports: ApplicationPorts) -> Self {
        let mut tools = tools::enabled_tools::enabled_tools(&ports);
        // Clients show tools in this order, independent of their toolsets.
        tools.sort_by_key(|(spec, _)| spec.name);
        let recorder = Arc::new(AuditRecorder::new(ports.audit.clone(), Arc::clone(&ports.clock)));
        let is_guarded = ports.settings.write_guard;
        let ports = Arc::new(ports);
        let shared = SharedContext {
            server_ports: Arc::clone(&ports),
            indexes: ProjectIndexes::default(),
            configurations: ConfigCache::default(),
            recorder,
            key_locks: KeyLocks::default(),
            plans: StoredPlans::default(),
            guard: Arc::new(WriteGuard::new(is_guarded)),
        };
        let context = ToolContext {
            shared: Arc::new(shared),
            ports,
            audit: None,
            idempotency_key: None,
            written_at: Arc::default(),
        };
        Self { context, tools }
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
