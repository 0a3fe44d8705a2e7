//! Project keys.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::bounded_types::text_accessors;

/// The canonical key of a project: a key of the configuration, or a folder. Only the adapter that
/// created it may interpret it.
///
/// The server's own project is `default`, so that answers and storages do not depend on its path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProjectKey(Arc<str>);

impl ProjectKey {
    pub const DEFAULT: &str = "default";

    pub fn new(key: impl Into<Arc<str>>) -> Self {
        Self(key.into())
    }

    /// True for a key of the configuration, false for a folder.
    pub fn is_plain(&self) -> bool {
        (1..=64).contains(&self.0.len())
            && self.0.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
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

text_accessors!([] ProjectKey);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn project_key_with_other_characters_is_not_plain() {
        for plain in [ProjectKey::DEFAULT, "a", "A-1_b", &"x".repeat(64)] {
            assert!(ProjectKey::new(plain).is_plain(), "{plain:?}");
        }
        for other in ["", "/etc", "a b", "\u{f6}", ".", &"x".repeat(65)] {
            assert!(!ProjectKey::new(other).is_plain(), "{other:?}");
        }
    }
}
