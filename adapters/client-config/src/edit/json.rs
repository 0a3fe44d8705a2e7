//! Edits a server entry in JSON with comments and trailing commas.
//!
//! `jsonc_parser::cst` is not used for edits: it removes comments next to a removed property, and
//! splits an object on one line into lines.

use std::borrow::Cow;

use jsonc_parser::ast::{self, Array, Object};
use jsonc_parser::common::Ranged;
use jsonc_parser::tokens::{Token, TokenAndRange};
use jsonc_parser::{CollectOptions, CommentCollectionStrategy, ParseOptions, parse_to_ast};
use serde_json::{Value, json};

use super::braces::{BracedPairs, TextStyle};
use super::text;
use crate::error::ConfigError;

/// The object at this path.
pub(super) fn find_object(body: &str, names: &[&str]) -> Result<Option<Value>, ConfigError> {
    let readable = replace_lone_surrogates(body);
    let document = JsonDocument::parse(&readable)?;
    let PathTarget::Found { map, index } = document.find_target(names)? else { return Ok(None) };
    let entry = document.property_object(&map.properties[index])?;
    Ok(Some(Value::from(ast::Value::Object(entry.clone()))))
}

pub(super) fn remove_property(body: &str, names: &[&str]) -> Result<String, ConfigError> {
    let readable = replace_lone_surrogates(body);
    Ok(match JsonDocument::parse(&readable)?.find_target(names)? {
        PathTarget::Found { map, index } => {
            let start = map.properties[index].start();
            object_pairs(body, map).remove_pairs(|pair| pair.start == start)
        }
        PathTarget::EmptyDocument | PathTarget::Missing { .. } => body.to_owned(),
    })
}

/// The text with this value at the path. Creates the missing objects.
pub(super) fn set_value(body: &str, names: &[&str], value: &Value) -> Result<String, ConfigError> {
    let readable = replace_lone_surrogates(body);
    let document = JsonDocument::parse(&readable)?;
    Ok(match document.find_target(names)? {
        PathTarget::EmptyDocument => new_document(body, &nest_value(names, value)),
        PathTarget::Missing { map, depth } => {
            let (braces, style) = (object_pairs(body, map), document.object_style(body, map));
            let value = nest_value(&names[depth + 1..], value);
            let indent =
                if style.is_multiline { braces.pair_indent(style.unit) } else { String::new() };
            braces.append_pair(&print_property(names[depth], &value, style, &indent), style)
        }
        PathTarget::Found { map, index } => {
            let property = &map.properties[index];
            // An equal value keeps its notation.
            if Value::from(property.value.clone()) == *value {
                return Ok(body.to_owned());
            }
            let indent = text::line_indent(body, property.start());
            let printed = print_value(value, document.object_style(body, map), indent);
            let range = property.value.start()..property.value.end();
            text::replace_ranges(body, vec![(range, printed)])
        }
    })
}

/// The items of the list at this path; empty if there is none.
pub(super) fn find_items(body: &str, names: &[&str]) -> Result<Vec<Value>, ConfigError> {
    let readable = replace_lone_surrogates(body);
    let document = JsonDocument::parse(&readable)?;
    let Some((_, list)) = document.find_list(names)? else { return Ok(Vec::new()) };
    Ok(list.elements.iter().map(|item| Value::from(item.clone())).collect())
}

/// The text with one more item at the end of a list. Creates the list and the objects around it.
pub(super) fn append_item(body: &str, names: &[&str], item: &Value) -> Result<String, ConfigError> {
    let readable = replace_lone_surrogates(body);
    let document = JsonDocument::parse(&readable)?;
    let Some((map, list)) = document.find_list(names)? else {
        return set_value(body, names, &json!([item]));
    };
    let (items, style) = (list_items(body, list), document.object_style(body, map));
    let is_multiline = items.is_multiline() || list.elements.is_empty() && style.is_multiline;
    let style = TextStyle { is_multiline, ..style };
    let indent = if is_multiline { items.pair_indent(style.unit) } else { String::new() };
    Ok(items.append_pair(&print_value(item, style, &indent), style))
}

/// The text without the items that `is_removed` accepts, and without a list of only such items.
pub(super) fn remove_items(
    body: &str,
    names: &[&str],
    is_removed: fn(&Value) -> bool,
) -> Result<String, ConfigError> {
    let readable = replace_lone_surrogates(body);
    let document = JsonDocument::parse(&readable)?;
    let Some((_, list)) = document.find_list(names)? else { return Ok(body.to_owned()) };
    let mut removed = Vec::new();
    for item in &list.elements {
        if is_removed(&Value::from(item.clone())) {
            removed.push(item.start());
        }
    }
    match removed.len() {
        0 => return Ok(body.to_owned()),
        all if all == list.elements.len() => return remove_property(body, names),
        _ => {}
    }
    Ok(list_items(body, list).remove_pairs(|item| removed.contains(&item.start)))
}

