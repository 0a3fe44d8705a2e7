//! Creates, lists, revokes and rotates tokens.
//!
//! A token is shown once, when it is created; storages have only its digest. Every server on the
//! storage applies a change from its next request on.

use std::collections::BTreeMap;
use std::fmt;

use reqlore_domain::bounded_types::truncate_echo;
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
    /// The first one is the default project. An empty list means all projects.
    pub projects: Vec<ProjectKey>,
    pub lifetime: TokenLifetime,
}

/// A new token with its secret, which cannot be read again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuedToken {
    pub presented: PresentedToken,
    pub token: Token,
    /// The owner, whose role may allow less than the token's scope.
    pub user: User,
}

/// Creates a token. The user must be enabled and the projects configured.
pub async fn create_token(admin: &UserAdmin, request: TokenRequest) -> Result<IssuedToken> {
    let TokenRequest { user, scope, projects, lifetime } = request;
    let projects = check_projects(admin, projects)?;
    let now = admin.clock.now();
    let presented = generate_token(admin)?;
    let token = Token {
        id: presented.id.clone(),
        user,
        digest: presented.digest(),
        scope,
        projects,
        created_at: now,
        expires_at: lifetime.end_after(now),
        revoked_at: None,
        successor: None,
        last_used_at: None,
        parent: None,
    };
    let reads = IdentityReadSet { users: vec![token.user.clone()], tokens: vec![token.id.clone()] };
    let decide = move |users: &[Option<User>], tokens: &[Option<Token>]| {
        let user = users.first().cloned().flatten().ok_or_else(|| unknown_user(&token.user))?;
        check_enabled(&user)?;
        check_unused(tokens.first())?;
        // The request may spell the name in a different case.
        let token = Token { user: user.name.clone(), ..token.clone() };
        let issued = IssuedToken { presented: presented.clone(), token: token.clone(), user };
        Ok((vec![IdentityChange::Token(token)], issued))
    };
    admin.commit_changes("token/create", now, reads, decide).await
}

/// Replaces a valid token by a new one with the same user, scope, projects and lifetime.
///
/// The old token stays valid for `overlap`, but not beyond its own end.
pub async fn rotate_token(
    admin: &UserAdmin,
    id: TokenId,
    overlap: TokenLifetime,
) -> Result<IssuedToken> {
    let now = admin.clock.now();
    let presented = generate_token(admin)?;
    // The user of a token never changes, so it may be read before the commit.
    let owner = admin.identities.token_owner(&id).await?.ok_or_else(|| unknown_token(&id))?;
    let reads = IdentityReadSet {
        users: vec![owner.user.name],
        tokens: vec![id.clone(), presented.id.clone()],
    };
    let decide = move |users: &[Option<User>], tokens: &[Option<Token>]| {
        let token = tokens.first().cloned().flatten().ok_or_else(|| unknown_token(&id))?;
        let user = users.first().cloned().flatten().ok_or_else(|| unknown_user(&token.user))?;
        check_unused(tokens.get(1))?;
        let owner = TokenOwner { token, user };
        check_can_rotate(&owner, now)?;
        let TokenOwner { token: old, user } = owner;
        // The same length as before, from now on.
        let length = old.expires_at.0.saturating_sub(old.created_at.0);
        let token = Token {
            id: presented.id.clone(),
            digest: presented.digest(),
            created_at: now,
            expires_at: Timestamp(now.0.saturating_add(length)),
            last_used_at: None,
            ..old.clone()
        };
        // The successor marks the old token as rotated: its use is reported as a possible theft.
        let retired = Token {
            // A rotation must never extend the life of the old secret.
            expires_at: old.expires_at.min(overlap.end_after(now)),
            successor: Some(token.id.clone()),
            ..old
        };
        let issued = IssuedToken { presented: presented.clone(), token: token.clone(), user };
        Ok((vec![IdentityChange::Token(retired), IdentityChange::Token(token)], issued))
    };
    admin.commit_changes("token/rotate", now, reads, decide).await
}

