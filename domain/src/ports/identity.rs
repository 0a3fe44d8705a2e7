//! Port of a storage for users and tokens.
//!
//! As with documents, a commit decides its changes inside the transaction, so that two concurrent
//! commands cannot create the same user.

use async_trait::async_trait;
use reqlore_observed_ports::observed;

use super::documents::{StoreError, StoreResult};
use super::write_context::WriteContext;
use crate::audit_log::{AuditEvent, AuditTarget};
use crate::error::Result;
use crate::identity::{Token, TokenId, TokenOwner, User, UserName};
use crate::timestamp::Timestamp;

/// Stores users and tokens.
#[observed]
#[async_trait]
pub trait IdentityRepository: Send + Sync {
    /// All users, sorted by [`UserName::key`] (`users_are_listed_by_name`).
    async fn list_users(&self) -> StoreResult<Vec<User>>;

    /// All tokens without sessions, including invalid ones, sorted by age and then by id
    /// (`tokens_are_listed_by_age`).
    async fn list_tokens(&self) -> StoreResult<Vec<Token>>;

    /// A token and its user, read in one snapshot (`token_is_found_with_its_user`).
    async fn token_owner(&self, id: &TokenId) -> StoreResult<Option<TokenOwner>>;

    /// Changes after every [`IdentityRepository::commit_identities`] that modifies users or tokens,
    /// in any process (`epoch_changes_with_every_identity_commit`). Callers may cache lookups
    /// while it is unchanged. Read on every request, so it must be cheap.
    async fn identity_epoch(&self) -> StoreResult<u64>;

    /// Applies all changes of the decision durably, or none (`identities_survive_restart`). The
    /// decision sees the newest state, including the changes of concurrent commits
    /// (`concurrent_commits_create_a_user_once`). Its error changes nothing
    /// (`rejected_identity_decision_changes_nothing`). The audit row is appended in the same
    /// transaction (`identity_commit_writes_its_audit_row`).
    async fn commit_identities(&self, commit: IdentityCommit) -> StoreResult<()>;

    /// Stores the times of the last use of tokens, in one write. A stored time never decreases
    /// (`last_use_never_decreases`). Does not change the epoch.
    async fn record_use(&self, uses: Vec<(TokenId, Timestamp)>) -> StoreResult<()>;

    /// Removes the sessions that have ended (`ended_sessions_are_removed`). Does not change the
    /// epoch, because such a session is invalid anyway.
    async fn expire_sessions(&self, now: Timestamp) -> StoreResult<()>;
}

/// One transaction on users and tokens: the records to read, the decision on them, and its context.
pub struct IdentityCommit {
    pub users: Vec<UserName>,
    pub tokens: Vec<TokenId>,
    pub decide: DecideIdentities,
    pub context: WriteContext,
}

/// A pure function from the stored records to changes. A storage may call it several times.
pub type DecideIdentities =
    Box<dyn FnMut(&[Option<User>], &[Option<Token>]) -> Result<Vec<IdentityChange>> + Send>;

impl IdentityCommit {
    /// Calls the decision and returns its changes with their audit event.
    pub fn decide(
        &mut self,
        users: &[Option<User>],
        tokens: &[Option<Token>],
    ) -> StoreResult<(Vec<IdentityChange>, Option<AuditEvent>)> {
        let changes = (self.decide)(users, tokens).map_err(StoreError::Decided)?;
        let targets = changes.iter().map(IdentityChange::target).collect();
        let audit = if changes.is_empty() { None } else { self.context.audit_event(None, targets) };
        Ok((changes, audit))
    }
}

impl std::fmt::Debug for IdentityCommit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IdentityCommit")
            .field("users", &self.users)
            .field("tokens", &self.tokens)
            .finish_non_exhaustive()
    }
}

/// Creates or replaces a user or a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdentityChange {
    User(User),
    Token(Token),
}

impl IdentityChange {
    /// The changed record as an audit target.
    pub fn target(&self) -> AuditTarget {
        AuditTarget::unchanged(match self {
            Self::User(user) => format!("user/{}", user.name),
            Self::Token(token) if token.is_session() => format!("session/{}", token.id),
            Self::Token(token) => format!("token/{}", token.id),
        })
    }
}
