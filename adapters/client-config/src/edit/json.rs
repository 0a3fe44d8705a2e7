//! A server entry in JSON with comments and trailing commas.
//!
//! `jsonc_parser::cst` is not used for edits: it removes comments beside a removed property, and
//! breaks an object on one line into lines.

use std::borrow::Cow;

use jsonc_parser::ast::{self, Object};
use jsonc_parser::common::Ranged;
use jsonc_parser::tokens::{Token, TokenAndRange};
use jsonc_parser::{CollectOptions, CommentCollectionStrategy, ParseOptions, parse_to_ast};
use serde_json::{Map, Value};

use super::braces::{BracedPairs, TextStyle};
use super::text;
use crate::ConfigError;

/// The object that these names lead to.
pub(super) fn find_object(body: &str, names: &[&str]) -> Result<Option<Value>, ConfigError> {
    let readable = replace_lone_surrogates(body);
    let document = JsonDocument::parse(&readable)?;
    let PathTarget::Found { map, at } = document.find_target(names)? else { return Ok(None) };
    let entry = document.property_object(&map.properties[at])?;
    Ok(Some(Value::from(ast::Value::Object(entry.clone()))))
}

pub(super) fn remove_property(body: &str, names: &[&str]) -> Result<String, ConfigError> {
    let readable = replace_lone_surrogates(body);
    Ok(match JsonDocument::parse(&readable)?.find_target(names)? {
        PathTarget::Found { map, at } => {
            let start = map.properties[at].start();
            object_pairs(body, map).remove_pairs(|pair| pair.start == start)
        }
        PathTarget::Empty | PathTarget::Missing { .. } => body.to_owned(),
    })
}

/// The text with this value, and with the maps that are missing around it.
pub(super) fn set_value(body: &str, names: &[&str], value: &Value) -> Result<String, ConfigError> {
    let readable = replace_lone_surrogates(body);
    let document = JsonDocument::parse(&readable)?;
    Ok(match document.find_target(names)? {
        PathTarget::Empty => new_document(body, &nest_value(names, value)),
        PathTarget::Missing { map, depth } => {
            let (braces, style) = (object_pairs(body, map), document.object_style(body, map));
            let value = nest_value(&names[depth + 1..], value);
            let indent =
                if style.is_multiline { braces.pair_indent(style.unit) } else { String::new() };
            braces.append_pair(&find_property(names[depth], &value, style, &indent), style)
        }
        PathTarget::Found { map, at } => {
            let property = &map.properties[at];
            if Value::from(property.value.clone()) == *value {
                return Ok(body.to_owned());
            }
            let indent = text::line_indent(body, property.start());
            let with = print_value(value, document.object_style(body, map), indent);
            let range = property.value.start()..property.value.end();
            text::replace_ranges(body, vec![(range, with)])
        }
    })
}

fn nest_value(names: &[&str], value: &Value) -> Value {
    names.iter().rev().fold(value.clone(), |inner, name| {
        Value::Object(Map::from_iter([((*name).to_owned(), inner)]))
    })
}

/// A whole file with this value, after the comments that it may consist of.
fn new_document(body: &str, value: &Value) -> String {
    let line_end = text::line_end(body);
    let style = TextStyle { line_end, unit: "  ", space: " ", is_multiline: true };
    let written = print_value(value, style, "");
    match body {
        blank if blank.trim().is_empty() => format!("{written}{line_end}"),
        comments if comments.ends_with('\n') => format!("{comments}{written}{line_end}"),
        comments => format!("{comments}{line_end}{written}{line_end}"),
    }
}

fn object_pairs<'a>(body: &'a str, object: &Object) -> BracedPairs<'a> {
    let pairs = object.properties.iter().map(|property| property.start()..property.end());
    BracedPairs { text: body, span: object.start()..object.end(), pairs: pairs.collect() }
}

/// A text as a tree and as tokens, comments among them.
struct JsonDocument<'a> {
    text: &'a str,
    tokens: Vec<TokenAndRange<'a>>,
    root: Option<ast::Value<'a>>,
}

