//! Users of a server.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::role::Role;
use crate::time::Timestamp;

/// A user's name, as creators, assignees and the audit show it.
///
/// 1 to 64 ASCII letters, digits, `.`, `_`, `@`, `+` and `-`, the first a letter or a digit. Two
/// names that differ only in case are one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct UserName(Arc<str>);

impl UserName {
    const MOST: usize = 64;

    pub fn parse(text: &str) -> Result<Self, String> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._@+-".contains(&byte);
        let starts = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
        if starts && text.len() <= Self::MOST && text.bytes().all(is_plain) {
            return Ok(Self(text.into()));
        }
        Err(format!(
            "{:?} is no user name: it has 1 to {} letters, digits, '.', '_', '@', '+' and '-' of \
             ASCII, and starts with a letter or a digit",
            text.chars().take(80).collect::<String>(),
            Self::MOST
        ))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What storages find it by: equal for names that differ only in case.
    pub fn key(&self) -> String {
        self.0.to_ascii_lowercase()
    }
}

impl fmt::Display for UserName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for UserName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
    }
}

impl From<UserName> for String {
    fn from(name: UserName) -> Self {
        name.0.as_ref().to_owned()
    }
}

/// A person or a program that has tokens. Nobody is ever removed, so that what they did keeps a
/// name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    pub name: UserName,
    pub role: Role,
    pub created_at: Timestamp,
    /// Since when none of the user's tokens counts any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled_at: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_plain_and_bounded() {
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
