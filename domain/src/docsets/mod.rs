//! Docsets: the folders of a project's documentation, and instructions for searching them.
//!
//! Paths are computed from the text of the configuration; nothing here accesses files.

mod config;
pub mod template;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use template::{InstructionTemplate, TemplateVariable};

use crate::bounded_types::{BoundedString, string_type};
use crate::diagnostic::Diagnostic;
use crate::yaml::quote_excerpt;

/// The configuration's path, relative to the project.
pub const CONFIG_PATH: &str = ".knowledge/config.yaml";
/// Maximum size of a configuration, in bytes.
pub const MAX_CONFIG_BYTES: usize = 1024 * 1024;
/// A minimal configuration for error messages.
pub const MINIMAL_CONFIG: &str =
    "docsets:\n  react:\n    version: \"18.2\"\n    aliases: [reactjs]\n";

/// A validated configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocsetConfig {
    /// Absolute and normalized, with forward slashes and a trailing one.
    pub docs_root: String,
    /// Those without an error, in file order.
    pub docsets: Vec<Docset>,
    /// Warnings: unknown properties that resemble a known one, folders outside of the project.
    pub warnings: Vec<Diagnostic>,
    /// Errors of single docsets, by line. They leave the other docsets usable.
    pub docset_errors: Vec<Diagnostic>,
    /// Names and aliases with the position in `docsets`.
    names: BTreeMap<String, usize>,
    /// Names and aliases of docsets with an error.
    invalid_names: BTreeMap<String, Vec<Diagnostic>>,
}

/// A collection of documentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Docset {
    pub name: String,
    /// As spelled in the file: `18.20` is not `18.2`.
    pub version: Option<String>,
    pub aliases: Vec<String>,
    pub title: Option<String>,
    pub description: Option<String>,
    /// Absolute and normalized, with forward slashes and a trailing one.
    pub local_path: String,
    /// `None` for the default template.
    pub template: Option<Arc<InstructionTemplate>>,
    /// 1-based line on which the docset begins.
    pub line: usize,
}

impl DocsetConfig {
    /// The docset with this name or alias. Case-sensitive.
    pub fn find(&self, name: &str) -> Option<&Docset> {
        self.names.get(name).and_then(|at| self.docsets.get(*at))
    }

    /// The errors of the docset with this name or alias, if it has any.
    pub fn errors_of(&self, name: &str) -> Option<&[Diagnostic]> {
        self.invalid_names.get(name).map(Vec::as_slice)
    }

    /// The name or an alias of the docset that an error belongs to, if it has any.
    pub fn invalid_name(&self, error: &Diagnostic) -> Option<&str> {
        let mut docsets = self.invalid_names.iter();
        docsets
            .find(|(_, docset_errors)| docset_errors.contains(error))
            .map(|(name, _)| name.as_str())
    }

    /// The name or alias that resembles an unknown name most.
    pub fn similar_name(&self, name: &str) -> Option<&str> {
        similar_word(name, self.names.keys().map(String::as_str))
    }
}

impl Docset {
    /// Renders the instruction for an assistant to search the keywords.
    pub fn render_instruction<T: AsRef<str>>(&self, keywords: &[T], generalized: &[T]) -> String {
        let standard = InstructionTemplate::standard(!generalized.is_empty());
        let template = self.template.as_deref().unwrap_or(standard);
        template.render(|text, variable| self.push_value(text, variable, keywords, generalized))
    }

    fn push_value<T: AsRef<str>>(
        &self,
        text: &mut String,
        variable: TemplateVariable,
        keywords: &[T],
        generalized: &[T],
    ) {
        match variable {
            TemplateVariable::Keywords => push_list(text, keywords),
            TemplateVariable::GeneralizedKeywords => push_list(text, generalized),
            TemplateVariable::LocalPath => text.push_str(&self.local_path),
            TemplateVariable::Docset => text.push_str(&self.name),
            TemplateVariable::Version => text.push_str(self.version.as_deref().unwrap_or_default()),
            TemplateVariable::Title => text.push_str(self.title.as_ref().unwrap_or(&self.name)),
            TemplateVariable::Description => {
                text.push_str(self.description.as_deref().unwrap_or_default());
            }
        }
    }
}

fn push_list<T: AsRef<str>>(text: &mut String, words: &[T]) {
    for (at, word) in words.iter().enumerate() {
        if at > 0 {
            text.push_str(", ");
        }
        text.push_str(word.as_ref());
    }
}

/// Formats a diagnostic of the configuration as `file:line:column: message`.
pub fn format_diagnostic(diagnostic: &Diagnostic) -> String {
    let Diagnostic { line, column, message } = diagnostic;
    let (line, column) = (line.unwrap_or(1), column.unwrap_or(1));
    format!("{CONFIG_PATH}:{line}:{column}: {message}")
}

/// The most similar word that differs at most in case and in two letters.
fn similar_word<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    const MAX_DISTANCE: usize = 2;
    // The distance takes quadratic time.
    if word.len() > MAX_NAME_CHARS {
        return None;
    }
    let lower = word.to_lowercase();
    let mut nearest: Option<(usize, &str)> = None;
    for candidate in candidates {
        let distance = strsim::damerau_levenshtein(&lower, &candidate.to_lowercase());
        // The name breaks ties, so that the suggestion is always the same.
        let rated = (distance, candidate);
        if nearest.is_none_or(|nearest| rated < nearest) {
            nearest = Some(rated);
        }
    }
    let (distance, candidate) = nearest?;
    // Half of a short word may not differ.
    (distance <= MAX_DISTANCE && distance * 2 < word.len().max(2)).then_some(candidate)
}

/// Maximum length of a name, alias or version, in characters.
const MAX_NAME_CHARS: usize = 64;

string_type!(
    /// A name or alias. It becomes a part of a path, so no character leads elsewhere.
    DocsetName,
    |text| check_name(text).map(|()| text.to_owned()),
    {
        "type": "string",
        "minLength": 1,
        "maxLength": MAX_NAME_CHARS,
        "pattern": "^[A-Za-z0-9@][A-Za-z0-9._@-]*$"
    }
);

fn check_name(text: &str) -> Result<(), String> {
    if is_path_safe(text) && text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '@') {
        return Ok(());
    }
    Err(format!(
        "{} is not a docset name; a name has 1 to {MAX_NAME_CHARS} letters, digits, '.', '_', '-' \
         and '@' and begins with a letter, a digit or '@', such as \"react\" or \"@types-node\"",
        quote_excerpt(text)
    ))
}

fn check_version(text: &str) -> Result<(), String> {
    // A version is a part of a path, where two dots would lead to the parent folder.
    if is_path_safe(text) && !text.contains("..") {
        return Ok(());
    }
    Err(format!(
        "{} is not a version; a version has 1 to {MAX_NAME_CHARS} letters, digits, '.', '_', '-' \
         and '@' without two dots in a row, such as \"18.2\"",
        quote_excerpt(text)
    ))
}

/// True if the text can be a part of a file name.
fn is_path_safe(text: &str) -> bool {
    (1..=MAX_NAME_CHARS).contains(&text.len())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '@' | '-'))
}

pub const MAX_KEYWORDS: usize = 50;

/// A word or phrase to search for.
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
