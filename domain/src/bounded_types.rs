//! Types of tool arguments: bounded strings and numbers, and enums with named values.
//!
//! Lengths are in characters. Required text is present and not blank.

use serde::{Deserialize, Deserializer, de};

/// Implements an inline JSON schema, which describes the validation of the type.
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
        #[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
        #[serde(try_from = "String")]
        pub struct $name $(<const $max: usize>)? (String);

        $crate::bounded_types::text_accessors!([$(const $max: usize)?] $name $(<$max>)?);

        impl $(<const $max: usize>)? $name $(<$max>)? {
            pub fn into_string(self) -> String {
                self.0
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

            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $text,)+
                }
            }
        }
    };
}

pub(crate) use {inline_schema, named_enum, string_type, text_accessors};

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

/// Joins the words of a text with single spaces.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
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
        let value = serde_json::Value::deserialize(deserializer)?;
        // Some clients send all numbers as floats.
        let number = value.as_u64().or_else(|| whole_number(value.as_f64()?));
        if let Some(number) = number.and_then(|number| usize::try_from(number).ok())
            && (MIN..=MAX).contains(&number)
        {
            return Ok(Self(number));
        }
        let message = if value.is_number() {
            format!("{value} is not a whole number from {MIN} to {MAX}")
        } else {
            format!("expected a whole number from {MIN} to {MAX}")
        };
        Err(de::Error::custom(message))
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
    fn bounded_int_outside_its_bounds_is_rejected() {
        for good in ["1", "100", "10.0"] {
            assert!(serde_json::from_str::<BoundedInt<1, 100>>(good).is_ok(), "{good}");
        }
        for bad in ["0", "101", "-1", "1.5", "1e300", "\"1\"", "null", "true", "[]"] {
            let error = serde_json::from_str::<BoundedInt<1, 100>>(bad).unwrap_err().to_string();
            assert!(error.contains("from 1 to 100"), "{bad}: {error}");
        }
    }
}
