//! What users are to the server (rulings 7).

use std::fmt;

use serde::{Deserialize, Serialize};

use super::access::Access;

/// A user's role, which their tokens may narrow and never widen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Everything, also the server's figures.
    Administrator,
    /// Reads and writes.
    User,
    /// Reads.
    Commenter,
}

impl Role {
    pub const ALL: [Self; 3] = [Self::Administrator, Self::User, Self::Commenter];

    pub fn name(self) -> &'static str {
        match self {
            Self::Administrator => "administrator",
            Self::User => "user",
            Self::Commenter => "commenter",
        }
    }

    /// Reads what [`Role::name`] says, in any case.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name().eq_ignore_ascii_case(text))
    }

    pub fn access(self) -> Access {
        match self {
            Self::Administrator | Self::User => Access::Write,
            Self::Commenter => Access::Read,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
