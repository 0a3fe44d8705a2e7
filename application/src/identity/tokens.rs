//! Creating, listing, revoking and rotating tokens.
//!
//! A token is given away once, by what creates it, and never again: storages keep its digest.
//! Whatever changes holds from the next request of every server over the storage (S5 4.6).

use std::collections::BTreeMap;

use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::token::{ID_LETTERS, SECRET_LETTERS, judge};
use reqlore_domain::identity::{
    Access, PresentedToken, Token, TokenError, TokenId, TokenOwner, User, UserName,
};
use reqlore_domain::ports::identity::IdentityChange;
use reqlore_domain::project::ProjectKey;
use reqlore_domain::time::Timestamp;

use super::administration::{Administration, Looks, no_user};
use super::lifetime::Lifetime;

/// A token that somebody asks for.
#[derive(Debug, Clone)]
pub struct Wanted {
    pub user: UserName,
    pub scope: Access,
    /// The first is meant where a call names none; none of them means all.
    pub projects: Vec<ProjectKey>,
    pub lifetime: Lifetime,
}

/// A new token, and the only chance to show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issued {
    pub presented: PresentedToken,
    pub token: Token,
    /// Whose it is: the role may allow less than the token's scope.
    pub user: User,
}

/// Makes a token.
pub async fn create(of: &Administration, wanted: Wanted) -> Result<Issued> {
    let Wanted { user, scope, projects, lifetime } = wanted;
    let projects = configured(of, projects)?;
    let now = of.clock.now();
    let presented = new(of)?;
    let token = Token {
        id: presented.id.clone(),
        user,
        digest: presented.digest(),
        scope,
        projects,
        created_at: now,
        expires_at: lifetime.after(now),
        revoked_at: None,
        successor: None,
        last_used_at: None,
    };
    let looks = Looks { users: vec![token.user.clone()], tokens: vec![token.id.clone()] };
    let decide = move |users: &[Option<User>], tokens: &[Option<Token>]| {
        let user = users.first().cloned().flatten().ok_or_else(|| no_user(&token.user))?;
        check_enabled(&user)?;
        check_free(tokens.first())?;
        // As the user is called, whatever case was given.
        let token = Token { user: user.name.clone(), ..token.clone() };
        let issued = Issued { presented: presented.clone(), token: token.clone(), user };
        Ok((vec![IdentityChange::Token(token)], issued))
    };
    of.change("token/create", now, looks, decide).await
}

/// Makes a successor of a token that counts, for the same user, scope, projects and length of
/// time. The old one counts for as long as `overlap` beside it.
pub async fn rotate(of: &Administration, id: TokenId, overlap: Lifetime) -> Result<Issued> {
    let now = of.clock.now();
    let presented = new(of)?;
    // Whose a token is never changes, so this may be looked up before.
    let known = of.identities.holder(&id).await?.ok_or_else(|| no_token(&id))?;
    let looks =
        Looks { users: vec![known.user.name], tokens: vec![id.clone(), presented.id.clone()] };
    let decide = move |users: &[Option<User>], tokens: &[Option<Token>]| {
        let token = tokens.first().cloned().flatten().ok_or_else(|| no_token(&id))?;
        let user = users.first().cloned().flatten().ok_or_else(|| no_user(&token.user))?;
        check_free(tokens.get(1))?;
        let holder = TokenOwner { token, user };
        check_can_rotate(&holder, now)?;
        let TokenOwner { token: old, user } = holder;
        let length = old.expires_at.0.saturating_sub(old.created_at.0);
        let token = Token {
            id: presented.id.clone(),
            digest: presented.digest(),
            created_at: now,
            expires_at: Timestamp(now.0.saturating_add(length)),
            last_used_at: None,
            ..old.clone()
        };
        let retired = Token {
            expires_at: old.expires_at.min(overlap.after(now)),
            successor: Some(token.id.clone()),
            ..old
        };
        let issued = Issued { presented: presented.clone(), token: token.clone(), user };
        Ok((vec![IdentityChange::Token(retired), IdentityChange::Token(token)], issued))
    };
    of.change("token/rotate", now, looks, decide).await
}

fn check_can_rotate(holder: &TokenOwner, now: Timestamp) -> Result<()> {
    let TokenOwner { token, user } = holder;
    let Token { id, successor, .. } = token;
    if let Some(successor) = successor {
        let message = format!(
            "token {id} was rotated already; its successor is {successor}: rotate that one"
        );
        return Err(refused(id, message));
    }
    match state(token, Some(user), now) {
        State::Active => Ok(()),
        State::Denied(TokenError::Disabled) => check_enabled(user),
        State::Denied(why) => {
            let message = format!(
                "token {id} does not count any more ({}), so nothing can take its place; `reqlore \
                 token create --user {}` makes a new one",
                why.name(),
                user.name
            );
            Err(refused(id, message))
        }
    }
}

