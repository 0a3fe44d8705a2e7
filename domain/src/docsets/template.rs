//! Templates of instructions: text with variables in braces.
//!
//! Substitution is one pass: a keyword is never parsed for variables.

use std::sync::LazyLock;

use super::Docset;

/// In characters.
const MAX_CHARS: usize = 10_000;
/// Each variable may be replaced by fifty long keywords.
const MAX_VARIABLES: usize = 50;

/// Required word for word by the specification.
const STANDARD: &str = "Search for '{keywords}' in folder {local_path}. Use your normal text \
     search tools to do this. If the search results don't help you, try to find \
     '{generalized_keywords}'. If this still doesn't help, ask the user to rephrase it.";
/// The same without generalized keywords.
const STANDARD_WITHOUT: &str = "Search for '{keywords}' in folder {local_path}. Use your normal \
     text search tools to do this. If this still doesn't help, ask the user to rephrase it.";

/// A parsed template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstructionTemplate(Vec<TemplatePart>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum TemplatePart {
    Text(String),
    Variable(TemplateVariable),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TemplateVariable {
    Keywords,
    GeneralizedKeywords,
    LocalPath,
    Docset,
    Version,
    Title,
    Description,
}

const VARIABLES: [(&str, TemplateVariable); 7] = [
    ("keywords", TemplateVariable::Keywords),
    ("generalized_keywords", TemplateVariable::GeneralizedKeywords),
    ("local_path", TemplateVariable::LocalPath),
    ("docset", TemplateVariable::Docset),
    ("version", TemplateVariable::Version),
    ("docset_name", TemplateVariable::Title),
    ("docset_description", TemplateVariable::Description),
];
/// The other variables exist in the later format only, in double braces.
const SINGLE_BRACED: usize = 5;

/// The values of the variables.
#[derive(Debug)]
pub(super) struct TemplateValues<'a, T> {
    pub(super) docset: &'a Docset,
    pub(super) keywords: &'a [T],
    pub(super) generalized_keywords: &'a [T],
}

impl InstructionTemplate {
    /// Parses a template. The later format has variables in single and in double braces.
    pub(super) fn read(text: &str, is_later: bool) -> Result<Self, String> {
        let length = text.chars().count();
        if length > MAX_CHARS {
            return Err(format!(
                "a template has at most {MAX_CHARS} characters, this has {length}; shorten it"
            ));
        }
        if text.trim().is_empty() {
            return Err("the template is blank; leave `template` out to get the default".to_owned());
        }
        let template = Self::parse(text, is_later);
        let variables = template.0.iter().filter(|part| matches!(part, TemplatePart::Variable(_)));
        let count = variables.count();
        if count > MAX_VARIABLES {
            return Err(format!(
                "a template has at most {MAX_VARIABLES} variables, this has {count}; shorten it"
            ));
        }
        Ok(template)
    }

    /// The default, with or without generalized keywords.
    pub(super) fn standard(generalized: bool) -> &'static Self {
        static WITH: LazyLock<InstructionTemplate> =
            LazyLock::new(|| InstructionTemplate::parse(STANDARD, false));
        static WITHOUT: LazyLock<InstructionTemplate> =
            LazyLock::new(|| InstructionTemplate::parse(STANDARD_WITHOUT, false));
        if generalized { &WITH } else { &WITHOUT }
    }

    fn parse(text: &str, is_later: bool) -> Self {
        let mut parts = Vec::new();
        let (mut plain, mut at) = (0, 0);
        while let Some(brace) = text[at..].find('{') {
            at += brace;
            let Some((variable, length)) = variable(&text[at..], is_later) else {
                at += 1;
                continue;
            };
            parts.push(TemplatePart::Text(text[plain..at].to_owned()));
            parts.push(TemplatePart::Variable(variable));
            at += length;
            plain = at;
        }
        parts.push(TemplatePart::Text(text[plain..].to_owned()));
        Self(parts)
    }

    pub(super) fn render<T: AsRef<str>>(&self, values: &TemplateValues<'_, T>) -> String {
        let TemplateValues { docset, keywords, generalized_keywords } = values;
        let mut text = String::new();
        for part in &self.0 {
            let variable = match part {
                TemplatePart::Text(plain) => {
                    text.push_str(plain);
                    continue;
                }
                TemplatePart::Variable(variable) => variable,
            };
            match variable {
                TemplateVariable::Keywords => push_list(&mut text, keywords),
                TemplateVariable::GeneralizedKeywords => push_list(&mut text, generalized_keywords),
                TemplateVariable::LocalPath => text.push_str(&docset.local_path),
                TemplateVariable::Docset => text.push_str(&docset.name),
                TemplateVariable::Version => text.extend(docset.version.as_deref()),
                TemplateVariable::Title => {
                    text.push_str(docset.title.as_ref().unwrap_or(&docset.name));
                }
                TemplateVariable::Description => text.extend(docset.description.as_deref()),
            }
        }
        text
    }
}

/// The variable that `text` begins with, and its length with the braces.
fn variable(text: &str, is_later: bool) -> Option<(TemplateVariable, usize)> {
    let doubled = if is_later { braced(text, "{{", "}}", &VARIABLES) } else { None };
    doubled.or_else(|| braced(text, "{", "}", &VARIABLES[..SINGLE_BRACED]))
}

fn braced(
    text: &str,
    open: &str,
    close: &str,
    known: &[(&str, TemplateVariable)],
) -> Option<(TemplateVariable, usize)> {
    let inner = text.strip_prefix(open)?;
    let is_meant =
        |name: &str| inner.strip_prefix(name).is_some_and(|rest| rest.starts_with(close));
    let (name, variable) = known.iter().find(|(name, _)| is_meant(name))?;
    Some((*variable, open.len() + name.len() + close.len()))
}

fn push_list<T: AsRef<str>>(text: &mut String, words: &[T]) {
    for (at, word) in words.iter().enumerate() {
        if at > 0 {
            text.push_str(", ");
        }
        text.push_str(word.as_ref());
    }
}
