//! Encodes names, titles and messages for the output that shows them.
//!
//! A document's own text is never encoded, and structured data keeps the true values.

use std::borrow::Cow;
use std::fmt::Write as _;

/// True for characters that end a line, control a terminal, are invisible, or change the direction
/// of text.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180e}'
            | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff9}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// One line of text: hidden characters become escapes like `\n` or `\u{202e}`.
pub fn encode_line(text: &str) -> Cow<'_, str> {
    encode(text, is_hidden)
}

/// Text with its lines and tabs. Other hidden characters become escapes.
pub fn encode_lines(text: &str) -> Cow<'_, str> {
    encode(text, |c| is_hidden(c) && !matches!(c, '\n' | '\t'))
}

/// An ID at the start of a line or in a list of IDs. The name of a file made by hand is quoted if
/// it could be read as more than an ID, such as `EP-001 (epic): x`.
pub fn encode_id(id: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:@$+~".contains(c);
    if id.starts_with(|c: char| c.is_alphanumeric() || "./_@$".contains(c))
        && id.chars().all(is_plain)
    {
        return Cow::Borrowed(id);
    }
    Cow::Owned(format!("\"{}\"", encode_line(&id.replace('"', "\\\""))))
}

/// The text of a JSON value, with its hidden characters as escapes of JSON.
pub fn encode_json(json: String) -> String {
    // Serializers escape control characters below U+0020, so a line end is a separator.
    let is_raw = |c: char| is_hidden(c) && c != '\n';
    if !json.contains(is_raw) {
        return json;
    }
    let mut encoded = String::with_capacity(json.len());
    for c in json.chars() {
        if is_raw(c) {
            push_json_escape(&mut encoded, c);
        } else {
            encoded.push(c);
        }
    }
    encoded
}

/// Adds a character as an escape of a JSON string.
pub fn push_json_escape(json: &mut String, c: char) {
    // JSON escapes code units of UTF-16. Writing to a string does not fail.
    for unit in c.encode_utf16(&mut [0; 2]) {
        let _ = write!(json, "\\u{unit:04x}");
    }
}

fn encode(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    let Some(start) = text.find(&is_escaped) else { return Cow::Borrowed(text) };
    let mut encoded = text[..start].to_owned();
    for c in text[start..].chars() {
        if is_escaped(c) {
            encoded.extend(c.escape_default());
        } else {
            encoded.push(c);
        }
    }
    Cow::Owned(encoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encode_line_escapes_line_ends_and_controls() {
        for (text, line) in [
            ("Größe 👨\u{200d}👩\u{200d}👧, می\u{200c}خواهم \\n", None),
            ("a\nb\rc\td", Some(r"a\nb\rc\td")),
            ("\u{1b}]52;c;x\u{7}\u{9b}1m\u{85}", Some(r"\u{1b}]52;c;x\u{7}\u{9b}1m\u{85}")),
            ("\u{2028}\u{202e}\u{2066}\u{200b}", Some(r"\u{2028}\u{202e}\u{2066}\u{200b}")),
            ("\u{feff}\u{e0041}", Some(r"\u{feff}\u{e0041}")),
            ("\u{3164}\u{115f}\u{ffa0}", Some(r"\u{3164}\u{115f}\u{ffa0}")),
        ] {
            assert_eq!(encode_line(text), line.unwrap_or(text));
        }
        assert_eq!(encode_lines("a\n\tb\r\u{9b}\n"), "a\n\tb\\r\\u{9b}\n");
    }

    #[test]
    fn encode_id_quotes_names_that_imitate_other_text() {
        for plain in ["EP-001", "general:2.1", "décision/α", "@angular/core", "$login", "_x"] {
            assert_eq!(encode_id(plain), plain);
        }
        for (id, shown) in [
            ("EP-001 (epic, Done): x", r#""EP-001 (epic, Done): x""#),
            ("- x", r#""- x""#),
            ("# x", r##""# x""##),
            ("::error::x", r#""::error::x""#),
            ("a\"b\u{202e}", r#""a\"b\u{202e}""#),
            ("", r#""""#),
        ] {
            assert_eq!(encode_id(id), shown);
        }
    }

    #[test]
    fn encode_json_keeps_the_value() {
        let value = serde_json::json!({ "a": ["\u{9b}\u{202e}\u{e0041}\n\u{7f}", "é"] });
        let text = encode_json(serde_json::to_string_pretty(&value).unwrap());
        assert!(text.contains(r"\u009b\u202e\udb40\udc41\n\u007f") && text.contains('é'), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
