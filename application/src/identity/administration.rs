//! Administration by people with a page: rights and audit over the functions of the commands.

use std::sync::Arc;

use async_trait::async_trait;
use reqlore_domain::audit_log::AuditTarget;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::{
    Caller, PresentedToken, ProjectScope, Token, TokenId, User, UserName, UserRole,
};
use reqlore_domain::ports::administration::{
    AdminRequest, AdministrationService, AuditFilter, AuditPage, AuditState, NewToken, UserAction,
};
use reqlore_domain::ports::audit::AuditLog;
use reqlore_domain::ports::clock::Clock;
use reqlore_domain::ports::id_generator::IdGenerator;
use reqlore_domain::ports::identity::IdentityRepository;
use reqlore_domain::ports::project_resolver::ProjectResolver;
use reqlore_domain::project_key::ProjectKey;

use super::audit_query::{read_page, verify_chain};
use super::tokens::{
    TokenLifetime, TokenRequest, create_token, list_tokens, revoke_token, unknown_token,
};
use super::user_admin::{
    LastAdministrator, UserAdmin, add_user, disable_user, enable_user, list_users, set_role,
};
use crate::service::audit_recorder::{AccessRecord, AuditRecorder, truncate_target};

/// Rows that one page of the audit log reads.
const MAX_PAGE_ROWS: u64 = 10_000;
const KEEP: LastAdministrator = LastAdministrator::Keep;

/// The administration of a team's server.
#[expect(missing_debug_implementations, reason = "ports are traits without one")]
pub struct Administration {
    pub(crate) identities: Arc<dyn IdentityRepository>,
    pub(crate) projects: Arc<dyn ProjectResolver>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn IdGenerator>,
    pub(crate) recorder: Arc<AuditRecorder>,
}

/// The result of an operation, and whether a commit has recorded it in the audit log.
type Recorded<T> = Result<(T, bool)>;

