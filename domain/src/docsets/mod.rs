//! Docsets: the places of a project's documentation, and instructions for searching them.
//!
//! Paths are computed from the configuration's text; nothing here reads folders.

mod config;
pub mod template;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use template::{InstructionTemplate, TemplateValues};

use crate::bounded_types::{BoundedString, string_type};
use crate::diagnostic::Diagnostic;
use crate::yaml::quote_excerpt;

/// Name and path of the configuration.
pub const FILE: &str = ".knowledge/config.yaml";
/// Maximum size of a configuration, in bytes.
pub const MAX_BYTES: usize = 1024 * 1024;
/// A minimal configuration, which errors show.
pub const MINIMAL: &str = "docsets:\n  react:\n    version: \"18.2\"\n    aliases: [reactjs]\n";

/// A validated configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocsetConfig {
    /// Absolute, normalised, with forward slashes; ends with one.
    pub docs_root: String,
    /// In the order of the file.
    pub docsets: Vec<Docset>,
    /// Probable mistakes: unknown properties with a known one's spelling, a `docs_root` outside.
    pub hints: Vec<Diagnostic>,
    /// Names and aliases to positions in `docsets`.
    names: BTreeMap<String, usize>,
}

/// One set of documentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Docset {
    pub name: String,
    /// As written: `18.20` is not `18.2`.
    pub version: Option<String>,
    pub aliases: Vec<String>,
    pub title: Option<String>,
    pub description: Option<String>,
    /// Absolute, normalised, with forward slashes; ends with one.
    pub local_path: String,
    /// `None` for the default template.
    pub template: Option<Arc<InstructionTemplate>>,
    /// The line on which the docset begins.
    pub line: usize,
}

impl DocsetConfig {
    /// The docset of this name or alias, case-sensitive.
    pub fn find(&self, name: &str) -> Option<&Docset> {
        self.names.get(name).and_then(|at| self.docsets.get(*at))
    }

    /// The most similar name or alias to an unknown one.
    pub fn nearest(&self, name: &str) -> Option<&str> {
        nearest(name, self.names.keys().map(String::as_str))
    }
}

impl Docset {
    /// The instruction for finding the keywords.
    pub fn instruction<T: AsRef<str>>(&self, keywords: &[T], generalized: &[T]) -> String {
        let template = self.template.as_deref();
        let template =
            template.unwrap_or_else(|| InstructionTemplate::standard(!generalized.is_empty()));
        template.render(&TemplateValues {
            docset: self,
            keywords,
            generalized_keywords: generalized,
        })
    }
}

/// A diagnostic of the configuration as `file:line:column: message`.
pub fn located(found: &Diagnostic) -> String {
    let (line, column) = (found.line.unwrap_or(1), found.column.unwrap_or(1));
    format!("{FILE}:{line}:{column}: {}", found.message)
}

/// The most similar word, if it differs only in case or in at most two letters.
fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > MAX_NAME {
        return None;
    }
    let lower = word.to_lowercase();
    let rated =
        known.map(|known| (strsim::damerau_levenshtein(&lower, &known.to_lowercase()), known));
    let (distance, known) = rated.min()?;
    (distance <= 2 && distance * 2 < word.len().max(2)).then_some(known)
}

/// Maximum length of a name, alias or version, in characters.
const MAX_NAME: usize = 64;

string_type!(
    /// A name or alias. It becomes a part of a path, so no character leads elsewhere.
    DocsetName,
    |text| check_name(text).map(|()| text.to_owned()),
    {
        "type": "string",
        "minLength": 1,
        "maxLength": MAX_NAME,
        "pattern": "^[A-Za-z0-9@][A-Za-z0-9._@-]*$"
    }
);

fn check_name(text: &str) -> Result<(), String> {
    let first = |c: char| c.is_ascii_alphanumeric() || c == '@';
    if is_plain(text) && text.starts_with(first) {
        return Ok(());
    }
    Err(format!(
        "{} is not a docset name; a name has 1 to {MAX_NAME} letters, digits, '.', '_', '-' and \
         '@' and begins with a letter, a digit or '@', such as \"react\" or \"@types-node\"",
        quote_excerpt(text)
    ))
}

fn check_version(text: &str) -> Result<(), String> {
    if is_plain(text) && !text.contains("..") {
        return Ok(());
    }
    Err(format!(
        "{} is not a version; a version has 1 to {MAX_NAME} letters, digits, '.', '_', '-' and '@' \
         without two dots in a row, such as \"18.2\"",
        quote_excerpt(text)
    ))
}

fn is_plain(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '@' | '-');
    (1..=MAX_NAME).contains(&text.len()) && text.chars().all(is_plain)
}

/// Maximum number of keywords.
pub const MAX_KEYWORDS: usize = 50;

/// One word or phrase to search for.
pub type Keyword = BoundedString<200>;

/// `MIN` to [`MAX_KEYWORDS`] keywords.
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
        if (MIN..=MAX_KEYWORDS).contains(&words.len()) {
            return Ok(Self(words));
        }
        Err(format!("{MIN} to {MAX_KEYWORDS} strings are required, this has {}", words.len()))
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
        let mut schema = json_schema!({ "type": "array", "items": items });
        if MIN > 0 {
            schema.insert("minItems".to_owned(), MIN.into());
        }
        schema.insert("maxItems".to_owned(), MAX_KEYWORDS.into());
        schema
    }
}
