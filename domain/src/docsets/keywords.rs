//! The words to look for (S3 REQ-1): a bounded list of bounded words.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

use crate::text::Bounded;

/// The longest list.
pub const MAX: usize = 50;

/// One word or phrase.
pub type Keyword = Bounded<200>;

/// At least `MIN` and at most [`MAX`] words.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<Keyword>")]
pub struct Keywords<const MIN: usize>(Vec<Keyword>);

impl<const MIN: usize> Keywords<MIN> {
    pub fn as_slice(&self) -> &[Keyword] {
        &self.0
    }

    pub fn into_vec(self) -> Vec<Keyword> {
        self.0
    }
}

impl<const MIN: usize> TryFrom<Vec<Keyword>> for Keywords<MIN> {
    type Error = String;

    fn try_from(words: Vec<Keyword>) -> Result<Self, String> {
        if (MIN..=MAX).contains(&words.len()) {
            return Ok(Self(words));
        }
        Err(format!("{MIN} to {MAX} strings are required, this has {}", words.len()))
    }
}

impl<const MIN: usize> JsonSchema for Keywords<MIN> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Keywords{MIN}").into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let items = generator.subschema_for::<Keyword>();
        if MIN == 0 {
            return json_schema!({ "type": "array", "items": items, "maxItems": MAX });
        }
        json_schema!({ "type": "array", "items": items, "minItems": MIN, "maxItems": MAX })
    }
}
