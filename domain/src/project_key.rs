//! Keys of projects.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::bounded_types::shown_as_text;

/// A project's canonical key, opaque except to the adapter that made it.
///
/// The server's own project is `default`, so responses and storages are independent of its path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProjectKey(Arc<str>);

impl ProjectKey {
    pub const DEFAULT: &str = "default";

    pub fn new(key: impl Into<Arc<str>>) -> Self {
        Self(key.into())
    }

    /// True for keys of the configuration. Only files have others, which are folders.
    pub fn is_plain(&self) -> bool {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        (1..=64).contains(&self.0.len()) && self.0.bytes().all(plain)
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

shown_as_text!([] ProjectKey);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_key_has_up_to_64_letters_digits_and_dashes() {
        let is_plain = |key: &str| ProjectKey::new(key).is_plain();
        assert!([ProjectKey::DEFAULT, "a", "A-1_b", &"x".repeat(64)].into_iter().all(is_plain));
        assert!(!["", "/etc", "a b", "\u{f6}", ".", &"x".repeat(65)].into_iter().any(is_plain));
    }
}
