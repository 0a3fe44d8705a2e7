//! Port for the administration of users, tokens and the audit log by people with a page.
//!
//! It has no tools, so that no assistant can create a token.

use std::sync::Arc;

use async_trait::async_trait;

use crate::audit_log::{AuditRow, ChainError, ChainHead};
use crate::error::Result;
use crate::identity::{
    Access, Caller, PresentedToken, ProjectScope, Token, TokenId, User, UserName, UserRole,
};
use crate::project_key::ProjectKey;
use crate::timestamp::Timestamp;

/// Administers users, tokens and the audit log. Every operation is audited. Without
/// [`Self::is_allowed`], tokens and rows are the caller's own, and other operations `Forbidden`.
#[async_trait]
pub trait AdministrationService: Send + Sync {
    /// True for an administrator with write access to all projects.
    fn is_allowed(&self, caller: &Caller) -> bool;

    /// Records an attempt that a page has refused. Always returns an error.
    async fn refuse(&self, request: AdminRequest, action: &'static str, page: &str) -> Result<()>;

    /// All users, sorted by name.
    async fn users(&self, request: AdminRequest) -> Result<Vec<User>>;

    /// Adds a user. A name that exists in another case is `Refused`.
    async fn add_user(&self, request: AdminRequest, name: UserName, role: UserRole)
    -> Result<User>;

    /// Changes a user. The last enabled administrator keeps role and tokens: `Refused`.
    async fn change_user(
        &self,
        request: AdminRequest,
        name: UserName,
        change: UserAction,
    ) -> Result<User>;

    /// The tokens with the names of their states, the oldest first.
    async fn tokens(&self, request: AdminRequest) -> Result<Vec<(Token, &'static str)>>;

    /// Creates a token with at most the rights of the caller. Its secret cannot be read again.
    async fn create_token(
        &self,
        request: AdminRequest,
        token: NewToken,
    ) -> Result<(PresentedToken, Token)>;

    /// Revokes a token and ends its sessions. An earlier revocation stays.
    async fn revoke_token(&self, request: AdminRequest, id: TokenId) -> Result<Token>;

    /// Returns a page of the audit log, the newest row first.
    async fn audit_page(&self, request: AdminRequest, filter: AuditFilter) -> Result<AuditPage>;

    /// Verifies the hashes of all rows.
    async fn verify_audit(&self, request: AdminRequest) -> Result<AuditState>;
}

/// The caller of an operation.
#[derive(Debug, Clone)]
pub struct AdminRequest {
    pub caller: Arc<Caller>,
    pub correlation_id: Arc<str>,
    /// True if the audit log has another row of the same view. A read that succeeds adds none.
    pub is_audited: bool,
}

/// A change of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserAction {
    SetRole(UserRole),
    Enable,
    Disable,
}

/// The properties of a token to create.
#[derive(Debug, Clone)]
pub struct NewToken {
    pub user: UserName,
    pub scope: Access,
    /// The first one is the default project. An empty list means all projects.
    pub projects: Vec<ProjectKey>,
    /// A number with a unit, such as `90d`.
    pub lifetime: String,
}

/// Limits the rows of an audit page. All given values must match.
#[derive(Debug, Clone, Default)]
pub struct AuditFilter {
    /// The user's name, in any case.
    pub user: Option<String>,
    /// The name of a tool or method.
    pub action: Option<String>,
    /// A part of the name of a target, in any case.
    pub target: Option<String>,
    /// True for rows of changes only, false for all others.
    pub is_change: Option<bool>,
    /// Only rows of these projects.
    pub scope: Option<ProjectScope>,
    /// The first time.
    pub from: Option<Timestamp>,
    /// The first time that is too late.
    pub until: Option<Timestamp>,
    /// Only rows before this number: [`AuditPage::next`] of the previous page.
    pub before: Option<u64>,
    /// Maximum number of rows.
    pub limit: usize,
}

/// A page of the audit log.
#[derive(Debug, Clone, Default)]
pub struct AuditPage {
    /// The newest first. Rows of later versions match only an empty filter.
    pub rows: Vec<AuditRow>,
    /// The end of the next page; `None` if no older row can match.
    pub next: Option<u64>,
    /// True if the page is incomplete, because 10,000 rows were read.
    pub is_cut: bool,
}

/// The state of the audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditState {
    /// Number of valid rows before the first broken one.
    pub rows: u64,
    /// The newest valid row.
    pub newest: ChainHead,
    pub broken: Option<ChainError>,
}
