//! A custom field of a project: its type, and the check of its values.

use std::collections::BTreeSet;

use serde_json::Value;

pub use super::fields::{CustomType, FieldView};
use super::kinds::ItemKind;
use super::text_list::split_list;
use super::values::{MAX_VALUE_CHARS, MAX_VALUES, value_key};
use crate::bounded_types::{check_text, truncate_echo};
use crate::timestamp::Timestamp;

/// A field that a project adds to records of some kinds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CustomField {
    /// The key in front matter, arguments and answers.
    pub name: String,
    /// Names of kinds of items and of entities; `entity` means all kinds of entities.
    pub kinds: Vec<String>,
    pub label: String,
    pub field_type: CustomType,
    /// The values of a choice; empty for other types.
    pub choices: Vec<String>,
    /// A field of each project, which its schema does not list.
    pub is_built_in: bool,
    /// A new record must have a value, and no tool removes it.
    pub is_required: bool,
    pub views: BTreeSet<FieldView>,
}

/// Prefixes of URLs that pages show as links. A script as the target would run in the reader's
/// browser.
const URL_SCHEMES: [&str; 3] = ["https://", "http://", "mailto:"];

impl CustomField {
    /// Returns the spelling that files have, or the reason why the text does not fit.
    fn check(&self, text: &str) -> Result<String, String> {
        let text = text.trim();
        check_text(text, MAX_VALUE_CHARS)?;
        if text.contains(char::is_control) {
            return Err("a control character is not allowed; write it on one line".to_owned());
        }
        let shown = truncate_echo(text);
        match self.field_type {
            CustomType::Text | CustomType::User | CustomType::Tags => Ok(text.to_owned()),
            CustomType::Number if value_key(text).starts_with('#') => Ok(text.to_owned()),
            CustomType::Number => {
                Err(format!("{shown:?} is not a number; write one such as 3 or 2.5"))
            }
            CustomType::Date if text.len() == 10 && Timestamp::parse(text).is_some() => {
                Ok(text.to_owned())
            }
            CustomType::Date => {
                Err(format!("{shown:?} is not a date; write one such as 2026-11-27"))
            }
            CustomType::Choice => {
                let values = &self.choices;
                let key = value_key(text);
                let found = values.iter().find(|value| value_key(value) == key).cloned();
                let one_of = || format!("{shown:?} is invalid; use one of {}", values.join(", "));
                found.ok_or_else(one_of)
            }
            CustomType::Url if URL_SCHEMES.iter().any(|scheme| starts_with(text, scheme)) => {
                Ok(text.to_owned())
            }
            CustomType::Url => {
                Err(format!("{shown:?} is not a link; begin it with https://, http:// or mailto:"))
            }
        }
    }

    /// True if records of this kind have the field. `is_entity` distinguishes kinds of entities;
    /// `entity` is any of them.
    pub fn has_kind(&self, kind: &str, is_entity: bool) -> bool {
        let is_any = |one: &str| kind == "entity" && ItemKind::from_name(one).is_none();
        self.kinds.iter().any(|one| one == kind || is_entity && (one == "entity" || is_any(one)))
    }

    /// True if a list shows the value in the line of a record.
    pub fn is_in_lists(&self) -> bool {
        self.views.contains(&FieldView::Column) || self.views.contains(&FieldView::Card)
    }

    /// Checks the value of an argument and returns it as the file has it. Null removes the field,
    /// as does an empty text or an empty list.
    pub fn parse(&self, given: &Value) -> Result<Value, String> {
        let texts: Vec<String> = match given {
            Value::Null => Vec::new(),
            Value::String(text) if text.trim().is_empty() => Vec::new(),
            Value::String(text) if self.field_type == CustomType::Tags => split_list(text),
            Value::String(text) if self.field_type == CustomType::Number => {
                vec![without_exponent(text)]
            }
            Value::String(text) => vec![text.clone()],
            Value::Number(number) => vec![without_exponent(&number.to_string())],
            Value::Array(items) if self.field_type == CustomType::Tags => {
                let text = |item: &Value| item.as_str().map(str::to_owned);
                let texts: Option<Vec<String>> = items.iter().map(text).collect();
                texts.ok_or("send a list of texts")?
            }
            _ => return Err(format!("send {}", self.form())),
        };
        if texts.len() > MAX_VALUES {
            let count = texts.len();
            return Err(format!("at most {MAX_VALUES} values are allowed, this has {count}"));
        }
        let checked: Result<Vec<String>, String> =
            texts.iter().map(|text| self.check(text)).collect();
        let mut checked = checked?;
        Ok(match self.field_type {
            _ if checked.is_empty() => Value::Null,
            CustomType::Tags => checked.into(),
            _ => checked.remove(0).into(),
        })
    }

    /// The form of a value, for errors.
    pub(super) fn form(&self) -> String {
        match self.field_type {
            CustomType::Text => "a text".to_owned(),
            CustomType::Number => "a number".to_owned(),
            CustomType::Date => "a date such as 2026-11-27".to_owned(),
            CustomType::Choice => format!("one of {}", self.choices.join(", ")),
            CustomType::User => "the name of a user".to_owned(),
            CustomType::Tags => "a list of texts".to_owned(),
            CustomType::Url => "a link such as https://example.org".to_owned(),
        }
    }

