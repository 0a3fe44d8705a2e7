//! Personal access tokens: their form, their stored form, and validation.
//!
//! A token is `reqlore_pat_<id 12>_<secret 32>_<crc 6>`, all base62. The id is public and
//! identifies the token in lists and in the audit log. The secret has 190 random bits, so one round
//! of SHA-256 is enough; a slow hash would only cost CPU time on every request. The checksum
//! rejects mistyped tokens without a lookup and helps secret scanners to avoid false positives.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq;

use super::user::{Access, User, UserName};
use crate::bounded_types::{named_enum, text_accessors};
use crate::project_key::ProjectKey;
use crate::timestamp::Timestamp;

pub const TOKEN_PREFIX: &str = "reqlore_pat_";
/// As long as [`TOKEN_PREFIX`].
pub const SESSION_PREFIX: &str = "reqlore_ses_";
pub const ID_LETTERS: usize = 12;
pub const SECRET_LETTERS: usize = 32;
const CHECK_LETTERS: usize = 6;
/// The letters of base62 in order of their values.
pub const BASE62_LETTERS: &[u8; 62] =
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Clock skew that is tolerated for new tokens.
const MAX_CLOCK_SKEW_SECONDS: i64 = 5 * 60;

/// The public part of a token: twelve base62 letters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct TokenId(Arc<str>);

impl TokenId {
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() == ID_LETTERS && is_base62(text) { Some(Self(text.into())) } else { None }
    }
}

text_accessors!([] TokenId);

impl TryFrom<String> for TokenId {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        Self::parse(&text).ok_or("the id of a token is 12 letters and digits")
    }
}

/// A whole token, including its secret. Only the digest of the secret is stored, and only
/// [`PresentedToken::reveal`] prints it.
#[derive(Clone, PartialEq, Eq)]
pub struct PresentedToken {
    /// [`TOKEN_PREFIX`] or [`SESSION_PREFIX`].
    prefix: &'static str,
    pub id: TokenId,
    secret: String,
}

impl PresentedToken {
    /// Creates a token from random base62 letters; `None` if a part has a wrong form.
    pub fn new(id: &str, secret: &str) -> Option<Self> {
        if secret.len() != SECRET_LETTERS || !is_base62(secret) {
            return None;
        }
        let id = TokenId::parse(id)?;
        Some(Self { prefix: TOKEN_PREFIX, id, secret: secret.to_owned() })
    }

    /// The secret of a session with these parts.
    #[must_use]
    pub fn for_session(self) -> Self {
        Self { prefix: SESSION_PREFIX, ..self }
    }

    /// Parses a personal access token and verifies its checksum.
    pub fn parse(text: &str) -> Option<Self> {
        let (token, checksum) = Self::parse_parts(text.strip_prefix(TOKEN_PREFIX)?)?;
        token.verify_checksum(checksum)
    }

    /// Parses the secret of a session and verifies its checksum.
    pub fn parse_session(text: &str) -> Option<Self> {
        let (token, checksum) = Self::parse_parts(text.strip_prefix(SESSION_PREFIX)?)?;
        token.for_session().verify_checksum(checksum)
    }

    fn parse_parts(text: &str) -> Option<(Self, &str)> {
        let (id, rest) = text.split_once('_')?;
        let (secret, checksum) = rest.split_once('_')?;
        Some((Self::new(id, secret)?, checksum))
    }

    fn verify_checksum(self, checksum: &str) -> Option<Self> {
        if self.checksum() == checksum { Some(self) } else { None }
    }

    /// The whole token. Shown to its owner once.
    pub fn reveal(&self) -> String {
        format!("{}{}", self.without_checksum(), self.checksum())
    }

    /// The stored form of the secret.
    pub fn digest(&self) -> TokenDigest {
        let mut hash = Sha256::new();
        // With the id, equal secrets of two tokens have different digests.
        hash.update(self.id.as_str());
        hash.update(&self.secret);
        TokenDigest(hash.finalize().into())
    }

    fn without_checksum(&self) -> String {
        format!("{}{}_{}_", self.prefix, self.id, self.secret)
    }

    /// CRC-32 of the rest of the token, in base62.
    fn checksum(&self) -> String {
        let mut rest = crc32fast::hash(self.without_checksum().as_bytes());
        let mut letters = [b'0'; CHECK_LETTERS];
        for letter in letters.iter_mut().rev() {
            *letter = BASE62_LETTERS[(rest % 62) as usize];
            rest /= 62;
        }
        String::from_utf8_lossy(&letters).into_owned()
    }
}

