//! Adding, listing and disabling users, and changing their roles.
//!
//! Nobody is ever removed: creators and the audit go on naming them. Whatever changes holds from
//! the next request of every server over the storage (S5 4.6).

use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::{Role, User, UserName};
use reqlore_domain::ports::identity::IdentityChange;

use super::administration::{Administration, Looks, no_user};

/// A user, and whether that is what they were before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    pub user: User,
    pub unchanged: bool,
}

/// Adds a user, whose name nobody may have yet in whatever case.
pub async fn add(to: &Administration, name: UserName, role: Role) -> Result<User> {
    let now = to.clock.now();
    let user = User { name: name.clone(), role, created_at: now, disabled_at: None };
    let looks = Looks { users: vec![name], ..Looks::default() };
    let decide = move |users: &[Option<User>], _: &_| match users {
        [Some(there)] => Err(is_there(there)),
        _ => Ok((vec![IdentityChange::User(user.clone())], user.clone())),
    };
    to.change("user/add", now, looks, decide).await
}

fn is_there(user: &User) -> Error {
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
pub async fn list(of: &Administration) -> Result<Vec<User>> {
    Ok(of.identities.users().await?)
}

/// Gives a user another role. Their tokens follow.
pub async fn set_role(of: &Administration, name: UserName, role: Role) -> Result<Changed> {
    change(of, "user/set-role", name, move |user| User { role, ..user }).await
}

/// Makes none of a user's tokens count any more.
pub async fn disable(of: &Administration, name: UserName) -> Result<Changed> {
    let now = of.clock.now();
    let disabled = move |user: User| User { disabled_at: user.disabled_at.or(Some(now)), ..user };
    change(of, "user/disable", name, disabled).await
}

async fn change(
    of: &Administration,
    action: &'static str,
    name: UserName,
    changed: impl Fn(User) -> User + Send + 'static,
) -> Result<Changed> {
    let looks = Looks { users: vec![name.clone()], ..Looks::default() };
    let decide = move |users: &[Option<User>], _: &_| {
        let there = users.first().cloned().flatten().ok_or_else(|| no_user(&name))?;
        let user = changed(there.clone());
        if user == there {
            return Ok((Vec::new(), Changed { user, unchanged: true }));
        }
        Ok((vec![IdentityChange::User(user.clone())], Changed { user, unchanged: false }))
    };
    of.change(action, of.clock.now(), looks, decide).await
}
