//! The YAML at the start of a markdown file: split by hand, parsed tolerantly, edited in place.
//!
//! Front matter without a closing line is not front matter: its keys are part of the body.

mod edit;
#[cfg(test)]
mod tests;

use std::fmt::Write;

pub use edit::{KeyEdit, edit, new, with_body};

use crate::diagnostic::Diagnostic;
use crate::timestamp::Timestamp;
use crate::yaml::{self, YamlDialect, YamlEntry, YamlNode};

/// The two parts of a text, without its byte order mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DocumentParts<'a> {
    /// The lines between the two `---` lines; `None` without front matter.
    pub yaml: Option<&'a str>,
    /// The text after the front matter, or all of it.
    pub body: &'a str,
    /// The `---` line and the YAML, which together are a YAML document with the file's lines.
    yaml_with_fence: &'a str,
}

/// Splits a text. Front matter begins on the first line with `---` and ends at the next line that
/// is `---` or `...`.
pub fn split(text: &str) -> DocumentParts<'_> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let whole = DocumentParts { yaml: None, body: text, yaml_with_fence: "" };
    let mut lines = text.split_inclusive('\n');
    let Some(first) = lines.next().filter(|line| line.trim_end() == "---") else { return whole };
    let mut at = first.len();
    for line in lines {
        if matches!(line.trim_end(), "---" | "...") {
            let body = &text[at + line.len()..];
            return DocumentParts {
                yaml: Some(&text[first.len()..at]),
                body,
                yaml_with_fence: &text[..at],
            };
        }
        at += line.len();
    }
    whole
}

/// The text after the front matter, without line ends around it.
pub fn body(text: &str) -> &str {
    split(text).body.trim_matches(['\r', '\n'])
}

/// Parsed front matter.
#[derive(Debug, PartialEq, Eq)]
pub struct FrontMatter {
    pub entries: Vec<YamlEntry>,
    /// The first duplicate key.
    pub duplicate: Option<Diagnostic>,
}

/// Parses the front matter. Positions count from the top of the text without its byte order mark.
pub fn read(parts: DocumentParts<'_>) -> Result<FrontMatter, Diagnostic> {
    let tree = yaml::parse_yaml(parts.yaml_with_fence, YamlDialect::FrontMatter)?;
    match tree.root.value {
        yaml::YamlValue::Map(entries) => Ok(FrontMatter { entries, duplicate: tree.duplicate }),
        yaml::YamlValue::Null => Ok(FrontMatter { entries: Vec::new(), duplicate: None }),
        _ => {
            let message = "keys with values are expected here, such as `title: …`";
            Err(tree.root.position.diagnostic(message))
        }
    }
}

/// The entries that can be parsed line by line, for front matter that is invalid as a whole.
pub fn salvage_lines(parts: DocumentParts<'_>) -> Vec<YamlEntry> {
    const MAX_LINES: usize = 200;
    let mut entries: Vec<YamlEntry> = Vec::new();
    let lines = parts.yaml.unwrap_or_default().lines().take(MAX_LINES).zip(2..);
    for (line, number) in lines.filter(|(line, _)| !line.starts_with([' ', '\t', '-', '#'])) {
        let mut found =
            match yaml::parse_yaml(line, YamlDialect::FrontMatter).map(|tree| tree.root.value) {
                Ok(yaml::YamlValue::Map(entries)) => entries,
                _ => parse_plain_entry(line).into_iter().collect(),
            };
        found.retain(|entry| yaml::find_key(&entries, &entry.key).is_none());
        for entry in &mut found {
            set_line(&mut entry.node, number);
        }
        entries.extend(found);
    }
    entries
}

/// The entry of a line like `title: Pay: by card`.
fn parse_plain_entry(line: &str) -> Option<YamlEntry> {
    let (key, value) = line.split_once(':')?;
    let value = value.trim().trim_matches(['\'', '"']);
    let is_text = !value.is_empty() && !value.starts_with(['[', '{', '&', '*', '|', '>', '!']);
    let at = yaml::SourcePosition { line: 1, column: 1, span: 0..0 };
    let text = yaml::YamlValue::Scalar(value.to_owned());
    let node = YamlNode { position: at.clone(), is_alias: false, value: text };
    is_text.then(|| YamlEntry { key: key.to_owned(), key_position: at, node })
}

