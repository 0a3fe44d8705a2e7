//! Parses plain `key: value` lines without the YAML parser, which takes most of the time of reading
//! a document.
//!
//! A text with any other structure or character is left to the YAML parser. The tree is the same.

use super::tree::{SourcePosition, YamlEntry, YamlNode, YamlTree, YamlValue, find_key};

/// A longer text may exceed a limit of the YAML parser.
const MAX_BYTES: usize = 16 * 1024;
const MAX_KEY_BYTES: usize = 64;
/// Values with another meaning than their text in some dialect of YAML.
const TYPED_WORDS: [&str; 13] =
    ["false", "inf", "infinity", "n", "nan", "no", "null", "off", "on", "true", "y", "yes", "~"];

/// Returns the tree; `None` if the text is not plain.
pub(super) fn parse_plain(text: &str) -> Option<YamlTree> {
    if text.len() > MAX_BYTES {
        return None;
    }
    let mut lines = PlainLines { rest: text, start: 0, end: 0, number: 0 };
    if text.starts_with("---\n") {
        lines.read_next();
    }
    let mut entries: Vec<YamlEntry> = Vec::new();
    while let Some(line) = lines.read_next() {
        let (key, value) = line.split_once(':')?;
        // A duplicate has a diagnostic.
        if !is_plain_key(key) || find_key(&entries, key).is_some() {
            return None;
        }
        let key_position = lines.position(0, key.len());
        let node = if value.is_empty() {
            lines.read_items()?
        } else {
            lines.parse_value(value.strip_prefix(' ')?, key.len() + 2)?
        };
        entries.push(YamlEntry { key: key.to_owned(), key_position, node });
    }
    let first = &entries.first()?.key_position;
    let position = SourcePosition { span: first.span.start..first.span.start, ..first.clone() };
    let root = YamlNode { position, is_alias: false, value: YamlValue::Map(entries) };
    Some(YamlTree { root, duplicate: None })
}

struct PlainLines<'a> {
    /// The text after the current line.
    rest: &'a str,
    /// Byte offset of the current line.
    start: usize,
    /// Byte offset of the text after it.
    end: usize,
    /// 1-based number of the current line.
    number: usize,
}

impl<'a> PlainLines<'a> {
    fn read_next(&mut self) -> Option<&'a str> {
        let line = self.rest.split_inclusive('\n').next()?;
        self.rest = &self.rest[line.len()..];
        self.number += 1;
        (self.start, self.end) = (self.end, self.end + line.len());
        Some(line.strip_suffix('\n').unwrap_or(line))
    }

    /// The position of a text in the current line, in which only ASCII is before it.
    fn position(&self, offset: usize, length: usize) -> SourcePosition {
        let start = self.start + offset;
        SourcePosition { line: self.number, column: offset + 1, span: start..start + length }
    }

    fn parse_scalar(&self, text: &str, offset: usize) -> YamlNode {
        let position = self.position(offset, text.len());
        YamlNode { position, is_alias: false, value: YamlValue::Scalar(text.to_owned()) }
    }

    /// Parses a scalar, or a list such as `[a, b]`.
    fn parse_value(&self, value: &str, offset: usize) -> Option<YamlNode> {
        let Some(list) = value.strip_prefix('[') else {
            return is_plain_scalar(value).then(|| self.parse_scalar(value, offset));
        };
        let mut items = Vec::new();
        let mut item_offset = offset + 1;
        for item in list.strip_suffix(']')?.split(", ") {
            if !is_plain_item(item) {
                return None;
            }
            items.push(self.parse_scalar(item, item_offset));
            item_offset += item.len() + 2;
        }
        let position = self.position(offset, 1);
        Some(YamlNode { position, is_alias: false, value: YamlValue::List(items) })
    }

    /// Reads the lines of a list, each with an indented `-`.
    fn read_items(&mut self) -> Option<YamlNode> {
        let indent = self.rest.len() - self.rest.trim_start_matches(' ').len();
        let mut items = Vec::new();
        let mut position = None;
        while indent > 0 && self.rest.starts_with(' ') {
            let line = self.read_next()?;
            let item = line.get(indent..)?.strip_prefix("- ")?;
            if !line.starts_with(&" ".repeat(indent)) || !is_plain_scalar(item) {
                return None;
            }
            position.get_or_insert(self.position(indent, 0));
            items.push(self.parse_scalar(item, indent + 2));
        }
        // Without an item the value is null.
        Some(YamlNode { position: position?, is_alias: false, value: YamlValue::List(items) })
    }
}

fn is_plain_key(key: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    key.len() <= MAX_KEY_BYTES
        && key.starts_with(|first: char| first.is_ascii_alphabetic())
        && key.bytes().all(is_word)
        && !is_typed_word(key)
}

fn is_plain_scalar(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_graphic() || c == ' ' || c.is_alphanumeric();
    text.starts_with(char::is_alphanumeric)
        && text.chars().all(is_plain)
        && !text.ends_with([' ', ':'])
        && !text.contains(": ")
        && !text.contains(" #")
        && !is_typed_word(text)
}

/// True for a plain scalar between brackets.
fn is_plain_item(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b" _-./".contains(&byte);
    is_plain_scalar(text) && text.bytes().all(is_plain)
}

fn is_typed_word(text: &str) -> bool {
    TYPED_WORDS.iter().any(|word| word.eq_ignore_ascii_case(text))
}
