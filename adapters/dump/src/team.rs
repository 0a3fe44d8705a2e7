//! The lines of users, tokens and rows of the audit.
//!
//! A token's line holds the digest of its secret, which is of no use to whoever reads it; nobody
//! keeps the secret itself. The trap: a row's text is what was sealed, so it is written word for
//! word, as a string.

use std::borrow::Cow;

use reqlore_domain::audit::{AuditRow, Hash};
use reqlore_domain::identity::{Access, Digest, Role, Token, TokenId, User, UserName};
use reqlore_domain::project::ProjectKey;
use reqlore_domain::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::line::{parsed, time_as_text, time_from_text, write_line};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct UserLine<'a> {
    user: Cow<'a, str>,
    role: Cow<'a, str>,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    disabled_at: Option<String>,
}

pub(crate) fn encode_user(user: &User, line: &mut Vec<u8>) -> Result<(), String> {
    let User { name, role, created_at, disabled_at } = user;
    let written = UserLine {
        user: name.as_str().into(),
        role: role.name().into(),
        created_at: time_as_text(*created_at)?,
        disabled_at: disabled_at.map(time_as_text).transpose()?,
    };
    write_line(&written, line)
}

pub(crate) fn decode_user(line: &[u8]) -> Result<User, String> {
    let UserLine { user, role, created_at, disabled_at } = parsed(line)?;
    let known = Role::ALL.into_iter().find(|known| known.name() == role);
    Ok(User {
        name: UserName::parse(&user)?,
        role: known.ok_or_else(|| format!("unknown role {role:?}"))?,
        created_at: time_from_text(&created_at)?,
        disabled_at: optional(disabled_at.as_deref())?,
    })
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenLine<'a> {
    token: Cow<'a, str>,
    user: Cow<'a, str>,
    digest: Cow<'a, str>,
    scope: Cow<'a, str>,
    /// None means all.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    projects: Vec<Cow<'a, str>>,
    created_at: String,
    expires_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    successor: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_used_at: Option<String>,
}

pub(crate) fn encode_token(token: &Token, line: &mut Vec<u8>) -> Result<(), String> {
    let written = TokenLine {
        token: token.id.as_str().into(),
        user: token.user.as_str().into(),
        digest: String::from(token.digest).into(),
        scope: token.scope.name().into(),
        projects: token.projects.iter().map(|project| project.as_str().into()).collect(),
        created_at: time_as_text(token.created_at)?,
        expires_at: time_as_text(token.expires_at)?,
        revoked_at: token.revoked_at.map(time_as_text).transpose()?,
        successor: token.successor.as_ref().map(|successor| successor.as_str().into()),
        last_used_at: token.last_used_at.map(time_as_text).transpose()?,
    };
    write_line(&written, line)
}

pub(crate) fn decode_token(line: &[u8]) -> Result<Token, String> {
    let line: TokenLine = parsed(line)?;
    let scope = Access::ALL.into_iter().find(|known| known.name() == line.scope);
    Ok(Token {
        id: token_id(&line.token)?,
        user: UserName::parse(&line.user)?,
        digest: Digest::try_from(line.digest.into_owned())?,
        scope: scope.ok_or_else(|| format!("unknown scope {:?}", line.scope))?,
        projects: line.projects.iter().map(|project| ProjectKey::new(&**project)).collect(),
        created_at: time_from_text(&line.created_at)?,
        expires_at: time_from_text(&line.expires_at)?,
        revoked_at: optional(line.revoked_at.as_deref())?,
        successor: line.successor.as_deref().map(token_id).transpose()?,
        last_used_at: optional(line.last_used_at.as_deref())?,
    })
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RowLine<'a> {
    audit: u64,
    hash: Cow<'a, str>,
    text: Cow<'a, str>,
}

pub(crate) fn encode_row(row: &AuditRow, line: &mut Vec<u8>) -> Result<(), String> {
    let AuditRow { number, hash, text } = row;
    let written = RowLine { audit: *number, hash: hash.to_string().into(), text: (&**text).into() };
    write_line(&written, line)
}

pub(crate) fn decode_row(line: &[u8]) -> Result<AuditRow, String> {
    let RowLine { audit: number, hash, text } = parsed(line)?;
    let hash = Hash::try_from(hash.into_owned())?;
    Ok(AuditRow { number, hash, text: text.into() })
}

fn token_id(text: &str) -> Result<TokenId, String> {
    TokenId::try_from(text.to_owned()).map_err(str::to_owned)
}

fn optional(time: Option<&str>) -> Result<Option<Timestamp>, String> {
    time.map(time_from_text).transpose()
}
