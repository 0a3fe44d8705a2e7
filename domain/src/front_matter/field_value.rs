//! Renders values of front matter.

use std::fmt::Write;

use crate::timestamp::Timestamp;
use crate::yaml::YamlValue;

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
    pub(super) fn render(&self) -> String {
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
    pub(super) fn matches_parsed(&self, parsed: &YamlValue) -> bool {
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
pub(super) fn render_scalar(text: &str, in_flow: bool) -> String {
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
