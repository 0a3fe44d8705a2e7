//! Administration of users: adding, listing, disabling, and changing roles.
//!
//! A user is never removed, because creators and the audit keep naming them. Changes hold from the
//! next request of every server on the storage.

use std::sync::{Arc, Mutex, PoisonError};

use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::{Caller, Role, Token, TokenId, User, UserName};
use reqlore_domain::ports::clock::Clock;
use reqlore_domain::ports::id_generator::IdGenerator;
use reqlore_domain::ports::identity::{IdentityChange, IdentityCommit, IdentityRepository};
use reqlore_domain::ports::write_context::{AuditScope, WriteContext};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;

#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "ports are traits without one")]
pub struct UserAdmin {
    pub identities: Arc<dyn IdentityRepository>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn IdGenerator>,
    /// All configured projects.
    pub projects: Vec<ProjectKey>,
    /// The local user.
    pub caller: Arc<Caller>,
    pub is_audited: bool,
}

pub(super) type AdminDecision<T> = Result<(Vec<IdentityChange>, T)>;

/// The users and tokens that a decision reads.
#[derive(Debug, Clone, Default)]
pub(super) struct IdentityReadSet {
    pub(super) users: Vec<UserName>,
    pub(super) tokens: Vec<TokenId>,
}

impl UserAdmin {
    fn write_context(&self, action: &'static str, now: Timestamp) -> WriteContext {
        WriteContext {
            caller: Arc::clone(&self.caller),
            tool: action,
            reason: String::new(),
            correlation_id: self.ids.uid(now),
            at: now,
            audited: self.is_audited.then(|| AuditScope::begin(Arc::clone(&self.clock))),
            idempotency_key: None,
        }
    }

    /// Commits the changes that `decide` returns on the newest state, and returns its result.
    /// `decide` may run again; the last run is valid.
    pub(super) async fn commit_changes<T: Send + 'static>(
        &self,
        action: &'static str,
        now: Timestamp,
        reads: IdentityReadSet,
        mut decide: impl FnMut(&[Option<User>], &[Option<Token>]) -> AdminDecision<T> + Send + 'static,
    ) -> Result<T> {
        let found: Arc<Mutex<Option<T>>> = Arc::default();
        let decided = Arc::clone(&found);
        let commit = IdentityCommit {
            users: reads.users,
            tokens: reads.tokens,
            decide: Box::new(move |users, tokens| {
                let (changes, found) = decide(users, tokens)?;
                *decided.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
                Ok(changes)
            }),
            act: self.write_context(action, now),
        };
        self.identities.commit_identities(commit).await?;
        let found = found.lock().unwrap_or_else(PoisonError::into_inner).take();
        found.ok_or_else(|| {
            Error::new(ErrorKind::Internal, "The storage committed without a decision.")
        })
    }
}

pub(super) fn unknown_user(name: &UserName) -> Error {
    let message = format!(
        "there is no user {name}; `reqlore user list` shows all, `reqlore user add {name} --role \
         ROLE` adds this one"
    );
    Error::new(ErrorKind::NotFound, message).field("user").reference(name.as_str())
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserChange {
    pub user: User,
    pub unchanged: bool,
}

/// Adds a user. Names that differ in case only are equal.
pub async fn add(to: &UserAdmin, name: UserName, role: Role) -> Result<User> {
    let now = to.clock.now();
    let user = User { name: name.clone(), role, created_at: now, disabled_at: None };
    let reads = IdentityReadSet { users: vec![name], ..IdentityReadSet::default() };
    let decide = move |users: &[Option<User>], _: &_| match users {
        [Some(there)] => Err(user_exists(there)),
        _ => Ok((vec![IdentityChange::User(user.clone())], user.clone())),
    };
    to.commit_changes("user/add", now, reads, decide).await
}

fn user_exists(user: &User) -> Error {
    let User { name, role, .. } = user;
    let state = if user.disabled_at.is_some() { " and is disabled" } else { "" };
    let message = format!(
        "there is a user {name} already, who has the role {role}{state}; nothing was changed. \
         `reqlore user list` shows all users, `reqlore user set-role {name} --role ROLE` gives \
         this one another role"
    );
    Error::new(ErrorKind::Refused, message).field("name").reference(name.as_str())
}

/// All users, by name.
pub async fn list(of: &UserAdmin) -> Result<Vec<User>> {
    Ok(of.identities.users().await?)
}

/// Gives a user another role. Their tokens follow.
pub async fn set_role(of: &UserAdmin, name: UserName, role: Role) -> Result<UserChange> {
    change_user(of, "user/set-role", name, move |user| User { role, ..user }).await
}

/// Disables a user, which invalidates all their tokens.
pub async fn disable(of: &UserAdmin, name: UserName) -> Result<UserChange> {
    let now = of.clock.now();
    let disabled = move |user: User| User { disabled_at: user.disabled_at.or(Some(now)), ..user };
    change_user(of, "user/disable", name, disabled).await
}

async fn change_user(
    of: &UserAdmin,
    action: &'static str,
    name: UserName,
    changed: impl Fn(User) -> User + Send + 'static,
) -> Result<UserChange> {
    let reads = IdentityReadSet { users: vec![name.clone()], ..IdentityReadSet::default() };
    let decide = move |users: &[Option<User>], _: &_| {
        let there = users.first().cloned().flatten().ok_or_else(|| unknown_user(&name))?;
        let user = changed(there.clone());
        if user == there {
            return Ok((Vec::new(), UserChange { user, unchanged: true }));
        }
        Ok((vec![IdentityChange::User(user.clone())], UserChange { user, unchanged: false }))
    };
    of.commit_changes(action, of.clock.now(), reads, decide).await
}
