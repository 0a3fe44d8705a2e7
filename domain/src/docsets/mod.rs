//! Docsets (S3): where a project's documentation lies, and how to look for something in it.
//!
//! [`Configuration::read`] is the only way in. A newcomer's trap: nothing here looks at folders;
//! a docset's path is computed from words, and whether something is there is asked elsewhere.

mod config;
pub mod keywords;
mod later;
pub mod name;
mod path;
mod source;
pub mod template;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use template::{Template, Values};

/// The configuration's name in messages and, where documents are files, its place.
pub const FILE: &str = ".knowledge/config.yaml";
/// The largest configuration, in bytes.
pub const MAX_BYTES: usize = 1024 * 1024;
/// A configuration to begin with; errors show it.
pub const MINIMAL: &str = "docsets:\n  react:\n    version: \"18.2\"\n    aliases: [reactjs]\n";

/// A validated configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configuration {
    /// Absolute, normalised, with forward slashes; ends with one.
    pub docs_root: String,
    /// In the order of the file.
    pub docsets: Vec<Docset>,
    /// What is allowed and probably not meant: properties that nobody reads and that look like
    /// one that somebody does.
    pub hints: Vec<Fault>,
    /// The place of each name and alias in `docsets`.
    names: BTreeMap<String, usize>,
}

/// One set of documentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Docset {
    pub name: String,
    /// As written: `18.20` is not `18.2`.
    pub version: Option<String>,
    pub aliases: Vec<String>,
    /// How people call it, where that is said beside the name.
    pub title: Option<String>,
    pub description: Option<String>,
    /// Absolute, normalised, with forward slashes; ends with one.
    pub local_path: String,
    /// Its own, else the configuration's; without either the default.
    pub template: Option<Arc<Template>>,
    /// The line on which the docset begins.
    pub line: usize,
}

impl Configuration {
    /// The docset of this name or alias; case matters.
    pub fn find(&self, name: &str) -> Option<&Docset> {
        self.names.get(name).and_then(|at| self.docsets.get(*at))
    }

    /// The name or alias that comes nearest to one that is not there.
    pub fn nearest(&self, name: &str) -> Option<&str> {
        nearest(name, self.names.keys().map(String::as_str))
    }
}

impl Docset {
    /// What to do to find the keywords (S3 REQ-1, REQ-6).
    pub fn instruction<T: AsRef<str>>(&self, keywords: &[T], generalized: &[T]) -> String {
        let template = self.template.as_deref();
        let template = template.unwrap_or_else(|| Template::standard(!generalized.is_empty()));
        template.render(&Values { docset: self, keywords, generalized_keywords: generalized })
    }
}

/// What is wrong with a configuration, and where; it displays as `file:line:column: message`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// Counted from 1, as the column.
    pub line: usize,
    pub column: usize,
    /// What is wrong and the way out.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{FILE}:{}:{}: {}", self.line, self.column, self.message)
    }
}

/// What was probably meant: differs only in case, or in so few letters that it is no other word.
fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // What is longer than a name is none that was mistyped.
    if word.len() > name::MAX {
        return None;
    }
    let lower = word.to_lowercase();
    let rated =
        known.map(|known| (strsim::damerau_levenshtein(&lower, &known.to_lowercase()), known));
    let (distance, known) = rated.min()?;
    (distance <= 2 && distance * 2 < word.len().max(2)).then_some(known)
}
