//! Which project a call is about.

use std::fmt;
use std::sync::Arc;

/// A project's key: canonical, and opaque to everyone but the adapter that gave it.
///
/// The project that a server was started for is always `default`, so that answers and stores do
/// not depend on where a project lies on a disk (rulings 1).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProjectKey(Arc<str>);

impl ProjectKey {
    pub const DEFAULT: &str = "default";

    pub fn new(key: impl Into<Arc<str>>) -> Self {
        Self(key.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn is_default(&self) -> bool {
        &*self.0 == Self::DEFAULT
    }
}

impl Default for ProjectKey {
    fn default() -> Self {
        Self::new(Self::DEFAULT)
    }
}

impl fmt::Display for ProjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
