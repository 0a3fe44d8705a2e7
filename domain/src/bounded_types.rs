//! Types of tool arguments: bounded strings and numbers, and enums with named values.
//!
//! Lengths are in characters. Required text is present and not blank.

use serde::{Deserialize, Deserializer, de};
use serde_json::Value;

/// Implements an inline JSON schema, which describes the validation of the type.
#[macro_export]
macro_rules! inline_schema {
    ([$($generics:tt)*] $type:ty, $schema:tt) => {
        impl<$($generics)*> schemars::JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                std::any::type_name::<Self>().into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!($schema)
            }
        }
    };
}

/// Implements `as_str` and `Display` for a newtype of text.
macro_rules! text_accessors {
    ([$($generics:tt)*] $type:ty) => {
        impl<$($generics)*> $type {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl<$($generics)*> std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

/// Declares an argument type for text that `$parse` accepts: `fn(&str) -> Result<String, String>`.
macro_rules! string_type {
    ($(#[$doc:meta])* $name:ident $(<$max:ident>)?, $parse:expr, $schema:tt) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name $(<const $max: usize>)? (String);

        $crate::bounded_types::text_accessors!([$(const $max: usize)?] $name $(<$max>)?);

        impl $(<const $max: usize>)? $name $(<$max>)? {
            pub fn into_string(self) -> String {
                self.0
            }
        }

        impl<'de $(, const $max: usize)?> serde::Deserialize<'de> for $name $(<$max>)? {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = $crate::bounded_types::deserialize_text(deserializer)?;
                Self::try_from(text).map_err(serde::de::Error::custom)
            }
        }

        impl $(<const $max: usize>)? TryFrom<String> for $name $(<$max>)? {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                $parse(&text).map(Self)
            }
        }

        $crate::bounded_types::inline_schema!([$(const $max: usize)?] $name $(<$max>)?, $schema);
    };
}

/// Declares an enum with a constant name for each value, and `ALL` values in this order.
macro_rules! named_enum {
    (
        $(#[$meta:meta])*
        $name:ident { $($(#[$doc:meta])* $value:ident = $text:literal,)+ }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            $($(#[$doc])* $value,)+
        }

        impl $name {
            pub const ALL: [Self; [$($text),+].len()] = [$(Self::$value),+];
            pub const NAMES: [&'static str; Self::ALL.len()] = [$($text),+];

            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $text,)+
                }
            }
        }
    };
}

/// Serializes enums by their names, because the order of their values may change. Reads them only
/// from borrowed text.
macro_rules! serialize_by_name {
    ($($name:ident),+) => {$(
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let name = <&str>::deserialize(deserializer)?;
                let found = Self::ALL.into_iter().find(|one| one.name() == name);
                found.ok_or_else(|| serde::de::Error::custom("not a name of a value"))
            }
        }
    )+};
}

pub use inline_schema;
pub(crate) use {named_enum, serialize_by_name, string_type, text_accessors};

string_type!(
    /// Text of 1 to `MAX` characters that is not blank and contains no NUL.
    BoundedString<MAX>,
    |text: &str| check_text(text, MAX).map(|()| text.to_owned()),
    { "type": "string", "maxLength": MAX, "pattern": r"\S" }
);

impl<const MAX: usize> AsRef<str> for BoundedString<MAX> {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// Deserializes text. Also accepts a number, because some clients send `2.1` instead of `"2.1"`.
pub fn deserialize_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    struct TextVisitor;

    impl de::Visitor<'_> for TextVisitor {
        type Value = String;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a string")
        }

        fn visit_str<E>(self, text: &str) -> Result<String, E> {
            Ok(text.to_owned())
        }

        fn visit_string<E>(self, text: String) -> Result<String, E> {
            Ok(text)
        }

        fn visit_u64<E>(self, number: u64) -> Result<String, E> {
            Ok(number.to_string())
        }

        fn visit_i64<E>(self, number: i64) -> Result<String, E> {
            Ok(number.to_string())
        }

        fn visit_f64<E>(self, number: f64) -> Result<String, E> {
            // Displays a whole number without a fraction: JSON does not distinguish 2.0 from 2.
            Ok(number.to_string())
        }
    }

    deserializer.deserialize_any(TextVisitor)
}

/// Joins the words of a text with single spaces.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Maximum length of a title that is derived from the description.
const MAX_DERIVED_TITLE_CHARS: usize = 120;

/// Returns the beginning of a text as its title.
pub(crate) fn truncate_title(text: &str) -> String {
    match text.char_indices().nth(MAX_DERIVED_TITLE_CHARS) {
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
        None => text.to_owned(),
    }
}

