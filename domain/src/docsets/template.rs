//! Templates of instructions: text with variables in braces.
//!
//! Substitution is one pass: a keyword is never parsed for variables.

use std::ops::Range;
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
pub struct Template {
    text: String,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(Range<usize>),
    Variable(Variable),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Variable {
    Keywords,
    GeneralizedKeywords,
    LocalPath,
    Docset,
    Version,
    Title,
    Description,
}

const VARIABLES: [(&str, Variable); 5] = [
    ("{keywords}", Variable::Keywords),
    ("{generalized_keywords}", Variable::GeneralizedKeywords),
    ("{local_path}", Variable::LocalPath),
    ("{docset}", Variable::Docset),
    ("{version}", Variable::Version),
];

/// The later format, which allows both spellings.
const DOUBLED: [(&str, Variable); 7] = [
    ("{{keywords}}", Variable::Keywords),
    ("{{generalized_keywords}}", Variable::GeneralizedKeywords),
    ("{{local_path}}", Variable::LocalPath),
    ("{{docset}}", Variable::Docset),
    ("{{version}}", Variable::Version),
    ("{{docset_name}}", Variable::Title),
    ("{{docset_description}}", Variable::Description),
];

/// The values of the variables.
#[derive(Debug)]
pub(super) struct Values<'a, T> {
    pub(super) docset: &'a Docset,
    pub(super) keywords: &'a [T],
    pub(super) generalized_keywords: &'a [T],
}

impl Template {
    /// Parses a template; `doubled` allows `{{keywords}}` too.
    pub(super) fn read(text: &str, doubled: bool) -> Result<Self, String> {
        let length = text.chars().count();
        if length > MAX_CHARS {
            return Err(format!(
                "a template has at most {MAX_CHARS} characters, this has {length}; shorten it"
            ));
        }
        if text.trim().is_empty() {
            return Err("the template is blank; leave `template` out to get the default".to_owned());
        }
        let template = Self { text: text.to_owned(), parts: parts(text, doubled) };
        let variables = template.parts.iter().filter(|part| matches!(part, Part::Variable(_)));
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
        static WITH: LazyLock<Template> = LazyLock::new(|| standard(STANDARD));
        static WITHOUT: LazyLock<Template> = LazyLock::new(|| standard(STANDARD_WITHOUT));
        if generalized { &WITH } else { &WITHOUT }
    }

    pub(super) fn render<T: AsRef<str>>(&self, values: &Values<'_, T>) -> String {
        let pieces = || self.parts.iter().flat_map(|part| self.pieces(part, values));
        let mut text = String::with_capacity(pieces().map(str::len).sum());
        text.extend(pieces());
        text
    }

    /// The texts that replace a part.
    fn pieces<'a, T: AsRef<str>>(
        &'a self,
        part: &Part,
        values: &Values<'a, T>,
    ) -> impl Iterator<Item = &'a str> + use<'a, T> {
        let docset = values.docset;
        let (one, many): (Option<&str>, &[T]) = match part {
            Part::Text(range) => (self.text.get(range.clone()), &[]),
            Part::Variable(Variable::Keywords) => (None, values.keywords),
            Part::Variable(Variable::GeneralizedKeywords) => (None, values.generalized_keywords),
            Part::Variable(Variable::LocalPath) => (Some(docset.local_path.as_str()), &[]),
            Part::Variable(Variable::Docset) => (Some(docset.name.as_str()), &[]),
            Part::Variable(Variable::Version) => (docset.version.as_deref(), &[]),
            Part::Variable(Variable::Title) => {
                (Some(docset.title.as_deref().unwrap_or(&docset.name)), &[])
            }
            Part::Variable(Variable::Description) => (docset.description.as_deref(), &[]),
        };
        let separated = many.iter().enumerate();
        let separated =
            separated.flat_map(|(at, word)| [if at == 0 { "" } else { ", " }, word.as_ref()]);
        one.into_iter().chain(separated)
    }
}

fn standard(text: &str) -> Template {
    Template { text: text.to_owned(), parts: parts(text, false) }
}

fn parts(text: &str, doubled: bool) -> Vec<Part> {
    let doubled = if doubled { &DOUBLED[..] } else { &[] };
    let mut parts = Vec::new();
    let (mut plain, mut at) = (0, 0);
    while let Some(brace) = text[at..].find('{') {
        at += brace;
        let rest = &text[at..];
        let mut known = doubled.iter().chain(&VARIABLES);
        let Some((name, variable)) = known.find(|(name, _)| rest.starts_with(name)) else {
            at += 1;
            continue;
        };
        if plain < at {
            parts.push(Part::Text(plain..at));
        }
        parts.push(Part::Variable(*variable));
        at += name.len();
        plain = at;
    }
    if plain < text.len() {
        parts.push(Part::Text(plain..text.len()));
    }
    parts
}