/// A token that is revoked now, and whether it was so before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revoked {
    pub token: Token,
    pub unchanged: bool,
}

/// Makes a token count no more, from the next request on.
pub async fn revoke(of: &Administration, id: TokenId) -> Result<Revoked> {
    let now = of.clock.now();
    let looks = Looks { tokens: vec![id.clone()], ..Looks::default() };
    let decide = move |_: &_, tokens: &[Option<Token>]| {
        let token = tokens.first().cloned().flatten().ok_or_else(|| no_token(&id))?;
        if token.revoked_at.is_some() {
            return Ok((Vec::new(), Revoked { token, unchanged: true }));
        }
        let token = Token { revoked_at: Some(now), ..token };
        let changes = vec![IdentityChange::Token(token.clone())];
        Ok((changes, Revoked { token, unchanged: false }))
    };
    of.change("token/revoke", now, looks, decide).await
}

/// A token and whether it counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub token: Token,
    pub state: State,
}

/// Does a token count?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Active,
    /// Why it does not.
    Denied(TokenError),
}

impl State {
    /// For programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Denied(why) => why.name(),
        }
    }
}

/// All tokens, the oldest first.
pub async fn list(of: &Administration) -> Result<Vec<Listed>> {
    let tokens = of.identities.tokens().await?;
    let users = of.identities.users().await?;
    let users: BTreeMap<String, User> =
        users.into_iter().map(|user| (user.name.key(), user)).collect();
    let now = of.clock.now();
    let listed = tokens.into_iter().map(|token| {
        let state = state(&token, users.get(&token.user.key()), now);
        Listed { token, state }
    });
    Ok(listed.collect())
}

/// What whoever shows this token is told.
fn state(token: &Token, user: Option<&User>, now: Timestamp) -> State {
    let holder = user.map(|user| TokenOwner { token: token.clone(), user: user.clone() });
    judge(holder.as_ref(), &token.digest, now).map_or_else(State::Denied, |()| State::Active)
}

fn new(of: &Administration) -> Result<PresentedToken> {
    let (id, secret) = (of.ids.letters(ID_LETTERS)?, of.ids.letters(SECRET_LETTERS)?);
    PresentedToken::new(&id, &secret).ok_or_else(|| {
        Error::new(ErrorKind::Internal, "No token could be made of what chance gave.")
    })
}

/// The projects, each once and in the order given, if all of them are configured.
fn configured(of: &Administration, projects: Vec<ProjectKey>) -> Result<Vec<ProjectKey>> {
    let mut found: Vec<ProjectKey> = Vec::new();
    for project in projects {
        if !of.projects.contains(&project) {
            let keys: Vec<&str> = of.projects.iter().map(ProjectKey::as_str).collect();
            let message = format!(
                "projects: there is no project {:?}; configured are {}. Further ones stand in \
                 reqlore.toml as [projects.KEY]",
                project.as_str().chars().take(100).collect::<String>(),
                keys.join(", ")
            );
            return Err(Error::new(ErrorKind::InvalidArgument, message).field("projects"));
        }
        if !found.contains(&project) {
            found.push(project);
        }
    }
    Ok(found)
}

fn check_enabled(user: &User) -> Result<()> {
    let Some(since) = user.disabled_at else { return Ok(()) };
    let User { name, .. } = user;
    let message = format!(
        "the user {name} is disabled since {}, so no token of theirs counts; add a user of another \
         name",
        since.rfc3339()
    );
    Err(Error::new(ErrorKind::Refused, message).field("user").reference(name.as_str()))
}

/// Among 62 to the power of 12 ids two are never the same by chance.
fn check_free(token: Option<&Option<Token>>) -> Result<()> {
    match token {
        Some(Some(there)) => {
            Err(refused(&there.id, "the id that chance gave is taken; try again".to_owned()))
        }
        _ => Ok(()),
    }
}

fn no_token(id: &TokenId) -> Error {
    let message = format!("there is no token {id}; `reqlore token list` shows all with their ids");
    Error::new(ErrorKind::NotFound, message).field("id").reference(id.as_str())
}

fn refused(id: &TokenId, message: String) -> Error {
    Error::new(ErrorKind::Refused, message).field("id").reference(id.as_str())
}
