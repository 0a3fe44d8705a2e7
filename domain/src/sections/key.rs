//! Section keys (S1 G.3.2): the stem of `{section}.md`.
//!
//! Two rules, and the difference matters: *any* existing file directly in the directory can be
//! named, but only a plain key may be *new*.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

use crate::text::check_bounds;

/// The longest key, in characters (S1 P.1).
pub const MAX: usize = 100;

/// A key that can name a section: one path component, not hidden, not AGENTS.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct SectionKey(String);

impl SectionKey {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// May a section of this key be created? The message says what a key may be.
    pub fn check_new(&self) -> Result<(), String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if !self.0.chars().all(plain) || !self.0.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            return Err(format!(
                "there is no section {:?}, and a new key may hold letters, digits, '_' and '-' \
                 and starts with a letter or digit, such as \"code_quality\"",
                self.0
            ));
        }
        if is_device_name(&self.0) {
            return Err(format!(
                "{:?} is the name of a device on Windows; choose another key",
                self.0
            ));
        }
        Ok(())
    }
}

impl TryFrom<String> for SectionKey {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        check_bounds(&text, MAX)?;
        let first_is_odd = text.starts_with(|c: char| c == '.' || c.is_whitespace());
        if first_is_odd || text.contains(|c: char| c == '/' || c == '\\' || c.is_control()) {
            return Err(format!(
                "{text:?} is no section key; a section may hold letters, digits, '_' and '-', such \
                 as \"general\" or \"code_quality\""
            ));
        }
        if text.eq_ignore_ascii_case("agents") {
            return Err(format!(
                "{text:?} is reserved for AGENTS.md, the instructions; choose another key"
            ));
        }
        Ok(Self(text))
    }
}

impl fmt::Display for SectionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl JsonSchema for SectionKey {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "SectionKey".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "minLength": 1,
            "maxLength": MAX,
            "pattern": r"^[^\s./\\][^/\\]*$"
        })
    }
}

fn is_device_name(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    let numbered = |prefix| {
        key.strip_prefix(prefix)
            .is_some_and(|n: &str| n.len() == 1 && n.as_bytes()[0].is_ascii_digit())
    };
    matches!(key.as_str(), "con" | "prn" | "aux" | "nul") || numbered("com") || numbered("lpt")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Result<SectionKey, String> {
        SectionKey::try_from(text.to_owned())
    }

    // S1: P.1, G.3.2; catalogue 1, 2, 3, 4, 5, 8, 25
    #[test]
    fn keys_that_lead_elsewhere_or_are_reserved_are_refused() {
        for bad in [
            "../../etc/passwd",
            "..\\..\\x",
            "a/b",
            "/tmp/x",
            "C:\\x",
            "\\\\host\\share",
            "a\0b",
            ".",
            "..",
            "",
            " ",
            ".hidden",
            ".git",
            ".github",
            ".ixchel",
            "AGENTS",
            "agents",
            "Agents",
            "a\nb",
        ] {
            assert!(key(bad).is_err(), "{bad:?}");
        }
        assert!(key(&"x".repeat(100)).is_ok());
        assert!(key(&"x".repeat(101)).unwrap_err().contains("101"));
    }

    // S1: S.3.1; catalogue 3, 5
    #[test]
    fn an_odd_key_may_name_a_file_and_may_not_be_new() {
        for odd in ["-rf", "x.", "x ", "my notes", "%2e%2e%2fx", "заметки", "CON", "com1", "nul"]
        {
            assert!(key(odd).unwrap().check_new().is_err(), "{odd:?}");
        }
        for plain in ["general", "code_quality", "A-1", "9", "console", "com10"] {
            assert!(key(plain).unwrap().check_new().is_ok(), "{plain:?}");
        }
    }
}
