//! Users, their roles and access levels.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::bounded_types::{named_enum, text_accessors};
use crate::timestamp::Timestamp;

named_enum! {
    /// The access level of a tool or a caller. A higher level includes the lower ones.
    #[derive(PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    Access {
        /// Reads the server's metrics and nothing else. No tool has this level.
        Metrics = "metrics",
        Read = "read",
        Write = "write",
    }
}

named_enum! {
    /// A user's role. Tokens may narrow it and never widen it.
    #[derive(Hash, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    UserRole {
        /// Reads, writes and sees the server's metrics.
        Administrator = "administrator",
        User = "user",
        Commenter = "commenter",
    }
}

impl UserRole {
    /// Parses a [`UserRole::name`]. Ignores case.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name().eq_ignore_ascii_case(text))
    }

    /// The highest access level of the role.
    pub fn max_access(self) -> Access {
        match self {
            Self::Administrator | Self::User => Access::Write,
            Self::Commenter => Access::Read,
        }
    }
}

impl fmt::Display for UserRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A user's name: 1 to 64 ASCII letters, digits, `.`, `_`, `@`, `+` and `-`, beginning with a
/// letter or digit. Names that differ only in case name the same user.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct UserName(Arc<str>);

impl UserName {
    const MAX_CHARS: usize = 64;

    pub fn parse(text: &str) -> Result<Self, String> {
        let is_valid = text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.len() <= Self::MAX_CHARS
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._@+-".contains(&byte));
        if is_valid {
            return Ok(Self(text.into()));
        }
        Err(format!(
            "{:?} is not a user name; use 1 to {} ASCII letters, digits, '.', '_', '@', '+' and \
             '-', beginning with a letter or digit",
            // The text is untrusted and may be long.
            text.chars().take(80).collect::<String>(),
            Self::MAX_CHARS
        ))
    }

    /// The key of the user in storages, equal for names that differ only in case.
    pub fn key(&self) -> String {
        self.0.to_ascii_lowercase()
    }
}

text_accessors!([] UserName);

impl TryFrom<String> for UserName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
    }
}

/// A user, who owns tokens. Users are disabled and never removed, because the audit log names them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    pub name: UserName,
    pub role: UserRole,
    pub created_at: Timestamp,
    /// The tokens of a disabled user are invalid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled_at: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_name_with_invalid_character_or_length_is_rejected() {
        let longest = "x".repeat(64);
        for good in ["a", "Ada", "ada.l@example.org", "ci-bot_2", "0", longest.as_str()] {
            assert_eq!(UserName::parse(good).unwrap().as_str(), good);
        }
        let long = "x".repeat(65);
        for bad in ["", " ", "-a", ".a", "a b", "a/b", "\u{e4}", "a\n", "a\0", long.as_str()] {
            assert!(UserName::parse(bad).is_err(), "{bad:?}");
        }
        assert_eq!(UserName::parse("Ada").unwrap().key(), UserName::parse("aDA").unwrap().key());
    }
}