impl Administration {
    /// Runs an operation of administrators and records it in the audit log.
    async fn run<T>(
        &self,
        request: AdminRequest,
        what: (&'static str, Option<String>),
        work: impl AsyncFnOnce(UserAdmin) -> Recorded<T>,
    ) -> Result<T> {
        let is_permitted = self.is_allowed(&request.caller);
        self.run_if(is_permitted, request, what, work).await
    }

    async fn run_if<T>(
        &self,
        is_permitted: bool,
        request: AdminRequest,
        (action, target): (&'static str, Option<String>),
        work: impl AsyncFnOnce(UserAdmin) -> Recorded<T>,
    ) -> Result<T> {
        let caller = Arc::clone(&request.caller);
        let done = if is_permitted {
            work(self.admin(Arc::clone(&caller))).await
        } else {
            Err(not_allowed(action))
        };
        let has_row = matches!(&done, Ok((_, is_recorded)) if *is_recorded || request.is_audited);
        if !has_row {
            let targets = target.into_iter().map(AuditTarget::unchanged).collect();
            let id = &request.correlation_id;
            let access = AccessRecord { targets, ..AccessRecord::new(&caller, id, action) };
            let error_kind = done.as_ref().err().map(|error| error.kind);
            self.recorder.record_access(access, error_kind).await?;
        }
        done.map(|(result, _)| result)
    }

    /// True for tokens and rows of this user: all for an administrator, else the caller's own.
    fn is_visible(&self, caller: &Caller, user: &UserName) -> bool {
        self.is_allowed(caller)
            || caller.token.is_some() && user.as_str().eq_ignore_ascii_case(&caller.name)
    }

    fn admin(&self, caller: Arc<Caller>) -> UserAdmin {
        UserAdmin {
            identities: Arc::clone(&self.identities),
            clock: Arc::clone(&self.clock),
            ids: Arc::clone(&self.ids),
            projects: self.projects.keys(),
            caller,
            is_audited: self.recorder.audit_log().is_some(),
        }
    }

    /// Returns the audit log with all rows so far.
    async fn flushed_log(&self) -> Result<&dyn AuditLog> {
        let Some(log) = self.recorder.audit_log() else {
            let message = "audit log: it is off on this server; remove `audit = \"off\"`";
            return Err(Error::new(ErrorKind::Refused, message));
        };
        self.recorder.flush().await?;
        Ok(&**log)
    }
}

/// The projects of a token that a caller with this scope creates; no projects mean all of them.
fn limit_projects(projects: Vec<ProjectKey>, scope: &ProjectScope) -> Result<Vec<ProjectKey>> {
    match scope {
        ProjectScope::Only(own) if projects.is_empty() => Ok(own.clone()),
        scope if projects.iter().all(|project| scope.includes(project)) => Ok(projects),
        _ => {
            let message = "projects: not in your session; choose among its projects";
            Err(Error::new(ErrorKind::InvalidArgument, message).field("projects"))
        }
    }
}

fn not_allowed(action: &str) -> Error {
    let message = format!(
        "{action}: only administrators with write access to all projects may do this; sign in \
         with such a token"
    );
    Error::new(ErrorKind::Forbidden, message)
}

#[async_trait]
impl AdministrationService for Administration {
    fn is_allowed(&self, caller: &Caller) -> bool {
        caller.is_administrator()
    }

    async fn refuse(&self, request: AdminRequest, action: &'static str, page: &str) -> Result<()> {
        let target = Some(truncate_target(page).to_owned());
        self.run(request, (action, target), async |_| Err(not_allowed(action))).await
    }

    async fn users(&self, request: AdminRequest) -> Result<Vec<User>> {
        let list = async |admin: UserAdmin| Ok((list_users(&admin).await?, false));
        self.run(request, ("user/list", None), list).await
    }

    async fn add_user(
        &self,
        request: AdminRequest,
        name: UserName,
        role: UserRole,
    ) -> Result<User> {
        let target = Some(format!("user/{name}"));
        let add = async |admin: UserAdmin| Ok((add_user(&admin, name, role).await?, true));
        self.run(request, ("user/add", target), add).await
    }

    async fn change_user(
        &self,
        request: AdminRequest,
        name: UserName,
        change: UserAction,
    ) -> Result<User> {
        let action = match change {
            UserAction::SetRole(_) => "user/set-role",
            UserAction::Enable => "user/enable",
            UserAction::Disable => "user/disable",
        };
        let target = Some(format!("user/{name}"));
        let apply = async |admin: UserAdmin| {
            let changed = match change {
                UserAction::SetRole(role) => set_role(&admin, name, role, KEEP).await?,
                UserAction::Enable => enable_user(&admin, name).await?,
                UserAction::Disable => disable_user(&admin, name, KEEP).await?,
            };
            Ok((changed.user, !changed.unchanged))
        };
        self.run(request, (action, target), apply).await
    }

    async fn tokens(&self, request: AdminRequest) -> Result<Vec<(Token, &'static str)>> {
        let list = async |admin: UserAdmin| {
            let mut tokens = Vec::new();
            for summary in list_tokens(&admin).await? {
                if self.is_visible(&admin.caller, &summary.token.user) {
                    tokens.push((summary.token, summary.state.name()));
                }
            }
            Ok((tokens, false))
        };
        self.run_if(request.caller.token.is_some(), request, ("token/list", None), list).await
    }

    async fn create_token(
        &self,
        request: AdminRequest,
        token: NewToken,
    ) -> Result<(PresentedToken, Token)> {
        let target = Some(format!("user/{}", token.user));
        let is_permitted = self.is_visible(&request.caller, &token.user);
        let create = async |admin: UserAdmin| {
            let NewToken { user, scope, projects, lifetime } = token;
            let lifetime = TokenLifetime::parse_lifetime(&lifetime).map_err(|problem| {
                let message = format!("lifetime: {problem}");
                Error::new(ErrorKind::InvalidArgument, message).field("lifetime")
            })?;
            // Never more than the session, whose caller is limited by its token and the server.
            let scope = scope.min(admin.caller.access);
            let projects = limit_projects(projects, &admin.caller.scope)?;
            let request = TokenRequest { user, scope, projects, lifetime };
            let issued = create_token(&admin, request).await?;
            Ok(((issued.presented, issued.token), true))
        };
        self.run_if(is_permitted, request, ("token/create", target), create).await
    }

    async fn revoke_token(&self, request: AdminRequest, id: TokenId) -> Result<Token> {
        let target = Some(format!("token/{id}"));
        let revoke = async |admin: UserAdmin| {
            let owner = admin.identities.token_owner(&id).await?;
            if !owner.is_some_and(|owner| self.is_visible(&admin.caller, &owner.user.name)) {
                return Err(unknown_token(&id));
            }
            let revoked = revoke_token(&admin, id).await?;
            Ok((revoked.token, !revoked.unchanged))
        };
        self.run_if(request.caller.token.is_some(), request, ("token/revoke", target), revoke).await
    }

    async fn audit_page(
        &self,
        request: AdminRequest,
        mut filter: AuditFilter,
    ) -> Result<AuditPage> {
        if !self.is_allowed(&request.caller) {
            filter.user = Some(request.caller.name.to_string());
            filter.scope = Some(request.caller.scope.clone());
        }
        let read = async |_| {
            Ok((read_page(self.flushed_log().await?, &filter, MAX_PAGE_ROWS).await?, false))
        };
        self.run_if(request.caller.token.is_some(), request, ("audit/list", None), read).await
    }

    async fn verify_audit(&self, request: AdminRequest) -> Result<AuditState> {
        let verify = async |_| {
            let verified = verify_chain(self.flushed_log().await?, None).await?;
            let (rows, newest, broken) = (verified.rows, verified.newest, verified.broken);
            Ok((AuditState { rows, newest, broken }, false))
        };
        self.run(request, ("audit/verify", None), verify).await
    }
}
