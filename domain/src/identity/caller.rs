//! The one on whose behalf a call is made, and how far that goes.

use super::access::Access;
use super::role::Role;
use super::token::TokenId;
use crate::project::ProjectKey;

/// The one on whose behalf a call is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The user's name, as creators and the audit show it.
    pub name: String,
    pub role: Role,
    /// What role, token and server allow together.
    pub access: Access,
    /// The token that was shown; none of the local person.
    pub token: Option<TokenId>,
    pub reach: ProjectScope,
    /// The project of whatever names none (rulings 1). It is within reach.
    pub project: ProjectKey,
}

/// Which projects a caller gets at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProjectScope {
    /// Folders too, as far as the server's roots allow: the local person.
    Anywhere,
    /// Every project that is configured, and the default one.
    Configured,
    /// These of them.
    Only(Vec<ProjectKey>),
}

impl ProjectScope {
    /// Does it include this project, if it is one that has a key?
    pub fn includes(&self, project: &ProjectKey) -> bool {
        match self {
            Self::Anywhere | Self::Configured => true,
            Self::Only(projects) => projects.contains(project),
        }
    }
}

impl Caller {
    /// The person at this machine, who administers what lies in their own folders.
    pub fn local(name: impl Into<String>, access: Access) -> Self {
        Self {
            name: name.into(),
            role: Role::Administrator,
            access,
            token: None,
            reach: ProjectScope::Anywhere,
            project: ProjectKey::default(),
        }
    }

    /// May this caller do what needs `access`?
    pub fn may(&self, access: Access) -> bool {
        self.access >= access
    }
}
