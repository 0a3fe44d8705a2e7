//! The state of the application that tools, resources and prompts share.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::idempotency::IdempotencyKey;
use reqlore_domain::identity::{Access, Caller, ProjectScope, UserRole};
use reqlore_domain::ports::write_context::AuditScope;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;

use crate::apply_changes::stored_plans::StoredPlans;
use crate::docsets::ConfigCache;
use crate::ports::ApplicationPorts;
use crate::project_index::ProjectIndexes;
use crate::service::audit_recorder::AuditRecorder;
use crate::service::idempotency::KeyLocks;
use crate::writes::write_guard::{CallGuard, WriteGuard};

/// The state that all calls share.
pub(crate) struct SharedContext {
    /// The ports outside of calls. Background tasks use them, because they may outlive their call.
    pub(crate) server_ports: Arc<ApplicationPorts>,
    pub(crate) indexes: ProjectIndexes,
    pub(crate) configurations: ConfigCache,
    pub(crate) recorder: Arc<AuditRecorder>,
    pub(crate) key_locks: KeyLocks,
    pub(crate) plans: StoredPlans,
    pub(crate) guard: Arc<WriteGuard>,
}

/// The context of one call: the shared state, and the records that its writes belong to.
#[derive(Clone)]
pub(crate) struct ToolContext {
    pub(crate) shared: Arc<SharedContext>,
    pub(crate) ports: Arc<ApplicationPorts>,
    /// Set for an audited tool call.
    pub(crate) audit: Option<AuditScope>,
    /// Set for a write with an idempotency key.
    pub(crate) idempotency_key: Option<IdempotencyKey>,
    /// The time of the call's commits, set by the first one.
    pub(crate) written_at: Arc<OnceLock<Timestamp>>,
}

impl Deref for ToolContext {
    type Target = SharedContext;

    fn deref(&self) -> &SharedContext {
        &self.shared
    }
}

impl ToolContext {
    /// The write guard for a call of this caller.
    pub(crate) fn call_guard(&self, caller: &Arc<Caller>, project: &ProjectKey) -> CallGuard {
        CallGuard::new(Arc::clone(&self.guard), caller, project, self.ports.clock.now())
    }

    /// Returns a `Forbidden` error if the caller may not perform `operation`, which needs `access`.
    ///
    /// A caller whose token has no project on this server is rejected too. Each tool checks the
    /// project of its own call.
    pub(crate) fn check_access(
        &self,
        caller: &Caller,
        access: Access,
        operation: &str,
    ) -> Result<()> {
        if !caller.is_allowed(access) {
            let cause = match (&caller.token, caller.role) {
                (None, _) => "the server is read-only",
                (Some(_), UserRole::Commenter) => "the role commenter is read-only",
                (Some(_), _) => "the token has read scope or the server is read-only",
            };
            let message = format!(
                "{operation} is a write operation; {} has read access only: {cause}.",
                caller.name
            );
            return Err(Error::new(ErrorKind::Forbidden, message));
        }
        // A local caller names folders, which are not in the configuration.
        if caller.scope == ProjectScope::Anywhere {
            return Ok(());
        }
        let project = &caller.project;
        if caller.scope.includes(project) && self.ports.projects.is_configured(project) {
            return Ok(());
        }
        let message = "None of this token's projects exists on this server; ask an administrator \
                       for a new token.";
        Err(Error::new(ErrorKind::Forbidden, message))
    }

    /// Runs a call that only reads.
    pub(crate) async fn in_read_scope<T: Send>(
        &self,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let mut outcome = None;
        (self.ports.read_scope)(Box::pin(async { outcome = Some(call.await) })).await;
        // Created only if it is returned, because an internal error captures a backtrace.
        let not_run = || Error::new(ErrorKind::Internal, "the call did not run; try again");
        outcome.unwrap_or_else(|| Err(not_run()))
    }
}