    /// The value of an answer: a number, a list or a text. A value that does not fit is the text as
    /// written.
    pub fn answer(&self, texts: &[String]) -> Value {
        match (self.field_type, texts) {
            (CustomType::Tags, _) => texts.into(),
            (CustomType::Number, [text]) => {
                let number = text.trim().parse().ok().filter(|_| self.problem(texts).is_none());
                let number = number.and_then(serde_json::Number::from_f64);
                number.map_or_else(|| text.as_str().into(), whole)
            }
            _ => texts.join(", ").into(),
        }
    }

    /// The reason why stored texts do not fit; `None` if they do.
    pub fn problem(&self, texts: &[String]) -> Option<String> {
        if texts.len() > 1 && self.field_type != CustomType::Tags {
            return Some(format!("{} has {} values; keep one", self.name, texts.len()));
        }
        let problem = texts.iter().find_map(|text| self.check(text).err())?;
        Some(format!("{}: {problem}", self.name))
    }
}

fn starts_with(text: &str, scheme: &str) -> bool {
    text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        && text.len() > scheme.len()
}

/// `1e-3` as `0.001`, as files have it.
fn without_exponent(text: &str) -> String {
    match text.trim().parse::<f64>() {
        Ok(number) if number.is_finite() && text.contains(['e', 'E']) => number.to_string(),
        _ => text.to_owned(),
    }
}

/// `3.0` as `3`.
fn whole(number: serde_json::Number) -> Value {
    match number.as_f64() {
        #[expect(clippy::cast_possible_truncation, reason = "whole and in range")]
        Some(value) if value.fract() == 0.0 && value.abs() < 9e15 => (value as i64).into(),
        _ => number.into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn field(field_type: CustomType) -> CustomField {
        CustomField {
            name: "risk".to_owned(),
            kinds: vec!["epic".to_owned()],
            label: "Risk".to_owned(),
            field_type,
            choices: vec!["Low".to_owned(), "High".to_owned()],
            is_built_in: false,
            is_required: false,
            views: BTreeSet::new(),
        }
    }

    #[test]
    fn values_are_checked_by_type() {
        for (field_type, given, expected) in [
            (CustomType::Choice, json!("high"), Ok(json!("High"))),
            (CustomType::Choice, json!("x"), Err("\"x\" is invalid; use one of Low, High")),
            (CustomType::Choice, json!(["Low"]), Err("send one of Low, High")),
            (CustomType::Number, json!(3), Ok(json!("3"))),
            (CustomType::Number, json!("2.5"), Ok(json!("2.5"))),
            (CustomType::Number, json!(1e-7), Ok(json!("0.0000001"))),
            (CustomType::Number, json!(" 1E3"), Ok(json!("1000"))),
            (CustomType::Number, json!("1e999"), Err("\"1e999\" is not a number;")),
            (CustomType::Number, json!(-2.5e20), Ok(json!("-250000000000000000000"))),
            (CustomType::Number, json!(u64::MAX), Ok(json!("18446744073709551615"))),
            (CustomType::Number, json!("many"), Err("\"many\" is not a number;")),
            (CustomType::Date, json!("2026-02-30"), Err("\"2026-02-30\" is not a date;")),
            (CustomType::Date, json!("2026-02-28"), Ok(json!("2026-02-28"))),
            (CustomType::Tags, json!("a, b"), Ok(json!(["a", "b"]))),
            (CustomType::Tags, json!("x, \"y, z\""), Ok(json!(["x", "y, z"]))),
            (CustomType::Tags, json!([]), Ok(json!(null))),
            (
                CustomType::Url,
                json!("javascript:alert(1)"),
                Err("\"javascript:alert(1)\" is not a"),
            ),
            (CustomType::Url, json!("HTTPS://a.b"), Ok(json!("HTTPS://a.b"))),
            (CustomType::Text, json!("a\nb"), Err("a control character is not allowed;")),
            (CustomType::Text, json!(""), Ok(json!(null))),
            (CustomType::Text, json!(null), Ok(json!(null))),
        ] {
            let parsed = field(field_type).parse(&given);
            match (&parsed, expected) {
                (Err(error), Err(start)) => assert!(error.starts_with(start), "{error}"),
                (parsed, expected) => {
                    assert_eq!(parsed.as_ref().ok(), expected.ok().as_ref(), "{given}");
                }
            }
        }
    }

    #[test]
    fn stored_values_are_answered_as_they_are() {
        let texts =
            |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let number = field(CustomType::Number);
        assert_eq!(number.answer(&texts(&["3.0"])), json!(3));
        assert_eq!(number.answer(&texts(&["2.5"])), json!(2.5));
        assert_eq!(number.answer(&texts(&["many"])), json!("many"));
        assert_eq!(number.problem(&texts(&["3"])), None);
        assert!(number.problem(&texts(&["many"])).unwrap().starts_with("risk: \"many\" is not"));
        assert_eq!(number.problem(&texts(&["3", "4"])).unwrap(), "risk has 2 values; keep one");
        assert_eq!(field(CustomType::Tags).answer(&texts(&["a", "b"])), json!(["a", "b"]));
    }
}
