//! Values as front matter writes them.
//!
//! Text is plain only where every YAML reader takes it for text, not just ours: `no`, `1.0` and
//! `2026-11-22` as titles are quoted.

use std::fmt::Write;

use crate::time::Timestamp;
use crate::yaml;

/// A value that a key is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Text(String),
    Number(u64),
    Time(Timestamp),
    /// Texts.
    List(Vec<String>),
    /// Texts under keys.
    Map(Vec<(String, String)>),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl Value {
    /// On one line.
    pub(super) fn render(&self) -> String {
        match self {
            Self::Text(text) => scalar(text, false),
            Self::Number(number) => number.to_string(),
            Self::Time(time) => time.rfc3339(),
            Self::List(items) => {
                let items: Vec<String> = items.iter().map(|item| scalar(item, true)).collect();
                format!("[{}]", items.join(", "))
            }
            Self::Map(entries) => {
                let entry = |(key, value): &(String, String)| {
                    format!("{}: {}", scalar(key, true), scalar(value, true))
                };
                let entries: Vec<String> = entries.iter().map(entry).collect();
                format!("{{{}}}", entries.join(", "))
            }
        }
    }

    /// Does a reader find exactly this?
    pub(super) fn is(&self, read: &yaml::Value) -> bool {
        let text = |value: &yaml::Value, text: &str| match value {
            yaml::Value::Scalar(found) => found == text,
            _ => false,
        };
        match (self, read) {
            (Self::Text(given), _) => text(read, given),
            (Self::Number(number), _) => text(read, &number.to_string()),
            (Self::Time(time), _) => text(read, &time.rfc3339()),
            (Self::List(given), yaml::Value::List(read)) => {
                given.len() == read.len()
                    && given.iter().zip(read).all(|(given, node)| text(&node.value, given))
            }
            (Self::Map(given), yaml::Value::Map(read)) => {
                given.len() == read.len()
                    && given
                        .iter()
                        .zip(read)
                        .all(|((key, given), (name, node))| key == name && text(&node.value, given))
            }
            _ => false,
        }
    }
}

/// A text as a scalar: plain, else in double quotes. In `[…]` and `{…}` more needs quotes.
pub(super) fn scalar(text: &str, in_flow: bool) -> String {
    if is_plain(text, in_flow) { text.to_owned() } else { quoted(text) }
}

fn is_plain(text: &str, in_flow: bool) -> bool {
    let begins = |c: char| c.is_alphanumeric() || matches!(c, '(' | '/' | '_') || !c.is_ascii();
    text.starts_with(begins)
        && text.trim() == text
        && !text.contains(is_odd)
        && !text.contains(": ")
        && !text.ends_with(':')
        && !text.contains(" #")
        && !(in_flow && text.contains([',', '[', ']', '{', '}', ':']))
        && !is_typed(text)
}

/// Does some reader take it for something else than text: a number, a truth value, a time?
fn is_typed(text: &str) -> bool {
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

/// Is it a character that a plain scalar can't hold or that nobody sees?
fn is_odd(c: char) -> bool {
    c.is_control()
        || (c.is_whitespace() && c != ' ')
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(c, '\u{feff}' | '\u{fff0}'..='\u{ffff}')
}

fn quoted(text: &str) -> String {
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
            c if is_odd(c) => _ = write!(out, "\\u{:04X}", u32::from(c)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_plain_only_where_every_reader_takes_it_for_text() {
        for plain in [
            "Reset the password",
            "it's \"quoted\" inside",
            "a:b #c",
            "0192f3a0-7b1c-7def-8a90-3f9a1c20aabb",
            "Überweisung [alt]",
            "🚀 Start",
            "(draft) a, b",
            "3 tries",
        ] {
            let expected =
                if plain == "a:b #c" { format!("\"{plain}\"") } else { plain.to_owned() };
            assert_eq!(scalar(plain, false), expected);
        }
        for odd in [
            "",
            " a",
            "a ",
            "a: b",
            "a:",
            "a #b",
            "- a",
            "? a",
            "[a",
            "{a",
            "*a",
            "&a",
            "!a",
            "%a",
            "@a",
            "`a",
            "|",
            ">",
            "'a'",
            "\"a\"",
            "#a",
            "~",
            "null",
            "Yes",
            "no",
            "1.0",
            "1e3",
            "0x1F",
            "1_000",
            "12:30",
            "2026-11-22",
            "2026-11-22T08:10:43Z",
            ".inf",
            "nan",
            "---",
            "...",
            "<<",
            "=",
            "a\tb",
            "a\u{85}b",
            "a\u{2028}b",
            "\u{feff}a",
        ] {
            let rendered = scalar(odd, false);
            assert!(rendered.starts_with('"') && rendered.ends_with('"'), "{rendered}");
        }
        assert_eq!(scalar("a, b", true), "\"a, b\"");
        assert_eq!(scalar("a\u{2028}\\\"\t", false), "\"a\\u2028\\\\\\\"\\t\"");
    }
}
