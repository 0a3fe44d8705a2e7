//! Port of storages for users and tokens. As with documents, a commit decides its change inside the
//! transaction, so two concurrent commands never create the same name.

use async_trait::async_trait;

use super::documents::{StoreError, StoreResult};
use super::write_context::WriteContext;
use crate::audit_log::{AuditEvent, AuditTarget};
use crate::error::Result;
use crate::identity::{Token, TokenId, TokenOwner, User, UserName};
use crate::timestamp::Timestamp;

#[async_trait]
pub trait IdentityRepository: Send + Sync {
    /// All users, by [`UserName::key`] (`users_are_listed_by_name`).
    async fn users(&self) -> StoreResult<Vec<User>>;

    /// All tokens, invalid ones too, by age and then by id (`tokens_are_listed_by_age`).
    async fn tokens(&self) -> StoreResult<Vec<Token>>;

    /// A token and its user, from one snapshot (`token_is_found_with_its_user`).
    async fn token_owner(&self, id: &TokenId) -> StoreResult<Option<TokenOwner>>;

    /// Changes after every [`IdentityRepository::commit_identities`] that modifies users or tokens,
    /// in any process (`epoch_changes_with_every_identity_commit`). Callers may cache lookups
    /// while it is unchanged. Read on every request, so it must be cheap.
    async fn epoch(&self) -> StoreResult<u64>;

    /// Applies the decision on the newest state, all or nothing and durably
    /// (`identities_survive_restart`). A refused decision changes nothing
    /// (`rejected_identity_decision_changes_nothing`). Concurrent commits see each other's changes
    /// (`concurrent_commits_create_a_user_once`). The audit row is part of the same transaction
    /// (`identity_commit_writes_its_audit_row`).
    async fn commit_identities(&self, commit: IdentityCommit) -> StoreResult<()>;

    /// Stores when tokens were last used, in one write. A stored time never decreases
    /// (`last_use_never_decreases`). The epoch stays.
    async fn record_use(&self, uses: Vec<(TokenId, Timestamp)>) -> StoreResult<()>;
}

/// A change of users and tokens: the state to read, and the decision on it.
pub struct IdentityCommit {
    pub users: Vec<UserName>,
    pub tokens: Vec<TokenId>,
    pub decide: DecideIdentities,
    pub act: WriteContext,
}

/// A pure function from the stored state to its changes. It may run again.
pub type DecideIdentities =
    Box<dyn FnMut(&[Option<User>], &[Option<Token>]) -> Result<Vec<IdentityChange>> + Send>;

impl IdentityCommit {
    /// The changes of this state, and their audit row.
    pub fn decide(
        &mut self,
        users: &[Option<User>],
        tokens: &[Option<Token>],
    ) -> StoreResult<(Vec<IdentityChange>, Option<AuditEvent>)> {
        let changes = (self.decide)(users, tokens).map_err(StoreError::Decided)?;
        let targets = changes.iter().map(IdentityChange::target).collect();
        let audit = if changes.is_empty() { None } else { self.act.audit_event(None, targets) };
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
    /// For the audit.
    pub fn target(&self) -> AuditTarget {
        AuditTarget::read(match self {
            Self::User(user) => format!("user/{}", user.name),
            Self::Token(token) => format!("token/{}", token.id),
        })
    }
}
