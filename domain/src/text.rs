//! Bounded text: the arguments that are free words, with the limits the specification gives them.
//!
//! Lengths count characters, not bytes, and "required" means present and not blank (rulings 2).

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

/// Text of 1 to `MAX` characters that is not blank and holds no NUL.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Bounded<const MAX: usize>(String);

impl<const MAX: usize> Bounded<MAX> {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn into_string(self) -> String {
        self.0
    }
}

impl<const MAX: usize> AsRef<str> for Bounded<MAX> {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl<const MAX: usize> TryFrom<String> for Bounded<MAX> {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        check_bounds(&text, MAX)?;
        Ok(Self(text))
    }
}

impl<const MAX: usize> fmt::Display for Bounded<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<const MAX: usize> JsonSchema for Bounded<MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Text{MAX}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "maxLength": MAX, "pattern": r"\S" })
    }
}

/// The rules that every text argument shares; the message names limit and length (S1 P.2).
pub(crate) fn check_bounds(text: &str, max: usize) -> Result<(), String> {
    let length = text.chars().count();
    if length > max {
        return Err(format!("at most {max} characters are allowed, this has {length}; shorten it"));
    }
    if text.trim().is_empty() {
        return Err(format!(
            "1 to {max} characters that are not all blank are required, this has {length}"
        ));
    }
    if text.contains('\0') {
        return Err(format!(
            "a NUL character is not allowed (1 to {max} characters, this has {length}); remove it"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    // S1: P.1, P.2; catalogue 28
    #[test]
    fn lengths_count_characters_and_blank_is_refused() {
        type Text = Bounded<10>;
        for good in ["x", " x ", "0123456789", "🦀🦀🦀🦀🦀🦀🦀🦀🦀🦀"] {
            assert!(Text::try_from(good.to_owned()).is_ok(), "{good:?}");
        }
        for (bad, says) in [
            ("", "1 to 10"),
            (" \n\t", "has 3"),
            ("\u{a0}\u{2003}", "blank"),
            ("01234567890", "at most 10 characters are allowed, this has 11"),
            ("a\0b", "NUL"),
        ] {
            let error = Text::try_from(bad.to_owned()).unwrap_err();
            assert!(error.contains(says), "{bad:?}: {error}");
        }
    }
}
