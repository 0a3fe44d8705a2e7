//! Front matter, the YAML at the start of a Markdown file: split, parsed tolerantly, edited in
//! place.
//!
//! Front matter without a closing line is part of the body.

mod edit;
#[cfg(test)]
mod tests;

use std::fmt::Write;

pub use edit::{KeyEdit, edit, render_front_matter, with_body};

use crate::diagnostic::Diagnostic;
use crate::timestamp::Timestamp;
use crate::yaml::{self, YamlDialect, YamlEntry, YamlNode, YamlValue};

/// Front matter and body of a text, without the byte order mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DocumentParts<'a> {
    /// The lines between the two `---` lines; `None` without front matter.
    pub yaml: Option<&'a str>,
    /// The text after the front matter.
    pub body: &'a str,
    /// The first `---` line and the YAML. Its line numbers are those of the file.
    yaml_with_fence: &'a str,
}

/// Splits a text. Front matter begins with `---` on the first line and ends at the next line that
/// is `---` or `...`.
pub fn split(text: &str) -> DocumentParts<'_> {
    // Editors on Windows may add a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().unwrap_or_default();
    if first.trim_end() == "---" {
        let mut line_start = first.len();
        for line in lines {
            // YAML also ends a document with `...`.
            if matches!(line.trim_end(), "---" | "...") {
                return DocumentParts {
                    yaml: Some(&text[first.len()..line_start]),
                    body: &text[line_start + line.len()..],
                    yaml_with_fence: &text[..line_start],
                };
            }
            line_start += line.len();
        }
    }
    DocumentParts { yaml: None, body: text, yaml_with_fence: "" }
}

/// The text after the front matter, without line ends around it.
pub fn body(text: &str) -> &str {
    split(text).body.trim_matches(['\r', '\n'])
}

/// True if a text has this body. Line ends may differ.
pub fn has_body(text: &str, body: &str) -> bool {
    let present = self::body(text);
    present == body || present.replace("\r\n", "\n") == body.replace("\r\n", "\n")
}

/// Parsed front matter.
#[derive(Debug, PartialEq, Eq)]
pub struct FrontMatter {
    pub entries: Vec<YamlEntry>,
    /// The first duplicate key.
    pub duplicate: Option<Diagnostic>,
}

/// Parses front matter. Positions are relative to the text without its byte order mark.
pub fn parse(parts: DocumentParts<'_>) -> Result<FrontMatter, Diagnostic> {
    let tree = yaml::parse_yaml(parts.yaml_with_fence, YamlDialect::FrontMatter)?;
    match tree.root.value {
        YamlValue::Map(entries) => Ok(FrontMatter { entries, duplicate: tree.duplicate }),
        // Empty front matter has no keys, which is valid.
        YamlValue::Null => Ok(FrontMatter { entries: Vec::new(), duplicate: None }),
        _ => {
            let message = "the front matter has no keys; write lines like `title: …`";
            Err(tree.root.position.diagnostic(message))
        }
    }
}

/// Parses invalid front matter line by line and returns the entries of all valid lines.
pub fn salvage_lines(parts: DocumentParts<'_>) -> Vec<YamlEntry> {
    const MAX_LINES: usize = 200;
    let mut entries: Vec<YamlEntry> = Vec::new();
    // Line 1 is the opening `---`.
    for (line, number) in parts.yaml.unwrap_or_default().lines().take(MAX_LINES).zip(2..) {
        // Continuation lines and list items belong to another key.
        if line.starts_with([' ', '\t', '-', '#']) {
            continue;
        }
        let tree = yaml::parse_yaml(line, YamlDialect::FrontMatter);
        let mut salvaged = match tree.map(|tree| tree.root.value) {
            Ok(YamlValue::Map(entries)) => entries,
            _ => parse_plain_entry(line).into_iter().collect(),
        };
        // As in valid YAML, the first of duplicate keys wins.
        salvaged.retain(|entry| yaml::find_key(&entries, &entry.key).is_none());
        for entry in &mut salvaged {
            set_line(&mut entry.node, number);
        }
        entries.extend(salvaged);
    }
    entries
}

/// Parses a line that is not valid YAML, such as `title: Pay: by card`.
fn parse_plain_entry(line: &str) -> Option<YamlEntry> {
    let (key, value) = line.split_once(':')?;
    let value = value.trim().trim_matches(['\'', '"']);
    // The value continues on other lines, or is not a scalar.
    if value.is_empty() || value.starts_with(['[', '{', '&', '*', '|', '>', '!']) {
        return None;
    }
    let position = yaml::SourcePosition { line: 1, column: 1, span: 0..0 };
    let value = YamlValue::Scalar(value.to_owned());
    let node = YamlNode { position: position.clone(), is_alias: false, value };
    Some(YamlEntry { key: key.to_owned(), key_position: position, node })
}