/// Validates required text. The message names the limit and the length.
pub(crate) fn check_text(text: &str, max: usize) -> Result<(), String> {
    // The length comes first: a long text must not be scanned further.
    let length = check_length(text, max)?;
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

/// Returns the number of characters.
pub(crate) fn check_length(text: &str, max: usize) -> Result<usize, String> {
    // In characters, as JSON Schema counts `maxLength`.
    let length = text.chars().count();
    if length > max {
        return Err(format!("at most {max} characters are allowed, this has {length}; shorten it"));
    }
    Ok(length)
}

/// A whole number from `MIN` to `MAX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BoundedInt<const MIN: usize, const MAX: usize>(usize);

impl<const MIN: usize, const MAX: usize> BoundedInt<MIN, MAX> {
    pub fn get(self) -> usize {
        self.0
    }
}

impl<'de, const MIN: usize, const MAX: usize> Deserialize<'de> for BoundedInt<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        if let Some(number) = parse_whole_number(&value)
            && (MIN..=MAX).contains(&number)
        {
            return Ok(Self(number));
        }
        let message = format!("{} is not a whole number from {MIN} to {MAX}", shorten(&value));
        Err(de::Error::custom(message))
    }
}

/// Returns a whole number. Some clients send it as text, or all numbers as floats.
pub fn parse_whole_number(value: &Value) -> Option<usize> {
    let number = match value {
        Value::String(text) => text.trim().parse().ok(),
        value => value.as_u64().or_else(|| whole_number(value.as_f64()?)),
    };
    number.and_then(|number| usize::try_from(number).ok())
}

/// An invalid argument as JSON, shortened for an error message.
pub fn shorten(value: &Value) -> String {
    match value {
        // The content of lists and objects would not explain the problem.
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::String(text) => format!("{:?}", truncate_echo(text)),
        value => value.to_string(),
    }
}

/// Maximum characters of the caller's input in an error message.
pub const MAX_ECHO_CHARS: usize = 100;

/// The beginning of the caller's input, for an error message.
pub fn truncate_echo(text: &str) -> &str {
    match text.char_indices().nth(MAX_ECHO_CHARS) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

/// A float without fraction as an integer: JSON does not distinguish `10.0` from `10`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole, in range")]
fn whole_number(value: f64) -> Option<u64> {
    if value.fract() == 0.0 && (0.0..=9e15).contains(&value) { Some(value as u64) } else { None }
}

inline_schema!([const MIN: usize, const MAX: usize] BoundedInt<MIN, MAX>,
    { "type": "integer", "minimum": MIN, "maximum": MAX });

#[cfg(test)]
mod tests {
    use super::*;

    // S1: P.1, P.2
    #[test]
    fn bounded_string_blank_or_too_long_is_rejected() {
        type Text = BoundedString<10>;
        for good in ["x", " x ", "0123456789", "🦀🦀🦀🦀🦀🦀🦀🦀🦀🦀"] {
            assert!(Text::try_from(good.to_owned()).is_ok(), "{good:?}");
        }
        for (bad, message) in [
            ("", "1 to 10"),
            (" \n\t", "has 3"),
            ("\u{a0}\u{2003}", "blank"),
            ("01234567890", "at most 10 characters are allowed, this has 11"),
            ("a\0b", "NUL"),
        ] {
            let error = Text::try_from(bad.to_owned()).unwrap_err();
            assert!(error.contains(message), "{bad:?}: {error}");
        }
    }

    #[test]
    fn number_for_text_is_accepted_as_its_digits() {
        for (json, text) in
            [("2.1", "2.1"), ("3", "3"), ("2.0", "2"), ("-7", "-7"), (r#""x""#, "x")]
        {
            let parsed: BoundedString<10> = serde_json::from_str(json).unwrap();
            assert_eq!(parsed.as_str(), text);
        }
        for bad in ["true", "[]", "{}", "null", "12345678901"] {
            assert!(serde_json::from_str::<BoundedString<10>>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn echoed_input_is_at_most_100_characters() {
        assert_eq!(truncate_echo(&"é".repeat(101)), "é".repeat(100));
        assert_eq!(truncate_echo("short"), "short");
        assert_eq!(shorten(&Value::from("x".repeat(101))).len(), 102);
    }

    #[test]
    fn bounded_int_outside_its_bounds_is_rejected() {
        for good in ["1", "100", "10.0", "\"20\"", "\" 1 \""] {
            assert!(serde_json::from_str::<BoundedInt<1, 100>>(good).is_ok(), "{good}");
        }
        for bad in ["0", "101", "-1", "1.5", "1e300", "\"x\"", "\"\"", "null", "true", "[]"] {
            let error = serde_json::from_str::<BoundedInt<1, 100>>(bad).unwrap_err().to_string();
            assert!(error.contains("from 1 to 100"), "{bad}: {error}");
        }
    }
}
