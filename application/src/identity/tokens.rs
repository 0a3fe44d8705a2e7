//! Creating, listing, revoking and rotating tokens.
//!
//! Only the command that creates a token shows it, once; storages keep its digest. Changes hold
//! from the next request of every server on the storage.

use std::collections::BTreeMap;
use std::fmt;

use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::token::{ID_LETTERS, SECRET_LETTERS, verify_token};
use reqlore_domain::identity::{
    Access, PresentedToken, Token, TokenError, TokenId, TokenOwner, User, UserName,
};
use reqlore_domain::ports::identity::IdentityChange;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;

use super::user_admin::{IdentityReadSet, UserAdmin, unknown_user};

#[derive(Debug, Clone)]
pub struct TokenRequest {
    pub user: UserName,
    pub scope: Access,
    /// The first is the default of a call that names none. An empty list means all projects.
    pub projects: Vec<ProjectKey>,
    pub lifetime: TokenLifetime,
}

/// A new token with its secret, which is not stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuedToken {
    pub presented: PresentedToken,
    pub token: Token,
    /// The role may allow less than the token's scope.
    pub user: User,
}

pub async fn create(of: &UserAdmin, wanted: TokenRequest) -> Result<IssuedToken> {
    let TokenRequest { user, scope, projects, lifetime } = wanted;
    let projects = check_projects(of, projects)?;
    let now = of.clock.now();
    let presented = generate_token(of)?;
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
    let reads = IdentityReadSet { users: vec![token.user.clone()], tokens: vec![token.id.clone()] };
    let decide = move |users: &[Option<User>], tokens: &[Option<Token>]| {
        let user = users.first().cloned().flatten().ok_or_else(|| unknown_user(&token.user))?;
        check_enabled(&user)?;
        check_unused(tokens.first())?;
        // With the stored case of the name.
        let token = Token { user: user.name.clone(), ..token.clone() };
        let issued = IssuedToken { presented: presented.clone(), token: token.clone(), user };
        Ok((vec![IdentityChange::Token(token)], issued))
    };
    of.commit_changes("token/create", now, reads, decide).await
}

/// Makes a successor of a valid token with the same user, scope, projects and lifetime. The old
/// token stays valid for `overlap`.
pub async fn rotate(of: &UserAdmin, id: TokenId, overlap: TokenLifetime) -> Result<IssuedToken> {
    let now = of.clock.now();
    let presented = generate_token(of)?;
    // The user of a token never changes, so it may be read before the commit.
    let known = of.identities.token_owner(&id).await?.ok_or_else(|| unknown_token(&id))?;
    let reads = IdentityReadSet {
        users: vec![known.user.name],
        tokens: vec![id.clone(), presented.id.clone()],
    };
    let decide = move |users: &[Option<User>], tokens: &[Option<Token>]| {
        let token = tokens.first().cloned().flatten().ok_or_else(|| unknown_token(&id))?;
        let user = users.first().cloned().flatten().ok_or_else(|| unknown_user(&token.user))?;
        check_unused(tokens.get(1))?;
        let owner = TokenOwner { token, user };
        check_can_rotate(&owner, now)?;
        let TokenOwner { token: old, user } = owner;
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
        let issued = IssuedToken { presented: presented.clone(), token: token.clone(), user };
        Ok((vec![IdentityChange::Token(retired), IdentityChange::Token(token)], issued))
    };
    of.commit_changes("token/rotate", now, reads, decide).await
}