enum PathTarget<'d, 'a> {
    /// The document has no value.
    Empty,
    /// This map lacks the name of this index.
    Missing { map: &'d Object<'a>, depth: usize },
    /// The property of this index.
    Found { map: &'d Object<'a>, at: usize },
}

impl<'a> JsonDocument<'a> {
    fn parse(text: &'a str) -> Result<Self, ConfigError> {
        let collect =
            CollectOptions { comments: CommentCollectionStrategy::AsTokens, tokens: true };
        let parsed = parse_to_ast(text, &collect, &PARSE_OPTIONS).map_err(|error| {
            let what = error.kind().to_string();
            let what = format!("{}{}", what[..1].to_lowercase(), &what[1..]);
            ConfigError::syntax_error(text, error.range().start, "JSON", &what)
        })?;
        let document = Self { text, tokens: parsed.tokens.unwrap_or_default(), root: parsed.value };
        document.check_characters()?;
        Ok(document)
    }

    /// Rejects what the parser accepts and no client does.
    fn check_characters(&self) -> Result<(), ConfigError> {
        let is_odd = |sign: char| ![' ', '\t', '\n', '\r'].contains(&sign);
        let mut end = 0;
        let ranges = self.tokens.iter().map(|token| (token.start(), token.end(), &token.token));
        for (start, stop, token) in
            ranges.chain([(self.text.len(), self.text.len(), &Token::Comma)])
        {
            if let Some(at) = self.text[end..start].find(is_odd) {
                return self.syntax_error(end + at, "white space that JSON does not have");
            }
            end = stop;
            let rest = &self.text[end..];
            let is_lone_return = rest.starts_with('\r') && !rest.starts_with("\r\n");
            if is_lone_return && matches!(token, Token::CommentLine(_)) {
                // For some clients the comment goes on after it.
                return self.syntax_error(end, "a comment that ends with a lone CR");
            }
            if let (Token::String(_), Some(at)) = (token, self.text[start..end].find(|c| c < ' ')) {
                let what = "a line break or tab in a string; write `\\n` or `\\t`";
                return self.syntax_error(start + at, what);
            }
        }
        Ok(())
    }

    fn syntax_error(&self, at: usize, what: &str) -> Result<(), ConfigError> {
        Err(ConfigError::syntax_error(self.text, at, "JSON", what))
    }

    fn find_target(&self, names: &[&str]) -> Result<PathTarget<'_, 'a>, ConfigError> {
        let Some(root) = &self.root else { return Ok(PathTarget::Empty) };
        let Some(mut map) = root.as_object() else {
            let what = "the file is not a JSON object; write `{}` instead, or move the file away, \
                        then run this again";
            return Err(ConfigError::at_position(self.text, root.start(), what));
        };
        for (depth, name) in names.iter().enumerate() {
            let Some(at) = self.print_property(map, name)? else {
                return Ok(PathTarget::Missing { map, depth });
            };
            if depth + 1 == names.len() {
                return Ok(PathTarget::Found { map, at });
            }
            map = self.property_object(&map.properties[at])?;
        }
        Ok(PathTarget::Empty)
    }