fn check_can_rotate(owner: &TokenOwner, now: Timestamp) -> Result<()> {
    let TokenOwner { token, user } = owner;
    let Token { id, successor, .. } = token;
    // The session of a browser has no secret that its user could replace.
    if token.is_session() {
        return Err(unknown_token(id));
    }
    if let Some(successor) = successor {
        let message =
            format!("token {id} was already rotated; rotate its successor {successor} instead");
        return Err(refused_error(id, message));
    }
    match token_state(token, Some(user), now) {
        TokenState::Active => Ok(()),
        // Its message names the user and the time.
        TokenState::Denied(TokenError::Disabled) => check_enabled(user),
        TokenState::Denied(reason) => {
            let message = format!(
                "token {id} is not valid ({}); create a new one with `reqlore token create \
                 --user {}`",
                reason.name(),
                user.name
            );
            Err(refused_error(id, message))
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevokedToken {
    pub token: Token,
    /// True if the token was revoked before.
    pub unchanged: bool,
}

/// Revokes a token. Servers reject it from their next request on.
pub async fn revoke_token(admin: &UserAdmin, id: TokenId) -> Result<RevokedToken> {
    let now = admin.clock.now();
    let reads = IdentityReadSet { tokens: vec![id.clone()], ..IdentityReadSet::default() };
    let decide = move |_: &_, tokens: &[Option<Token>]| {
        let token = tokens.first().cloned().flatten().ok_or_else(|| unknown_token(&id))?;
        if token.revoked_at.is_some() {
            // The first time stays: it says since when the token is invalid.
            return Ok((Vec::new(), RevokedToken { token, unchanged: true }));
        }
        let token = Token { revoked_at: Some(now), ..token };
        let changes = vec![IdentityChange::Token(token.clone())];
        Ok((changes, RevokedToken { token, unchanged: false }))
    };
    admin.commit_changes("token/revoke", now, reads, decide).await
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
            Self::Denied(reason) => reason.name(),
        }
    }
}

/// Lists all tokens with their states, the oldest first.
pub async fn list_tokens(admin: &UserAdmin) -> Result<Vec<TokenSummary>> {
    let tokens = admin.identities.list_tokens().await?;
    let mut users = BTreeMap::new();
    for user in admin.identities.list_users().await? {
        users.insert(user.name.key(), user);
    }
    let now = admin.clock.now();
    let mut summaries = Vec::with_capacity(tokens.len());
    for token in tokens {
        let state = token_state(&token, users.get(&token.user.key()), now);
        summaries.push(TokenSummary { token, state });
    }
    Ok(summaries)
}

/// Returns the result that a server would get for this token.
fn token_state(token: &Token, user: Option<&User>, now: Timestamp) -> TokenState {
    let owner = user.map(|user| TokenOwner { token: token.clone(), user: user.clone() });
    // The stored digest stands for the secret, which is not known here.
    match verify_token(owner.as_ref(), &token.digest, now) {
        Ok(()) => TokenState::Active,
        Err(error) => TokenState::Denied(error),
    }
}

pub(super) fn generate_token(admin: &UserAdmin) -> Result<PresentedToken> {
    let (id, secret) =
        (admin.ids.random_letters(ID_LETTERS)?, admin.ids.random_letters(SECRET_LETTERS)?);
    PresentedToken::new(&id, &secret).ok_or_else(|| {
        Error::new(ErrorKind::Internal, "The random token has an invalid format; try again.")
    })
}

/// Removes duplicates. An unconfigured project is an error.
fn check_projects(admin: &UserAdmin, projects: Vec<ProjectKey>) -> Result<Vec<ProjectKey>> {
    let mut unique: Vec<ProjectKey> = Vec::new();
    for project in projects {
        if !admin.projects.contains(&project) {
            let keys: Vec<&str> = admin.projects.iter().map(ProjectKey::as_str).collect();
            // The name is an argument of unknown length.
            let name = truncate_echo(project.as_str());
            let message = format!(
                "projects: {name:?} is not configured (configured: {}); add it to reqlore.toml as \
                 [projects.KEY]",
                keys.join(", ")
            );
            return Err(Error::new(ErrorKind::InvalidArgument, message).field("projects"));
        }
        if !unique.contains(&project) {
            unique.push(project);
        }
    }
    Ok(unique)
}

fn check_enabled(user: &User) -> Result<()> {
    let Some(since) = user.disabled_at else { return Ok(()) };
    let User { name, .. } = user;
    let message = format!(
        "user {name} has been disabled since {} and cannot have tokens; run `reqlore user enable \
         {name}` first",
        since.to_rfc3339()
    );
    Err(Error::new(ErrorKind::Refused, message).field("user").reference(name.as_str()))
}

/// Rejects a random id that is in use, which practically never happens.
pub(super) fn check_unused(token: Option<&Option<Token>>) -> Result<()> {
    match token {
        Some(Some(existing)) => {
            Err(refused_error(&existing.id, "the random id is in use; try again".to_owned()))
        }
        _ => Ok(()),
    }
}

pub(super) fn unknown_token(id: &TokenId) -> Error {
    let message = format!("token {id} does not exist; `reqlore token list` shows all token ids");
    Error::new(ErrorKind::NotFound, message).field("id").reference(id.as_str())
}

fn refused_error(id: &TokenId, message: String) -> Error {
    Error::new(ErrorKind::Refused, message).field("id").reference(id.as_str())
}

/// Units of time and their seconds, the longest first.
const UNITS: [(char, u32); 4] = [('d', 24 * 60 * 60), ('h', 60 * 60), ('m', 60), ('s', 1)];

/// A duration in whole seconds, at most 366 days.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct TokenLifetime(u32);

impl TokenLifetime {
    pub const DEFAULT: Self = Self::days(90);
    pub const MAX: Self = Self::days(366);
    /// Maximum time that a token stays valid after its rotation.
    pub const MAX_OVERLAP: Self = Self::days(1);

    const fn days(days: u32) -> Self {
        Self(days * 24 * 60 * 60)
    }

    /// Parses a number with a unit, such as `90d`. The error states the accepted form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let Some(seconds) = parse_seconds(text) else {
            return Err("write a number and a unit (s, m, h or d), for example 90d".to_owned());
        };
        match u32::try_from(seconds) {
            Ok(seconds) if Self(seconds) <= Self::MAX => Ok(Self(seconds)),
            _ => Err(format!("the duration must be at most {}", Self::MAX)),
        }
    }

    /// Parses the lifetime of a token, at least one second.
    pub fn parse_lifetime(text: &str) -> Result<Self, String> {
        let lifetime = Self::parse(text)?;
        if lifetime.0 == 0 {
            return Err("the lifetime must be at least 1s".to_owned());
        }
        Ok(lifetime)
    }

    /// Parses the overlap of a rotation, at most a day.
    pub fn parse_overlap(text: &str) -> Result<Self, String> {
        let overlap = Self::parse(text)?;
        if overlap > Self::MAX_OVERLAP {
            return Err("the overlap must be at most 24h".to_owned());
        }
        Ok(overlap)
    }

    /// Returns the end of a lifetime that begins at `start`.
    pub fn end_after(self, start: Timestamp) -> Timestamp {
        Timestamp::new(start.seconds() + i64::from(self.0), start.nanoseconds())
    }
}

