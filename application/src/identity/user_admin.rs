//! Adds, lists, disables and enables users, and changes their roles.
//!
//! Users are never deleted, because documents and the audit log refer to them. Every server on the
//! storage applies a change from its next request on.

use std::sync::{Arc, Mutex, PoisonError};

use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::{Caller, Token, TokenId, User, UserName, UserRole};
use reqlore_domain::ports::clock::Clock;
use reqlore_domain::ports::id_generator::IdGenerator;
use reqlore_domain::ports::identity::{IdentityChange, IdentityCommit, IdentityRepository};
use reqlore_domain::ports::write_context::{AuditScope, WriteContext};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;

/// The ports of the administration commands. Users and tokens are functions of it.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "ports are traits without one")]
pub struct UserAdmin {
    pub identities: Arc<dyn IdentityRepository>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn IdGenerator>,
    /// All configured projects.
    pub projects: Vec<ProjectKey>,
    /// The local user, who is recorded in the audit log.
    pub caller: Arc<Caller>,
    pub is_audited: bool,
}

/// The changes to commit, and the result for the caller.
pub(super) type AdminDecision<T> = Result<(Vec<IdentityChange>, T)>;

/// The users and tokens that a decision reads.
#[derive(Debug, Clone, Default)]
pub(super) struct IdentityReadSet {
    pub(super) users: Vec<UserName>,
    pub(super) tokens: Vec<TokenId>,
}

impl UserAdmin {
    pub(super) fn write_context(&self, action: &'static str, now: Timestamp) -> WriteContext {
        WriteContext {
            caller: Arc::clone(&self.caller),
            tool: action,
            reason: String::new(),
            correlation_id: self.ids.new_uid(now),
            at: now,
            audited: self.is_audited.then(|| AuditScope::begin(Arc::clone(&self.clock))),
            idempotency_key: None,
        }
    }

    /// Commits the changes that `decide` returns, and returns its result.
    ///
    /// `decide` must be pure: it runs again if a user or token of `reads` changes meanwhile.
    pub(super) async fn commit_changes<T: Send + 'static, Decide>(
        &self,
        action: &'static str,
        now: Timestamp,
        reads: IdentityReadSet,
        mut decide: Decide,
    ) -> Result<T>
    where
        Decide: FnMut(&[Option<User>], &[Option<Token>]) -> AdminDecision<T> + Send + 'static,
    {
        // The storage owns `decide`, so the result leaves it through a shared slot.
        let result_slot: Arc<Mutex<Option<T>>> = Arc::default();
        let written_slot = Arc::clone(&result_slot);
        let commit = IdentityCommit {
            users: reads.users,
            tokens: reads.tokens,
            decide: Box::new(move |users, tokens| {
                let (changes, result) = decide(users, tokens)?;
                *written_slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
                Ok(changes)
            }),
            context: self.write_context(action, now),
        };
        self.identities.commit_identities(commit).await?;
        let result = result_slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        result.ok_or_else(|| {
            Error::new(ErrorKind::Internal, "The storage committed without a decision.")
        })
    }
}

pub(super) fn unknown_user(name: &UserName) -> Error {
    let message = format!(
        "user {name} does not exist; `reqlore user list` shows all users, `reqlore user add {name} \
         --role ROLE` adds one"
    );
    Error::new(ErrorKind::NotFound, message).field("user").reference(name.as_str())
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserChange {
    pub user: User,
    /// True if the user already was as requested.
    pub unchanged: bool,
}

/// Adds a user. Names that differ only in case are equal.
pub async fn add_user(admin: &UserAdmin, name: UserName, role: UserRole) -> Result<User> {
    let now = admin.clock.now();
    let user = User { name: name.clone(), role, created_at: now, disabled_at: None };
    let reads = IdentityReadSet { users: vec![name], ..IdentityReadSet::default() };
    let decide = move |users: &[Option<User>], _: &_| match users {
        [Some(existing)] => Err(user_exists(existing)),
        _ => Ok((vec![IdentityChange::User(user.clone())], user.clone())),
    };
    admin.commit_changes("user/add", now, reads, decide).await
}

fn user_exists(user: &User) -> Error {
    let User { name, role, .. } = user;
    let message = if user.disabled_at.is_some() {
        format!("user {name} already exists, disabled; run `reqlore user enable {name}`")
    } else {
        format!(
            "user {name} already exists (role {role}); to change the role, run `reqlore user \
             set-role {name} --role ROLE`"
        )
    };
    Error::new(ErrorKind::Refused, message).field("name").reference(name.as_str())
}

/// Lists all users, sorted by name.
pub async fn list_users(admin: &UserAdmin) -> Result<Vec<User>> {
    Ok(admin.identities.list_users().await?)
}

/// The last enabled administrator keeps role and tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastAdministrator {
    Keep,
    /// Allows a server without an administrator.
    MayGo,
}

/// Changes a user's role, which applies to all their tokens.
pub async fn set_role(
    admin: &UserAdmin,
    name: UserName,
    role: UserRole,
    last: LastAdministrator,
) -> Result<UserChange> {
    change_user(admin, "user/set-role", name, last, move |user| User { role, ..user }).await
}

/// Disables a user, which invalidates all their tokens.
pub async fn disable_user(
    admin: &UserAdmin,
    name: UserName,
    last: LastAdministrator,
) -> Result<UserChange> {
    let now = admin.clock.now();
    change_user(admin, "user/disable", name, last, move |user| {
        // The first time stays.
        User { disabled_at: user.disabled_at.or(Some(now)), ..user }
    })
    .await
}

/// Enables a disabled user. Their tokens are valid again, except expired and revoked ones.
pub async fn enable_user(admin: &UserAdmin, name: UserName) -> Result<UserChange> {
    let enable = |user| User { disabled_at: None, ..user };
    change_user(admin, "user/enable", name, LastAdministrator::Keep, enable).await
}

async fn change_user(
    admin: &UserAdmin,
    action: &'static str,
    name: UserName,
    last: LastAdministrator,
    apply: impl Fn(User) -> User + Send + 'static,
) -> Result<UserChange> {
    // The user first, then the other administrators. The decision reads their newest state, so two
    // commands cannot disable the last two at once.
    let mut names = vec![name.clone()];
    for user in admin.identities.list_users().await? {
        if is_active_administrator(&user) && user.name.key() != name.key() {
            names.push(user.name);
        }
    }
    let reads = IdentityReadSet { users: names, ..IdentityReadSet::default() };
    let decide = move |users: &[Option<User>], _: &_| {
        let before = users.first().cloned().flatten().ok_or_else(|| unknown_user(&name))?;
        let user = apply(before.clone());
        let is_last = !users.iter().skip(1).flatten().any(is_active_administrator);
        if last == LastAdministrator::Keep
            && is_last
            && is_active_administrator(&before)
            && !is_active_administrator(&user)
        {
            return Err(last_administrator(&before));
        }
        // No change, no audit row, and caches of servers stay valid.
        if user == before {
            return Ok((Vec::new(), UserChange { user, unchanged: true }));
        }
        Ok((vec![IdentityChange::User(user.clone())], UserChange { user, unchanged: false }))
    };
    admin.commit_changes(action, admin.clock.now(), reads, decide).await
}

fn is_active_administrator(user: &User) -> bool {
    user.role == UserRole::Administrator && user.disabled_at.is_none()
}

fn last_administrator(user: &User) -> Error {
    let name = &user.name;
    let message = format!(
        "user {name} is the last enabled administrator; add or enable another one first, or pass \
         --force"
    );
    Error::new(ErrorKind::Refused, message).field("name").reference(name.as_str())
}
