//! A YAML tree without types, with source positions.

use std::ops::Range;

use crate::diagnostic::Diagnostic;

/// The position of a key or a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourcePosition {
    /// 1-based.
    pub line: usize,
    /// 1-based, in characters.
    pub column: usize,
    /// Byte offsets. Covers a scalar with its quotes, but only the opening bracket of a list or
    /// map.
    pub span: Range<usize>,
}

impl SourcePosition {
    pub fn diagnostic(&self, message: impl Into<String>) -> Diagnostic {
        let (line, column) = (Some(self.line), Some(self.column));
        Diagnostic { line, column, message: message.into() }
    }
}

/// A value and its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct YamlNode {
    pub position: SourcePosition,
    /// True for an alias or a merged value, whose text is at another position.
    pub is_alias: bool,
    pub value: YamlValue,
}

/// An untyped value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum YamlValue {
    Null,
    Scalar(String),
    List(Vec<YamlNode>),
    /// In source order, without duplicate keys.
    Map(Vec<YamlEntry>),
}

/// A key of a map and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct YamlEntry {
    pub key: String,
    pub key_position: SourcePosition,
    pub node: YamlNode,
}

impl YamlNode {
    /// The trimmed text of a scalar; `None` if it is blank.
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            YamlValue::Scalar(text) => Some(text.trim()).filter(|text| !text.is_empty()),
            _ => None,
        }
    }

    /// The entries of a map; empty for any other value.
    pub fn entries(&self) -> &[YamlEntry] {
        if let YamlValue::Map(entries) = &self.value { entries } else { &[] }
    }

    /// The items of a list. Any other value is treated as a list of one item.
    pub fn items(&self) -> &[YamlNode] {
        match &self.value {
            YamlValue::List(items) => items,
            _ => std::slice::from_ref(self),
        }
    }
}

/// Returns the value of a key.
pub fn find_key<'a>(entries: &'a [YamlEntry], key: &str) -> Option<&'a YamlNode> {
    entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node)
}

/// A parsed text. The root of an empty text is null.
#[derive(Debug, PartialEq, Eq)]
pub struct YamlTree {
    pub root: YamlNode,
    /// The first duplicate key. The tree holds the value of its first occurrence.
    pub duplicate: Option<Diagnostic>,
}