impl fmt::Display for TokenLifetime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, seconds) in UNITS {
            if self.0 > 0 && self.0.is_multiple_of(seconds) {
                return write!(f, "{}{unit}", self.0 / seconds);
            }
        }
        f.write_str("0s")
    }
}

fn parse_seconds(text: &str) -> Option<u64> {
    let unit = text.chars().next_back()?;
    let (_, unit_seconds) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
    let digits = text.strip_suffix(unit)?;
    // `u64::from_str` would accept a leading plus sign.
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    Some(count.saturating_mul(u64::from(unit_seconds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Durations such as `1s`, `2h` and `90d`, at most 366 days.
    #[test]
    fn token_lifetime_text_is_a_number_with_unit_in_range() {
        for (text, seconds) in
            [("1s", 1), ("15m", 900), ("2h", 7_200), ("90d", 7_776_000), ("366d", 31_622_400)]
        {
            assert_eq!(TokenLifetime::parse_lifetime(text), Ok(TokenLifetime(seconds)), "{text}");
            assert_eq!(TokenLifetime(seconds).to_string(), text);
        }
        let invalid =
            " |d|90|0s|-1d|+1d|1.5h|1w|1 d|367d|31622401s|9D|99999999999999999999d|\u{661}d";
        for text in invalid.split('|').chain([""]) {
            assert!(TokenLifetime::parse_lifetime(text).is_err(), "{text}");
        }
        assert_eq!(TokenLifetime::parse_overlap("24h"), Ok(TokenLifetime::MAX_OVERLAP));
        assert_eq!(TokenLifetime::parse_overlap("0s"), Ok(TokenLifetime::default()));
        assert!(TokenLifetime::parse_overlap("86401s").is_err());
        assert_eq!(TokenLifetime(90).end_after(Timestamp::new(10, 7)), Timestamp::new(100, 7));
    }
}