    fn property_object<'d>(
        &self,
        property: &'d ast::ObjectProp<'a>,
    ) -> Result<&'d Object<'a>, ConfigError> {
        property.value.as_object().ok_or_else(|| {
            let name = property.name.as_str();
            let what = format!(
                "the value of `{name}` has to be an object; remove `{name}`, or write `{{}}` as \
                 its value, then run this again"
            );
            ConfigError::at_position(self.text, property.value.start(), &what)
        })
    }

    /// The index of the property of this name.
    fn print_property(&self, map: &Object<'_>, name: &str) -> Result<Option<usize>, ConfigError> {
        let has_name = |property: &ast::ObjectProp| property.name.as_str() == name;
        let first = map.properties.iter().position(has_name);
        match map.properties.iter().rposition(has_name) {
            Some(at) if first != Some(at) => {
                let what = format!(
                    "`{name}` occurs twice in this object, and clients differ in which they take; \
                     remove one, then run this again"
                );
                Err(ConfigError::at_position(self.text, map.properties[at].start(), &what))
            }
            _ => Ok(first),
        }
    }

    /// The style of an object; of the file for an object without properties.
    fn object_style<'b>(&self, body: &'b str, object: &Object) -> TextStyle<'b> {
        let is_root = self.root.as_ref().is_some_and(|root| root.start() == object.start());
        let is_multiline = object_pairs(body, object).is_multiline()
            || (object.properties.is_empty() && (is_root || body.trim().contains('\n')));
        let mut indents = self
            .tokens
            .iter()
            .filter(|token| !matches!(token.token, Token::CommentLine(_) | Token::CommentBlock(_)))
            .filter(|token| text::is_first_in_line(body, token.start()))
            .map(|token| text::line_indent(body, token.start()));
        let unit = indents.find(|indent| !indent.is_empty()).unwrap_or("  ");
        let colon = self.tokens.iter().find(|token| token.token == Token::Colon);
        let is_dense = colon.is_some_and(|colon| !body[colon.end()..].starts_with([' ', '\t']));
        let space = if is_dense && !is_multiline { "" } else { " " };
        TextStyle { line_end: text::line_end(body), unit, space, is_multiline }
    }
}

fn find_property(key: &str, value: &Value, style: TextStyle, indent: &str) -> String {
    format!("{}:{}{}", Value::from(key), style.space, print_value(value, style, indent))
}

/// A list is on one line unless it contains objects or lists.
fn print_value(value: &Value, style: TextStyle, indent: &str) -> String {
    let TextStyle { line_end, unit, space, is_multiline } = style;
    let inner = format!("{indent}{unit}");
    let (open, items, close, is_flat): (_, Vec<String>, _, _) = match value {
        Value::Object(map) => {
            let items = map.iter().map(|(key, value)| find_property(key, value, style, &inner));
            ("{", items.collect(), "}", false)
        }
        Value::Array(items) => {
            let is_flat = !items.iter().any(|item| item.is_object() || item.is_array());
            ("[", items.iter().map(|item| print_value(item, style, &inner)).collect(), "]", is_flat)
        }
        scalar => return scalar.to_string(),
    };
    if items.is_empty() {
        return format!("{open}{close}");
    }
    if is_multiline && !is_flat {
        let items = items.join(&format!(",{line_end}{inner}"));
        return format!("{open}{line_end}{inner}{items}{line_end}{indent}{close}");
    }
    let margin = if value.is_object() { space } else { "" };
    format!("{open}{margin}{}{margin}{close}", items.join(&format!(",{space}")))
}

/// The text with `\ufffd` for each escaped half of a surrogate pair, at the same positions.
/// JavaScript writes one where a text was cut within an emoji, and the parser rejects it.
fn replace_lone_surrogates(text: &str) -> Cow<'_, str> {
    let mut readable = Cow::Borrowed(text);
    let mut at = 0;
    while let Some(found) = text[at..].find('\\') {
        at += found;
        match (surrogate_at(text, at), surrogate_at(text, at + 6)) {
            (None, _) => at += 1 + text[at + 1..].chars().next().map_or(0, char::len_utf8),
            (Some(0xD800..0xDC00), Some(0xDC00..0xE000)) => at += 12,
            _ => {
                readable.to_mut().replace_range(at..at + 6, "\\ufffd");
                at += 6;
            }
        }
    }
    readable
}

fn surrogate_at(text: &str, at: usize) -> Option<u32> {
    let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
    let unit = u32::from_str_radix(digits, 16).ok()?;
    (0xD800..0xE000).contains(&unit).then_some(unit)
}

/// JSON with comments and trailing commas, nothing else of JSON5.
const PARSE_OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};
