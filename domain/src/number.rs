//! Whole numbers between two bounds: the arguments that count something.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};

/// A number from `MIN` to `MAX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Whole<const MIN: usize, const MAX: usize>(usize);

impl<const MIN: usize, const MAX: usize> Whole<MIN, MAX> {
    pub fn get(self) -> usize {
        self.0
    }
}

impl<'de, const MIN: usize, const MAX: usize> Deserialize<'de> for Whole<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<const MIN: usize, const MAX: usize>;

        impl<const MIN: usize, const MAX: usize> de::Visitor<'_> for Visitor<MIN, MAX> {
            type Value = usize;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "a whole number from {MIN} to {MAX}")
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<usize, E> {
                let fits = usize::try_from(value).ok();
                let fits = fits.filter(|value| (MIN..=MAX).contains(value));
                fits.ok_or_else(|| E::custom(format!("{value} is not from {MIN} to {MAX}")))
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<usize, E> {
                let positive = u64::try_from(value);
                match positive {
                    Ok(value) => self.visit_u64(value),
                    Err(_) => Err(E::custom(format!("{value} is not from {MIN} to {MAX}"))),
                }
            }

            /// JSON knows one kind of number: `10.0` is ten.
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "whole and in range"
            )]
            fn visit_f64<E: de::Error>(self, value: f64) -> Result<usize, E> {
                if value.fract() == 0.0 && (0.0..=9e15).contains(&value) {
                    return self.visit_u64(value as u64);
                }
                Err(E::custom(format!("{value} is no whole number from {MIN} to {MAX}")))
            }
        }

        deserializer.deserialize_any(Visitor::<MIN, MAX>).map(Self)
    }
}

impl<const MIN: usize, const MAX: usize> JsonSchema for Whole<MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Whole{MIN}To{MAX}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": MIN, "maximum": MAX })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_bounds() {
        let read = |json: &str| serde_json::from_str::<Whole<1, 100>>(json);
        for good in ["1", "100", "10.0"] {
            assert!(read(good).is_ok(), "{good}");
        }
        for bad in ["0", "101", "-1", "1.5", "1e300", "\"1\"", "null", "true", "[]"] {
            let error = read(bad).unwrap_err().to_string();
            assert!(error.contains("from 1 to 100"), "{bad}: {error}");
        }
    }
}
