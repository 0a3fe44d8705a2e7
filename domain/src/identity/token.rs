//! Personal access tokens: what is shown, what is kept, and when one counts (S5 4; reliability 4).
//!
//! `reqlore_pat_<id 12>_<secret 32>_<crc 6>`, all base62. The id is public and names the token in
//! lists and in the audit. The secret has 190 bits of chance, so one round of SHA-256 keeps it: a
//! slow hash protects secrets that can be guessed, and would only give strangers work to ask for.
//! The last six characters are a checksum of what stands before them, so what was mistyped is
//! refused without a look-up, and scanners for leaked secrets find no false ones.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq;

use super::{Access, User, UserName};
use crate::project::ProjectKey;
use crate::time::Timestamp;

/// What every token begins with.
pub const PREFIX: &str = "reqlore_pat_";
/// How many letters an id has.
pub const ID_LETTERS: usize = 12;
/// How many letters a secret has.
pub const SECRET_LETTERS: usize = 32;
const CHECK_LETTERS: usize = 6;
/// The letters of base62, worth their place.
pub const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// A clock that was set back this far makes a token "not yet valid" and no further.
const SLACK: i64 = 5 * 60;

/// The public part of a token: twelve letters of base62.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct TokenId(Arc<str>);

impl TokenId {
    pub fn parse(text: &str) -> Option<Self> {
        (text.len() == ID_LETTERS && is_base62(text)).then(|| Self(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for TokenId {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        Self::parse(&text).ok_or("the id of a token is 12 letters and digits")
    }
}

/// A token as its owner has it. Only the digest of its secret is ever kept; nothing here prints it
/// but [`PresentedToken::reveal`].
#[derive(Clone, PartialEq, Eq)]
pub struct PresentedToken {
    pub id: TokenId,
    secret: String,
}

impl PresentedToken {
    /// A new token of letters of base62 that nobody can guess; `None` if they are none.
    pub fn new(id: &str, secret: &str) -> Option<Self> {
        let fits = secret.len() == SECRET_LETTERS && is_base62(secret);
        TokenId::parse(id).filter(|_| fits).map(|id| Self { id, secret: secret.to_owned() })
    }

    /// Reads a token; `None` for everything that can't be one.
    pub fn parse(text: &str) -> Option<Self> {
        let (id, rest) = text.strip_prefix(PREFIX)?.split_once('_')?;
        let (secret, check) = rest.split_once('_')?;
        let presented = Self::new(id, secret)?;
        (presented.check() == check).then_some(presented)
    }

    /// The whole token, for its owner alone, once.
    pub fn reveal(&self) -> String {
        format!("{}{}", self.body(), self.check())
    }

    /// What is kept of it.
    pub fn digest(&self) -> Digest {
        let mut hash = Sha256::new();
        hash.update(self.id.as_str());
        hash.update(&self.secret);
        Digest(hash.finalize().into())
    }

    fn body(&self) -> String {
        format!("{PREFIX}{}_{}_", self.id, self.secret)
    }

    /// CRC-32 of everything before it, in base62.
    fn check(&self) -> String {
        let mut rest = crc32fast::hash(self.body().as_bytes());
        let mut letters = [b'0'; CHECK_LETTERS];
        for letter in letters.iter_mut().rev() {
            *letter = LETTERS[(rest % 62) as usize];
            rest /= 62;
        }
        String::from_utf8_lossy(&letters).into_owned()
    }
}

impl fmt::Debug for PresentedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}_****", self.id)
    }
}

fn is_base62(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// SHA-256 of a token's id and secret. Of no use to whoever steals it.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// No secret has it; compared with where there is no token, so that this takes as long.
    const NONE: Self = Self([0; 32]);

    /// In a time that does not depend on where they differ.
    fn equals(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("****")
    }
}

impl TryFrom<String> for Digest {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        let mut digest = [0; 32];
        let read = hex::decode_to_slice(&text, &mut digest);
        read.map(|()| Self(digest)).map_err(|_| "a digest is 64 hexadecimal digits")
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        hex::encode(digest.0)
    }
}

/// A token as storages keep it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    pub id: TokenId,
    /// Whose it is.
    pub user: UserName,
    pub digest: Digest,
    /// What it allows at most, whatever the role.
    pub scope: Access,
    /// The projects that it is good for, the default one first; none means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub projects: Vec<ProjectKey>,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
    /// The token that took its place; whoever shows this one after its end has an old copy, or
    /// stole it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub successor: Option<TokenId>,
    /// To the minute or so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<Timestamp>,
}

/// A token with the user that it stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenOwner {
    pub token: Token,
    pub user: User,
}

/// Why a token does not count. Callers are told only whether it is expired, and that only if it is
/// the right one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenError {
    /// No token at all.
    Missing,
    /// No token of ours, more than one, or mistyped.
    Malformed,
    /// None of this installation.
    Unknown,
    /// A known id with another secret.
    Wrong,
    Revoked,
    Expired,
    /// A successor took its place some time ago.
    Retired,
    /// It was made in the future: a clock is wrong.
    NotYetValid,
    /// Its user is disabled.
    Disabled,
}

impl TokenError {
    /// For the log and the audit.
    pub fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Malformed => "malformed",
            Self::Unknown => "unknown",
            Self::Wrong => "wrong_secret",
            Self::Revoked => "revoked",
            Self::Expired => "expired",
            Self::Retired => "retired",
            Self::NotYetValid => "not_yet_valid",
            Self::Disabled => "user_disabled",
        }
    }
}

/// Does this token count now? `digest` is [`PresentedToken::digest`], which the caller may have kept. It
/// takes as long for a token that is not there.
pub fn judge(
    holder: Option<&TokenOwner>,
    digest: &Digest,
    now: Timestamp,
) -> Result<(), TokenError> {
    let kept = holder.map_or(&Digest::NONE, |holder| &holder.token.digest);
    let matches = kept.equals(digest);
    let Some(TokenOwner { token, user }) = holder else { return Err(TokenError::Unknown) };
    if !matches {
        return Err(TokenError::Wrong);
    }
    if token.revoked_at.is_some() {
        return Err(TokenError::Revoked);
    }
    if token.expires_at <= now {
        let retired = token.successor.is_some();
        return Err(if retired { TokenError::Retired } else { TokenError::Expired });
    }
    if now.seconds() + SLACK < token.created_at.seconds() {
        return Err(TokenError::NotYetValid);
    }
    if user.disabled_at.is_some() {
        return Err(TokenError::Disabled);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
