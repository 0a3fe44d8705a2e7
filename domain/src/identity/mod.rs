//! Callers and their permissions: users with roles, and the tokens of users.

mod redact;
pub mod token;
mod user;

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};

pub use redact::{redact_echo, redact_secrets};
pub use token::{PresentedToken, Token, TokenDigest, TokenError, TokenId, TokenOwner};
pub use user::{Access, User, UserName, UserRole};

use crate::bounded_types::named_enum;
use crate::project_key::ProjectKey;

named_enum! {
    /// The way by which a call reached the application.
    #[derive(Default, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    CallChannel {
        /// A client of the Model Context Protocol, and every call of older audit rows.
        #[default]
        Mcp = "mcp",
        Web = "web",
        /// A command on this machine.
        Cli = "cli",
    }
}

impl CallChannel {
    /// True for the channel that audit rows omit.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

type NameLookup = Box<dyn FnOnce() -> String + Send + Sync>;

/// A caller's name in documents and the audit log. Looked up when it is first used.
#[derive(Debug, Clone)]
pub struct CallerName(Arc<LazyLock<String, NameLookup>>);

impl CallerName {
    /// A name that `lookup` returns. The lookup runs at most once.
    pub fn from_lookup(lookup: impl FnOnce() -> String + Send + Sync + 'static) -> Self {
        Self(Arc::new(LazyLock::new(Box::new(lookup))))
    }
}

impl<T: Into<String>> From<T> for CallerName {
    fn from(name: T) -> Self {
        let name = name.into();
        Self::from_lookup(move || name)
    }
}

impl Deref for CallerName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CallerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl PartialEq for CallerName {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for CallerName {}

/// The identity of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    pub name: CallerName,
    pub role: UserRole,
    /// The access level that role, token and server all allow.
    pub access: Access,
    /// `None` for the local user. For a session, the token that signed in.
    pub token: Option<TokenId>,
    pub scope: ProjectScope,
    /// The project of calls without a project argument. Always in scope.
    pub project: ProjectKey,
    pub channel: CallChannel,
}

/// The projects that a caller may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProjectScope {
    /// All projects, and any folder below the server's roots. For the local user.
    Anywhere,
    /// The default project and all configured projects.
    Configured,
    Only(Vec<ProjectKey>),
}

impl ProjectScope {
    pub fn includes(&self, project: &ProjectKey) -> bool {
        match self {
            Self::Anywhere | Self::Configured => true,
            Self::Only(projects) => projects.contains(project),
        }
    }
}

impl Caller {
    /// The local user, who is the administrator of the local files.
    pub fn local(name: impl Into<CallerName>, access: Access) -> Self {
        Self {
            name: name.into(),
            role: UserRole::Administrator,
            access,
            token: None,
            scope: ProjectScope::Anywhere,
            project: ProjectKey::default(),
            channel: CallChannel::default(),
        }
    }

    /// The same caller through another channel.
    #[must_use]
    pub fn through(self, channel: CallChannel) -> Self {
        Self { channel, ..self }
    }

    pub fn is_allowed(&self, access: Access) -> bool {
        self.access >= access
    }

    /// True for an administrator with write access to all projects.
    pub fn is_administrator(&self) -> bool {
        self.role == UserRole::Administrator
            && self.is_allowed(Access::Write)
            && !matches!(self.scope, ProjectScope::Only(_))
    }
}
