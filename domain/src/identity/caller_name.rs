//! The name of a caller, which may be looked up on first use.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

type Lookup = Box<dyn FnOnce() -> String + Send + Sync>;

/// The user's name, as creators and the audit show it.
#[derive(Debug, Clone)]
pub struct CallerName(Arc<LazyLock<String, Lookup>>);

impl CallerName {
    /// Calls `lookup` once, when the name is first used.
    pub fn lazy(lookup: impl FnOnce() -> String + Send + Sync + 'static) -> Self {
        Self(Arc::new(LazyLock::new(Box::new(lookup))))
    }
}

impl<T: Into<String>> From<T> for CallerName {
    fn from(name: T) -> Self {
        let name = name.into();
        Self::lazy(move || name)
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