fn set_line(node: &mut YamlNode, line: usize) {
    node.position.line = line;
    if let yaml::YamlValue::List(items) = &mut node.value {
        for item in items {
            set_line(item, line);
        }
    }
}

/// A new value of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldValue {
    Text(String),
    Number(u64),
    Time(Timestamp),
    List(Vec<String>),
    Map(Vec<(String, String)>),
}

impl From<&str> for FieldValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl FieldValue {
    /// The value on one line.
    fn render(&self) -> String {
        match self {
            Self::Text(text) => render_scalar(text, false),
            Self::Number(number) => number.to_string(),
            Self::Time(time) => time.rfc3339(),
            Self::List(items) => {
                let items: Vec<String> =
                    items.iter().map(|item| render_scalar(item, true)).collect();
                format!("[{}]", items.join(", "))
            }
            Self::Map(entries) => {
                let entry = |(key, value): &(String, String)| {
                    format!("{}: {}", render_scalar(key, true), render_scalar(value, true))
                };
                let entries: Vec<String> = entries.iter().map(entry).collect();
                format!("{{{}}}", entries.join(", "))
            }
        }
    }

    /// True if a parsed value is exactly this one.
    fn matches_parsed(&self, parsed: &yaml::YamlValue) -> bool {
        let is_text = |value: &yaml::YamlValue, text: &str| matches!(value, yaml::YamlValue::Scalar(found) if found == text);
        match (self, parsed) {
            (Self::Text(text), _) => is_text(parsed, text),
            (Self::Number(number), _) => is_text(parsed, &number.to_string()),
            (Self::Time(time), _) => is_text(parsed, &time.rfc3339()),
            (Self::List(texts), yaml::YamlValue::List(items)) => {
                let mut pairs = texts.iter().zip(items);
                texts.len() == items.len() && pairs.all(|(text, item)| is_text(&item.value, text))
            }
            (Self::Map(given), yaml::YamlValue::Map(entries)) => {
                let mut pairs = given.iter().zip(entries);
                given.len() == entries.len()
                    && pairs.all(|((key, text), entry)| {
                        *key == entry.key && is_text(&entry.node.value, text)
                    })
            }
            _ => false,
        }
    }
}

/// A text as a scalar: plain where every YAML reader takes it for text, else in double quotes. More
/// texts need quotes inside `[…]` and `{…}`.
fn render_scalar(text: &str, in_flow: bool) -> String {
    if is_plain_scalar(text, in_flow) { text.to_owned() } else { quote(text) }
}

fn is_plain_scalar(text: &str, in_flow: bool) -> bool {
    let begins = |c: char| c.is_alphanumeric() || matches!(c, '(' | '/' | '_') || !c.is_ascii();
    text.starts_with(begins)
        && text.trim() == text
        && !text.contains(needs_escape)
        && !text.contains(": ")
        && !text.ends_with(':')
        && !text.contains(" #")
        && !(in_flow && text.contains([',', '[', ']', '{', '}', ':']))
        && !is_typed_scalar(text)
}

/// True if some YAML reader takes it for a number, a boolean or a time.
fn is_typed_scalar(text: &str) -> bool {
    const WORDS: [&str; 9] = ["null", "true", "false", "yes", "no", "on", "off", "y", "n"];
    let of_digits = |c: char| c.is_ascii_digit() || " _.,:+-eETtZz".contains(c);
    let is_radix = || {
        let rest = ["0x", "0o", "0b"].iter().find_map(|prefix| text.strip_prefix(prefix));
        rest.is_some_and(|rest| rest.chars().all(|c| c.is_ascii_hexdigit() || c == '_'))
    };
    WORDS.iter().any(|word| text.eq_ignore_ascii_case(word))
        || text.parse::<f64>().is_ok()
        || (text.starts_with(|c: char| c.is_ascii_digit()) && text.chars().all(of_digits))
        || is_radix()
}

/// True for characters that are invisible or not allowed in a plain scalar.
fn needs_escape(c: char) -> bool {
    c.is_control()
        || (c.is_whitespace() && c != ' ')
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(c, '\u{feff}' | '\u{fff0}'..='\u{ffff}')
}

fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // All of them lie below U+10000. Writing to a String can't fail.
            c if needs_escape(c) => _ = write!(out, "\\u{:04X}", u32::from(c)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