fn list_items<'a>(body: &'a str, list: &Array) -> BracedPairs<'a> {
    let items = list.elements.iter().map(|item| item.start()..item.end());
    BracedPairs { text: body, span: list.start()..list.end(), pairs: items.collect() }
}

fn nest_value(names: &[&str], value: &Value) -> Value {
    let mut nested = value.clone();
    for name in names.iter().rev() {
        nested = json!({ *name: nested });
    }
    nested
}

/// A whole file with this value, after the comments of the old text.
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

/// A parsed text, with its tokens and comments.
struct JsonDocument<'a> {
    text: &'a str,
    tokens: Vec<TokenAndRange<'a>>,
    root: Option<ast::Value<'a>>,
}

enum PathTarget<'d, 'a> {
    /// The document has no value.
    EmptyDocument,
    /// `map` has no property for the name at index `depth` of the path.
    Missing { map: &'d Object<'a>, depth: usize },
    /// The property at `index` of `map`.
    Found { map: &'d Object<'a>, index: usize },
}

impl<'a> JsonDocument<'a> {
    fn parse(text: &'a str) -> Result<Self, ConfigError> {
        let collect =
            CollectOptions { comments: CommentCollectionStrategy::AsTokens, tokens: true };
        let parsed = parse_to_ast(text, &collect, &PARSE_OPTIONS).map_err(|error| {
            let problem = error.kind().to_string();
            let problem = format!("{}{}", problem[..1].to_lowercase(), &problem[1..]);
            ConfigError::syntax_error(text, error.range().start, "JSON", &problem)
        })?;
        let document = Self { text, tokens: parsed.tokens.unwrap_or_default(), root: parsed.value };
        // The parser is more tolerant than the clients' parsers.
        document.check_characters()?;
        Ok(document)
    }

    /// Rejects characters that the parser accepts and no client does.
    fn check_characters(&self) -> Result<(), ConfigError> {
        let mut end = 0;
        for token in &self.tokens {
            self.check_white_space(end, token.start())?;
            end = token.end();
            let rest = &self.text[end..];
            let is_lone_return = rest.starts_with('\r') && !rest.starts_with("\r\n");
            if is_lone_return && matches!(token.token, Token::CommentLine(_)) {
                // Some clients continue the comment after it.
                return self.syntax_error(end, "a comment that ends with a lone CR");
            }
            if matches!(token.token, Token::String(_))
                && let Some(offset) = self.text[token.start()..end].find(|c| c < ' ')
            {
                let problem = "a line break or tab in a string; write `\\n` or `\\t`";
                return self.syntax_error(token.start() + offset, problem);
            }
        }
        self.check_white_space(end, self.text.len())
    }

    fn check_white_space(&self, start: usize, end: usize) -> Result<(), ConfigError> {
        match self.text[start..end].find(|c| !matches!(c, ' ' | '\t' | '\n' | '\r')) {
            Some(offset) => {
                self.syntax_error(start + offset, "white space that JSON does not have")
            }
            None => Ok(()),
        }
    }

    fn syntax_error(&self, position: usize, problem: &str) -> Result<(), ConfigError> {
        Err(ConfigError::syntax_error(self.text, position, "JSON", problem))
    }

    fn find_target(&self, names: &[&str]) -> Result<PathTarget<'_, 'a>, ConfigError> {
        let Some(root) = &self.root else { return Ok(PathTarget::EmptyDocument) };
        let Some(mut map) = root.as_object() else {
            let message = "the file is not a JSON object; replace its content with `{}`, or move \
                           the file away, then run the command again";
            return Err(ConfigError::at_position(self.text, root.start(), message));
        };
        for (depth, name) in names.iter().enumerate() {
            let Some(index) = self.find_property(map, name)? else {
                return Ok(PathTarget::Missing { map, depth });
            };
            if depth + 1 == names.len() {
                return Ok(PathTarget::Found { map, index });
            }
            map = self.property_object(&map.properties[index])?;
        }
        Ok(PathTarget::EmptyDocument)
    }