fn check_can_rotate(owner: &TokenOwner, now: Timestamp) -> Result<()> {
    let TokenOwner { token, user } = owner;
    let Token { id, successor, .. } = token;
    if let Some(successor) = successor {
        let message = format!(
            "token {id} was rotated already; its successor is {successor}: rotate that one"
        );
        return Err(refused_error(id, message));
    }
    match token_state(token, Some(user), now) {
        TokenState::Active => Ok(()),
        TokenState::Denied(TokenError::Disabled) => check_enabled(user),
        TokenState::Denied(why) => {
            let message = format!(
                "token {id} does not count any more ({}), so nothing can take its place; `reqlore \
                 token create --user {}` makes a new one",
                why.name(),
                user.name
            );
            Err(refused_error(id, message))
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevokedToken {
    pub token: Token,
    pub unchanged: bool,
}

/// Revokes a token from the next request on.
pub async fn revoke(of: &UserAdmin, id: TokenId) -> Result<RevokedToken> {
    let now = of.clock.now();
    let reads = IdentityReadSet { tokens: vec![id.clone()], ..IdentityReadSet::default() };
    let decide = move |_: &_, tokens: &[Option<Token>]| {
        let token = tokens.first().cloned().flatten().ok_or_else(|| unknown_token(&id))?;
        if token.revoked_at.is_some() {
            return Ok((Vec::new(), RevokedToken { token, unchanged: true }));
        }
        let token = Token { revoked_at: Some(now), ..token };
        let changes = vec![IdentityChange::Token(token.clone())];
        Ok((changes, RevokedToken { token, unchanged: false }))
    };
    of.commit_changes("token/revoke", now, reads, decide).await
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenSummary {
    pub token: Token,
    pub state: TokenState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenState {
    Active,
    Denied(TokenError),
}

impl TokenState {
    pub fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Denied(why) => why.name(),
        }
    }
}

/// All tokens, the oldest first.
pub async fn list(of: &UserAdmin) -> Result<Vec<TokenSummary>> {
    let tokens = of.identities.tokens().await?;
    let users = of.identities.users().await?;
    let users: BTreeMap<String, User> =
        users.into_iter().map(|user| (user.name.key(), user)).collect();
    let now = of.clock.now();
    let listed = tokens.into_iter().map(|token| {
        let state = token_state(&token, users.get(&token.user.key()), now);
        TokenSummary { token, state }
    });
    Ok(listed.collect())
}

/// The answer of a server to this token.
fn token_state(token: &Token, user: Option<&User>, now: Timestamp) -> TokenState {
    let owner = user.map(|user| TokenOwner { token: token.clone(), user: user.clone() });
    verify_token(owner.as_ref(), &token.digest, now)
        .map_or_else(TokenState::Denied, |()| TokenState::Active)
}

fn generate_token(of: &UserAdmin) -> Result<PresentedToken> {
    let (id, secret) = (of.ids.letters(ID_LETTERS)?, of.ids.letters(SECRET_LETTERS)?);
    PresentedToken::new(&id, &secret).ok_or_else(|| {
        Error::new(ErrorKind::Internal, "No token could be made of what chance gave.")
    })
}

/// The projects, each once and in the given order. All must be configured.
fn check_projects(of: &UserAdmin, projects: Vec<ProjectKey>) -> Result<Vec<ProjectKey>> {
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

/// Rejects an id that is in use. Random ids are never equal in practice.
fn check_unused(token: Option<&Option<Token>>) -> Result<()> {
    match token {
        Some(Some(there)) => {
            Err(refused_error(&there.id, "the id that chance gave is taken; try again".to_owned()))
        }
        _ => Ok(()),
    }
}

fn unknown_token(id: &TokenId) -> Error {
    let message = format!("there is no token {id}; `reqlore token list` shows all with their ids");
    Error::new(ErrorKind::NotFound, message).field("id").reference(id.as_str())
}

fn refused_error(id: &TokenId, message: String) -> Error {
    Error::new(ErrorKind::Refused, message).field("id").reference(id.as_str())
}

/// Units of time in seconds, the longest first.
const UNITS: [(char, u32); 4] = [('d', 24 * 60 * 60), ('h', 60 * 60), ('m', 60), ('s', 1)];

/// A length of time in whole seconds, at most 366 days.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct TokenLifetime(u32);

impl TokenLifetime {
    pub const USUAL: Self = Self::days(90);
    pub const LONGEST: Self = Self::days(366);
    /// The longest time that a token stays valid after its rotation.
    pub const LONGEST_OVERLAP: Self = Self::days(1);

    const fn days(days: u32) -> Self {
        Self(days * 24 * 60 * 60)
    }

    /// Reads a number with its unit.
    pub fn parse(text: &str) -> Result<Self, String> {
        let unit =
            UNITS.iter().find_map(|(unit, seconds)| Some((text.strip_suffix(*unit)?, seconds)));
        let digits = unit.filter(|(digits, _)| digits.bytes().all(|byte| byte.is_ascii_digit()));
        let read =
            digits.and_then(|(digits, seconds)| Some((digits.parse::<u64>().ok()?, seconds)));
        let Some((count, seconds)) = read else {
            let form =
                "write a number and s, m, h or d for seconds, minutes, hours or days, like 90d";
            return Err(form.to_owned());
        };
        let seconds = count.saturating_mul(u64::from(*seconds));
        let fits = u32::try_from(seconds).ok().map(Self).filter(|length| *length <= Self::LONGEST);
        fits.ok_or_else(|| format!("at most {}", Self::LONGEST))
    }

    /// Reads the lifetime of a token, at least one second.
    pub fn of_token(text: &str) -> Result<Self, String> {
        let length = Self::parse(text)?;
        if length.0 == 0 {
            return Err("a token counts at least 1s".to_owned());
        }
        Ok(length)
    }

    /// Reads the overlap of a rotation, at most a day.
    pub fn of_overlap(text: &str) -> Result<Self, String> {
        let length = Self::parse(text)?;
        if length > Self::LONGEST_OVERLAP {
            return Err("at most 24h".to_owned());
        }
        Ok(length)
    }

    pub fn after(self, time: Timestamp) -> Timestamp {
        Timestamp::new(time.seconds() + i64::from(self.0), time.nanoseconds())
    }
}

impl fmt::Display for TokenLifetime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = UNITS.iter().find(|(_, seconds)| self.0 > 0 && self.0.is_multiple_of(*seconds));
        let (unit, seconds) = whole.unwrap_or(&('s', 1));
        write!(f, "{}{unit}", self.0 / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Rulings 7: durations `1s`, `2h`, `90d`; at most 366 days
    #[test]
    fn a_length_is_a_number_with_a_unit_between_its_bounds() {
        for (text, seconds) in
            [("1s", 1), ("15m", 900), ("2h", 7_200), ("90d", 7_776_000), ("366d", 31_622_400)]
        {
            assert_eq!(TokenLifetime::of_token(text), Ok(TokenLifetime(seconds)), "{text}");
            assert_eq!(TokenLifetime(seconds).to_string(), text);
        }
        let wrong =
            " |d|90|0s|-1d|+1d|1.5h|1w|1 d|367d|31622401s|9D|99999999999999999999d|\u{661}d";
        for wrong in wrong.split('|').chain([""]) {
            assert!(TokenLifetime::of_token(wrong).is_err(), "{wrong}");
        }
        assert_eq!(TokenLifetime::of_overlap("24h"), Ok(TokenLifetime::LONGEST_OVERLAP));
        assert_eq!(TokenLifetime::of_overlap("0s"), Ok(TokenLifetime::default()));
        assert!(TokenLifetime::of_overlap("86401s").is_err());
        assert_eq!(TokenLifetime(90).after(Timestamp::new(10, 7)), Timestamp::new(100, 7));
    }
}