fn set_line(node: &mut YamlNode, line: usize) {
    node.position.line = line;
    if let YamlValue::List(items) = &mut node.value {
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
    /// A list of texts and maps.
    Items(Vec<Self>),
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
            Self::Time(time) => time.to_rfc3339(),
            Self::List(items) => {
                let items: Vec<String> =
                    items.iter().map(|item| render_scalar(item, true)).collect();
                format!("[{}]", items.join(", "))
            }
            Self::Items(items) => {
                let items: Vec<String> = items.iter().map(Self::render_item).collect();
                format!("[{}]", items.join(", "))
            }
            Self::Map(entries) => {
                let mut rendered = Vec::with_capacity(entries.len());
                for (key, value) in entries {
                    let (key, value) = (render_scalar(key, true), render_scalar(value, true));
                    rendered.push(format!("{key}: {value}"));
                }
                format!("{{{}}}", rendered.join(", "))
            }
        }
    }

    /// The value as an item of a list on one line.
    fn render_item(&self) -> String {
        match self {
            Self::Text(text) => render_scalar(text, true),
            value => value.render(),
        }
    }

    /// True if a parsed value is exactly this one.
    fn matches_parsed(&self, parsed: &YamlValue) -> bool {
        match (self, parsed) {
            (Self::Text(text), _) => is_scalar(parsed, text),
            (Self::Number(number), _) => is_scalar(parsed, &number.to_string()),
            (Self::Time(time), _) => is_scalar(parsed, &time.to_rfc3339()),
            (Self::List(texts), YamlValue::List(items)) => {
                let mut pairs = texts.iter().zip(items);
                texts.len() == items.len() && pairs.all(|(text, item)| is_scalar(&item.value, text))
            }
            (Self::Items(items), YamlValue::List(nodes)) => {
                let mut pairs = items.iter().zip(nodes);
                items.len() == nodes.len()
                    && pairs.all(|(item, node)| item.matches_parsed(&node.value))
            }
            (Self::Map(pairs), YamlValue::Map(entries)) => {
                pairs.len() == entries.len()
                    && pairs.iter().zip(entries).all(|((key, text), entry)| {
                        *key == entry.key && is_scalar(&entry.node.value, text)
                    })
            }
            _ => false,
        }
    }
}

fn is_scalar(value: &YamlValue, text: &str) -> bool {
    matches!(value, YamlValue::Scalar(found) if found == text)
}

/// Renders a text as a scalar: plain if every YAML parser reads it as text, else in double quotes.
/// A scalar inside `[…]` or `{…}` is `in_flow`, where more texts need quotes.
fn render_scalar(text: &str, in_flow: bool) -> String {
    if is_plain_scalar(text, in_flow) { text.to_owned() } else { quote(text) }
}

fn is_plain_scalar(text: &str, in_flow: bool) -> bool {
    // Other ASCII characters may be YAML indicators at the start.
    text.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '(' | '/' | '_') || !c.is_ascii())
        && text.trim() == text
        && !text.contains(needs_escape)
        // A colon with a space would start a value, ` #` a comment.
        && !text.contains(": ")
        && !text.ends_with(':')
        && !text.contains(" #")
        && !(in_flow && text.contains([',', '[', ']', '{', '}', ':']))
        && !is_typed_scalar(text)
}

/// True if any YAML parser reads the text as a number, a boolean, a time or null.
fn is_typed_scalar(text: &str) -> bool {
    const WORDS: [&str; 9] = ["null", "true", "false", "yes", "no", "on", "off", "y", "n"];
    // YAML 1.1 parsers also read `yes`, `on` and `y` as booleans.
    if WORDS.iter().any(|word| text.eq_ignore_ascii_case(word)) || text.parse::<f64>().is_ok() {
        return true;
    }
    for prefix in ["0x", "0o", "0b"] {
        if let Some(digits) = text.strip_prefix(prefix) {
            return digits.chars().all(|c| c.is_ascii_hexdigit() || c == '_');
        }
    }
    // Times, and numbers with separators.
    text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_digit() || " _.,:+-eETtZz".contains(c))
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
            // All such characters are below U+10000. Writing to a String cannot fail.
            c if needs_escape(c) => _ = write!(out, "\\u{:04X}", u32::from(c)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