    fn property_object<'d>(
        &self,
        property: &'d ast::ObjectProp<'a>,
    ) -> Result<&'d Object<'a>, ConfigError> {
        if let Some(object) = property.value.as_object() {
            return Ok(object);
        }
        let name = property.name.as_str();
        let message = format!(
            "`{name}` is not an object; remove it, or replace its value with `{{}}`, then run the \
             command again"
        );
        Err(ConfigError::at_position(self.text, property.value.start(), &message))
    }

    /// The list at this path, and the object around it.
    fn find_list(&self, names: &[&str]) -> Result<Option<(&Object<'a>, &Array<'a>)>, ConfigError> {
        let PathTarget::Found { map, index } = self.find_target(names)? else { return Ok(None) };
        let property = &map.properties[index];
        if let Some(list) = property.value.as_array() {
            return Ok(Some((map, list)));
        }
        let message = format!(
            "`{}` is not a list; remove it, or replace its value with `[]`, then run the command \
             again",
            property.name.as_str()
        );
        Err(ConfigError::at_position(self.text, property.value.start(), &message))
    }

    /// The index of the property of this name.
    fn find_property(&self, map: &Object<'_>, name: &str) -> Result<Option<usize>, ConfigError> {
        let mut found = None;
        let mut is_duplicate = false;
        for (index, property) in map.properties.iter().enumerate() {
            if property.name.as_str() == name {
                is_duplicate = found.is_some();
                found = Some(index);
            }
        }
        if let Some(index) = found
            && is_duplicate
        {
            // Clients differ in which of them they read.
            let message = format!(
                "`{name}` occurs twice in this object; remove one, then run the command again"
            );
            let position = map.properties[index].start();
            return Err(ConfigError::at_position(self.text, position, &message));
        }
        Ok(found)
    }

    /// The style of an object, or of the file if the object has no properties.
    fn object_style<'b>(&self, body: &'b str, object: &Object) -> TextStyle<'b> {
        let is_root = self.root.as_ref().is_some_and(|root| root.start() == object.start());
        let is_multiline = object_pairs(body, object).is_multiline()
            || (object.properties.is_empty() && (is_root || body.trim().contains('\n')));
        let mut unit = "  ";
        for token in &self.tokens {
            // Comments may have any indentation.
            if matches!(token.token, Token::CommentLine(_) | Token::CommentBlock(_)) {
                continue;
            }
            let indent = text::line_indent(body, token.start());
            if text::is_first_in_line(body, token.start()) && !indent.is_empty() {
                unit = indent;
                break;
            }
        }
        let colon = self.tokens.iter().find(|token| token.token == Token::Colon);
        // Minified files stay minified.
        let is_dense = colon.is_some_and(|colon| !body[colon.end()..].starts_with([' ', '\t']));
        let space = if is_dense && !is_multiline { "" } else { " " };
        TextStyle { line_end: text::line_end(body), unit, space, is_multiline }
    }
}

fn print_property(key: &str, value: &Value, style: TextStyle, indent: &str) -> String {
    format!("{}:{}{}", Value::from(key), style.space, print_value(value, style, indent))
}

/// A list is on one line unless it contains objects or lists.
fn print_value(value: &Value, style: TextStyle, indent: &str) -> String {
    let TextStyle { line_end, unit, space, is_multiline } = style;
    let inner = format!("{indent}{unit}");
    let mut items = Vec::new();
    let (open, close, is_flat) = match value {
        Value::Object(map) => {
            for (key, value) in map {
                items.push(print_property(key, value, style, &inner));
            }
            ("{", "}", false)
        }
        Value::Array(values) => {
            for value in values {
                items.push(print_value(value, style, &inner));
            }
            ("[", "]", !values.iter().any(|value| value.is_object() || value.is_array()))
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

/// The text with `\ufffd` for each lone surrogate escape, at the same positions.
///
/// JavaScript writes one if it cuts a text inside an emoji, and the parser rejects it.
fn replace_lone_surrogates(text: &str) -> Cow<'_, str> {
    let mut replaced = Cow::Borrowed(text);
    let mut position = 0;
    while let Some(offset) = text[position..].find('\\') {
        position += offset;
        match (surrogate_at(text, position), surrogate_at(text, position + 6)) {
            (None, _) => {
                let escaped = text[position + 1..].chars().next();
                position += 1 + escaped.map_or(0, char::len_utf8);
            }
            (Some(0xD800..0xDC00), Some(0xDC00..0xE000)) => position += 12,
            _ => {
                replaced.to_mut().replace_range(position..position + 6, "\\ufffd");
                position += 6;
            }
        }
    }
    replaced
}

fn surrogate_at(text: &str, position: usize) -> Option<u32> {
    let digits = text.get(position..position + 6)?.strip_prefix("\\u")?;
    let unit = u32::from_str_radix(digits, 16).ok()?;
    if (0xD800..0xE000).contains(&unit) { Some(unit) } else { None }
}

/// JSON with comments and trailing commas, but no other JSON5 syntax.
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
