//! Names of docsets (S3): what a name, an alias and a version may look like.
//!
//! They become parts of a path, so no character of them can lead elsewhere.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

/// The longest name, alias or version, in characters.
pub const MAX: usize = 64;

/// A name or alias as a caller gives it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct DocsetName(String);

impl DocsetName {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn into_string(self) -> String {
        self.0
    }
}

impl TryFrom<String> for DocsetName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        check(&text)?;
        Ok(Self(text))
    }
}

impl JsonSchema for DocsetName {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "DocsetName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "minLength": 1,
            "maxLength": MAX,
            "pattern": "^[A-Za-z0-9@][A-Za-z0-9._@-]*$"
        })
    }
}

/// Can this be a name or an alias?
pub(super) fn check(text: &str) -> Result<(), String> {
    let first = |c: char| c.is_ascii_alphanumeric() || c == '@';
    if is_short(text) && text.chars().all(is_plain) && text.starts_with(first) {
        return Ok(());
    }
    Err(format!(
        "{} is no name of a docset; a name has 1 to {MAX} letters, digits, '.', '_', '-' and '@' \
         and begins with a letter, a digit or '@', such as \"react\" or \"@types-node\"",
        shown(text)
    ))
}

/// Can this be a version?
pub(super) fn check_version(text: &str) -> Result<(), String> {
    if is_short(text) && text.chars().all(is_plain) && !text.contains("..") {
        return Ok(());
    }
    Err(format!(
        "{} is no version; a version has 1 to {MAX} letters, digits, '.', '_', '-' and '@' without \
         two dots in a row, such as \"18.2\"",
        shown(text)
    ))
}

/// A piece of somebody's text for a message: quoted, and not the whole of a long one.
pub(super) fn shown(text: &str) -> String {
    let short: String = text.chars().take(MAX).collect();
    if short.len() == text.len() { format!("{short:?}") } else { format!("{short:?}…") }
}

fn is_short(text: &str) -> bool {
    (1..=MAX).contains(&text.len())
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '@' | '-')
}
