//! The free words of items, with their limits (rulings 3).

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

use crate::text::check_bounds;

/// A title: 1 to 500 characters on one line, not blank.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Title(String);

/// A user's name, or nothing for nobody: at most 100 characters on one line.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Assignee(String);

/// A tag: 1 to 100 characters on one line, not blank.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Tag(String);

/// A description: at most 50,000 characters of markdown without NUL; it may be empty.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Description(String);

/// Tags of one item: at most 50, each once.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<Tag>")]
pub struct Tags(Vec<String>);

const MAX_TAGS: usize = 50;
const MAX_TITLE: usize = 500;
const MAX_NAME: usize = 100;
/// The longest description, in characters.
pub const MAX_DESCRIPTION: usize = 50_000;

fn check_line(text: &str) -> Result<(), String> {
    match text.chars().find(|c| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')) {
        Some(c) => Err(format!("{c:?} is not allowed; write it on one line")),
        None => Ok(()),
    }
}

impl Title {
    /// Without spaces around it.
    pub fn as_str(&self) -> &str {
        self.0.trim()
    }
}

impl TryFrom<String> for Title {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        check_bounds(&text, MAX_TITLE)?;
        check_line(&text)?;
        Ok(Self(text))
    }
}

impl Assignee {
    /// `None` for nobody.
    pub fn name(&self) -> Option<&str> {
        Some(self.0.trim()).filter(|name| !name.is_empty())
    }
}

impl TryFrom<String> for Assignee {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let length = text.chars().count();
        if length > MAX_NAME {
            return Err(format!("a user's name has at most {MAX_NAME} characters, this {length}"));
        }
        check_line(&text)?;
        Ok(Self(text))
    }
}

impl Tag {
    /// Without spaces around it.
    pub fn as_str(&self) -> &str {
        self.0.trim()
    }
}

impl TryFrom<String> for Tag {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        check_bounds(&text, MAX_NAME)?;
        check_line(&text)?;
        Ok(Self(text))
    }
}

impl Tags {
    pub fn into_vec(self) -> Vec<String> {
        self.0
    }
}

impl TryFrom<Vec<Tag>> for Tags {
    type Error = String;

    fn try_from(given: Vec<Tag>) -> Result<Self, String> {
        if given.len() > MAX_TAGS {
            return Err(format!("at most {MAX_TAGS} tags are allowed, these are {}", given.len()));
        }
        let mut tags: Vec<String> = Vec::with_capacity(given.len());
        for tag in given.iter().map(Tag::as_str) {
            if !tags.iter().any(|known| known == tag) {
                tags.push(tag.to_owned());
            }
        }
        Ok(Self(tags))
    }
}

impl Description {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Description {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let length = text.chars().count();
        if length > MAX_DESCRIPTION {
            return Err(format!(
                "at most {MAX_DESCRIPTION} characters are allowed, this has {length}; shorten it"
            ));
        }
        if text.contains('\0') {
            return Err("a NUL character is not allowed; remove it".to_owned());
        }
        Ok(Self(text))
    }
}

/// Schemas say what the types check, as far as schemas can.
macro_rules! schema {
    ($type:ident, $schema:tt) => {
        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    };
}

schema!(Title, { "type": "string", "maxLength": MAX_TITLE, "pattern": r"\S" });
schema!(Assignee, { "type": "string", "maxLength": MAX_NAME });
schema!(Tag, { "type": "string", "maxLength": MAX_NAME, "pattern": r"\S" });
schema!(Tags, {
    "type": "array",
    "maxItems": MAX_TAGS,
    "items": { "type": "string" }
});
schema!(Description, { "type": "string", "maxLength": MAX_DESCRIPTION });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_stay_on_one_line_and_within_their_length() {
        for good in ["x", "  x ", &"é".repeat(500)] {
            assert!(Title::try_from(good.to_owned()).is_ok(), "{good}");
        }
        for (bad, says) in [
            ("", "1 to 500"),
            (" ", "blank"),
            ("a\nb", "one line"),
            ("a\u{2028}b", "one line"),
            (&*"é".repeat(501), "this has 501"),
        ] {
            let error = Title::try_from(bad.to_owned()).unwrap_err();
            assert!(error.contains(says), "{bad:?}: {error}");
        }
    }

    #[test]
    fn nobody_is_an_empty_name() {
        let name = |text: &str| Assignee::try_from(text.to_owned());
        assert_eq!(name("").unwrap().name(), None);
        assert_eq!(name(" ann ").unwrap().name(), Some("ann"));
        assert!(name("a\tb").is_err() && name(&"x".repeat(101)).is_err());
    }

    #[test]
    fn a_description_may_be_empty_and_long() {
        let text = |length| Description::try_from("🦀".repeat(length));
        assert!(text(0).is_ok() && text(MAX_DESCRIPTION).is_ok());
        assert!(text(MAX_DESCRIPTION + 1).unwrap_err().contains("this has 50001"));
        assert!(Description::try_from("a\0".to_owned()).is_err());
    }
}