/// Returns the problem and the fix for a text that is not a well-formed token. Never quotes it.
pub fn describe_malformed(text: &str) -> Option<[&'static str; 2]> {
    if PresentedToken::parse(text).is_some() {
        return None;
    }
    let set_variable = "set the variable in the environment of the client, then restart the client";
    let is_own = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let is_name = |letter: char| is_own(letter) && !letter.is_ascii_lowercase();
    Some(if text.trim().is_empty() {
        ["is empty", set_variable]
    } else if text.starts_with(['$', '%', '{', '<', '[']) || text.chars().all(is_name) {
        ["is a variable that was not replaced", set_variable]
    } else if text.contains(['"', '\'', '`', '“', '”', '„', '‘', '’', '«', '»']) {
        ["has quotes", "send it without them"]
    } else if text.to_ascii_lowercase().contains("bearer") {
        ["has `Bearer` in it", "send `Bearer` once, and the token alone after it"]
    } else if !text.trim_start().starts_with(TOKEN_PREFIX) {
        ["does not begin with reqlore_pat_", "send one from `reqlore token create`"]
    } else if !text.chars().all(is_own) {
        ["contains invalid characters", "send only its letters, digits and `_`"]
    } else {
        ["is incomplete or mistyped", "copy all of it again"]
    })
}

impl fmt::Debug for PresentedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Derived output would print the secret in logs.
        write!(f, "{}{}_****", self.prefix, self.id)
    }
}

fn is_base62(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// SHA-256 of a token's id and secret.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TokenDigest(pub [u8; 32]);

impl TokenDigest {
    /// Compared for unknown tokens, so that validation takes the same time.
    const UNKNOWN: Self = Self([0; 32]);

    /// Compares in constant time.
    fn matches(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Debug for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("****")
    }
}

impl TryFrom<String> for TokenDigest {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        let mut digest = [0; 32];
        match hex::decode_to_slice(&text, &mut digest) {
            Ok(()) => Ok(Self(digest)),
            Err(_) => Err("a digest is 64 hexadecimal digits"),
        }
    }
}

impl From<TokenDigest> for String {
    fn from(digest: TokenDigest) -> Self {
        hex::encode(digest.0)
    }
}

/// A stored token, or the stored session of a browser.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    pub id: TokenId,
    pub user: UserName,
    pub digest: TokenDigest,
    /// The highest access level. The user's role may be lower.
    pub scope: Access,
    /// The projects in scope, the default one first; empty for all projects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub projects: Vec<ProjectKey>,
    pub created_at: Timestamp,
    /// The first invalid second.
    pub expires_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
    /// The token that replaced this one. The use of a replaced token may mean theft.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub successor: Option<TokenId>,
    /// Accurate to about a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<Timestamp>,
    /// The token that signed in, if this is a session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<TokenId>,
}

impl Token {
    /// True for the session of a browser, which no list or archive contains.
    pub fn is_session(&self) -> bool {
        self.parent.is_some()
    }

    /// True for a session that has expired or was signed out.
    pub fn is_ended_session(&self, now: Timestamp) -> bool {
        self.is_session() && (self.revoked_at.is_some() || self.expires_at <= now)
    }
}

/// A token and its user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenOwner {
    pub token: Token,
    pub user: User,
}

named_enum! {
    /// The reason why a token is invalid, named for the log and the audit. Callers learn only that
    /// a correct token has expired.
    TokenError {
        Missing = "missing",
        /// Not one of our tokens, several, or mistyped.
        Malformed = "malformed",
        /// Not a token of this installation.
        Unknown = "unknown",
        /// A known id with another secret.
        Wrong = "wrong_secret",
        Revoked = "revoked",
        Expired = "expired",
        /// Replaced by a successor some time ago.
        Retired = "retired",
        /// Created in the future: a clock is wrong.
        NotYetValid = "not_yet_valid",
        Disabled = "user_disabled",
        /// A token for metrics, which opens no page.
        MetricsOnly = "metrics_only",
    }
}

/// Validates a token by its [`PresentedToken::digest`]. Takes the same time for an unknown token.
pub fn verify_token(
    owner: Option<&TokenOwner>,
    digest: &TokenDigest,
    now: Timestamp,
) -> Result<(), TokenError> {
    let stored = owner.map_or(&TokenDigest::UNKNOWN, |owner| &owner.token.digest);
    let matches = stored.matches(digest);
    let Some(TokenOwner { token, user }) = owner else { return Err(TokenError::Unknown) };
    // First, so that only the owner of the secret learns the token's state.
    if !matches {
        return Err(TokenError::Wrong);
    }
    if token.revoked_at.is_some() {
        return Err(TokenError::Revoked);
    }
    // A replaced token expires early, which the log distinguishes.
    if token.expires_at <= now {
        let was_replaced = token.successor.is_some();
        return Err(if was_replaced { TokenError::Retired } else { TokenError::Expired });
    }
    if now.seconds() + MAX_CLOCK_SKEW_SECONDS < token.created_at.seconds() {
        return Err(TokenError::NotYetValid);
    }
    // Last: disabling a user must not change the reason of an expired token.
    if user.disabled_at.is_some() {
        return Err(TokenError::Disabled);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
