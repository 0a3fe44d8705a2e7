//! Templates of search instructions: text with variables in braces.
//!
//! Variables are substituted in one pass, so a variable in a keyword is not substituted.

use std::sync::LazyLock;

const MAX_CHARS: usize = 10_000;
/// Bounds the size of an instruction: each variable may become fifty long keywords.
const MAX_VARIABLES: usize = 50;

/// The default template. Its text is specified.
const STANDARD: &str = "Search for '{keywords}' in folder {local_path}. Use your normal text \
     search tools to do this. If the search results don't help you, try to find \
     '{generalized_keywords}'. If this still doesn't help, ask the user to rephrase it.";

/// The default template without generalized keywords.
const STANDARD_WITHOUT: &str = "Search for '{keywords}' in folder {local_path}. Use your normal \
     text search tools to do this. If this still doesn't help, ask the user to rephrase it.";

/// The format of a docset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConfigFormat {
    /// Docsets have names, and templates have variables in single braces.
    V1,
    /// Docsets have an `id` and `sources`, and templates may also have variables in double braces.
    V2,
}

/// A parsed template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstructionTemplate(Vec<TemplatePart>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum TemplatePart {
    Text(String),
    Variable(TemplateVariable),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TemplateVariable {
    Keywords,
    GeneralizedKeywords,
    LocalPath,
    Docset,
    Version,
    Title,
    Description,
}

const VARIABLES: [(&str, TemplateVariable); 5] = [
    ("keywords", TemplateVariable::Keywords),
    ("generalized_keywords", TemplateVariable::GeneralizedKeywords),
    ("local_path", TemplateVariable::LocalPath),
    ("docset", TemplateVariable::Docset),
    ("version", TemplateVariable::Version),
];
/// Variables of format V2, in double braces only.
const V2_VARIABLES: [(&str, TemplateVariable); 2] = [
    ("docset_name", TemplateVariable::Title),
    ("docset_description", TemplateVariable::Description),
];

impl InstructionTemplate {
    /// Parses and validates a template.
    pub(super) fn parse(text: &str, format: ConfigFormat) -> Result<Self, String> {
        let length = text.chars().count();
        if length > MAX_CHARS {
            return Err(format!(
                "a template has at most {MAX_CHARS} characters, this has {length}; shorten it"
            ));
        }
        if text.trim().is_empty() {
            return Err("the template is blank; remove `template` to get the default".to_owned());
        }
        let template = Self::parse_parts(text, format);
        let variables = template.0.iter().filter(|part| matches!(part, TemplatePart::Variable(_)));
        let count = variables.count();
        if count > MAX_VARIABLES {
            return Err(format!(
                "a template has at most {MAX_VARIABLES} variables, this has {count}; shorten it"
            ));
        }
        Ok(template)
    }

    /// The default template.
    pub(super) fn standard(has_generalized_keywords: bool) -> &'static Self {
        static WITH_GENERALIZED: LazyLock<InstructionTemplate> =
            LazyLock::new(|| InstructionTemplate::parse_parts(STANDARD, ConfigFormat::V1));
        static WITHOUT_GENERALIZED: LazyLock<InstructionTemplate> =
            LazyLock::new(|| InstructionTemplate::parse_parts(STANDARD_WITHOUT, ConfigFormat::V1));
        if has_generalized_keywords { &WITH_GENERALIZED } else { &WITHOUT_GENERALIZED }
    }

    fn parse_parts(text: &str, format: ConfigFormat) -> Self {
        let mut parts = Vec::new();
        let (mut text_start, mut at) = (0, 0);
        while let Some(offset) = text[at..].find('{') {
            at += offset;
            // Other braces are text.
            let Some((variable, length)) = parse_variable(&text[at..], format) else {
                at += 1;
                continue;
            };
            parts.push(TemplatePart::Text(text[text_start..at].to_owned()));
            parts.push(TemplatePart::Variable(variable));
            at += length;
            text_start = at;
        }
        parts.push(TemplatePart::Text(text[text_start..].to_owned()));
        Self(parts)
    }

    pub(super) fn render(&self, push_value: impl Fn(&mut String, TemplateVariable)) -> String {
        let mut text = String::new();
        for part in &self.0 {
            match part {
                TemplatePart::Text(literal) => text.push_str(literal),
                TemplatePart::Variable(variable) => push_value(&mut text, *variable),
            }
        }
        text
    }
}

/// The variable at the start of `text`, and its length with the braces.
fn parse_variable(text: &str, format: ConfigFormat) -> Option<(TemplateVariable, usize)> {
    // Double braces first, or their inner pair would match as single ones.
    if format == ConfigFormat::V2
        && let Some(variable) = match_variable(text, "{{", "}}", &VARIABLES)
            .or_else(|| match_variable(text, "{{", "}}", &V2_VARIABLES))
    {
        return Some(variable);
    }
    match_variable(text, "{", "}", &VARIABLES)
}

fn match_variable(
    text: &str,
    open: &str,
    close: &str,
    variables: &[(&str, TemplateVariable)],
) -> Option<(TemplateVariable, usize)> {
    let inner = text.strip_prefix(open)?;
    for (name, variable) in variables {
        // With the brace: `{keywords_x}` is not a variable.
        if inner.strip_prefix(name).is_some_and(|rest| rest.starts_with(close)) {
            return Some((*variable, open.len() + name.len() + close.len()));
        }
    }
    None
}
