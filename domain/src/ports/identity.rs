//! The driven port to users and tokens.
//!
//! A change is decided inside the commit, as with documents: two commands at once never make one
//! name twice.

use async_trait::async_trait;

use super::documents::{StoreError, StoreResult};
use super::write_context::WriteContext;
use crate::audit::{AuditEvent, Target};
use crate::error::Result;
use crate::identity::{Token, TokenId, TokenOwner, User, UserName};
use crate::time::Timestamp;

/// Keeps users and tokens, on every storage.
#[async_trait]
pub trait IdentityRepository: Send + Sync {
    /// All users, by [`UserName::key`] (`users_are_listed_by_name`).
    async fn users(&self) -> StoreResult<Vec<User>>;

    /// All tokens, also those that do not count any more, the oldest first, those of one moment by
    /// id (`tokens_are_listed_by_age`).
    async fn tokens(&self) -> StoreResult<Vec<Token>>;

    /// A token and its user, in one look (`a_token_is_found_with_its_user`).
    async fn holder(&self, id: &TokenId) -> StoreResult<Option<TokenOwner>>;

    /// Different after every [`IdentityRepository::commit_identities`] that changed something,
    /// whoever made it in whatever process (`the_epoch_changes_with_every_identity_commit`), so
    /// that what was looked up may be kept while it stays. Cheap: it is asked at every request.
    async fn epoch(&self) -> StoreResult<u64>;

    /// Applies what `decide` answers on the newest state, all or nothing and durably
    /// (`identities_outlive_a_restart`), or nothing when it refuses
    /// (`a_refused_identity_decision_changes_nothing`). Concurrent ones each see the other
    /// (`a_user_is_made_once`). With an audit it writes one row in the same step
    /// (`an_identity_commit_is_audited_with_its_change`).
    async fn commit_identities(&self, commit: IdentityCommit) -> StoreResult<()>;

    /// Notes when tokens were last used, in one write, never to an earlier time
    /// (`the_last_use_only_grows`). It is no change of identities and keeps the epoch.
    async fn used(&self, uses: Vec<(TokenId, Timestamp)>) -> StoreResult<()>;
}

/// A change of users and tokens: what to look at, and how to decide on it.
pub struct IdentityCommit {
    pub users: Vec<UserName>,
    pub tokens: Vec<TokenId>,
    pub decide: DecideIdentities,
    pub act: WriteContext,
}

/// A pure function from what is stored to what shall change. It may run again.
pub type DecideIdentities =
    Box<dyn FnMut(&[Option<User>], &[Option<Token>]) -> Result<Vec<IdentityChange>> + Send>;

impl IdentityCommit {
    /// What shall change in view of this, and the row of the audit that goes with it.
    pub fn decide(
        &mut self,
        users: &[Option<User>],
        tokens: &[Option<Token>],
    ) -> StoreResult<(Vec<IdentityChange>, Option<AuditEvent>)> {
        let changes = (self.decide)(users, tokens).map_err(StoreError::Decided)?;
        let targets = changes.iter().map(IdentityChange::target).collect();
        let audit = if changes.is_empty() { None } else { self.act.entry(None, targets) };
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

/// One change. A user and a token of that name are made, or take the place of what was there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdentityChange {
    User(User),
    Token(Token),
}

impl IdentityChange {
    /// For the audit.
    pub fn target(&self) -> Target {
        Target::read(match self {
            Self::User(user) => format!("user/{}", user.name),
            Self::Token(token) => format!("token/{}", token.id),
        })
    }
}
