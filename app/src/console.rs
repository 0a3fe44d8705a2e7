//! Encodes output for terminals and CI logs, where text may be executed.
//!
//! GitHub Actions executes lines that begin with `::name`. It and other CI systems also execute
//! `##[name]`, `##vso[name]` and `##teamcity[name]` within a line.

use std::borrow::Cow;
use std::io::{self, Write};

use reqlore_domain::identity::redact_secrets;
use reqlore_domain::untrusted_text::{encode_json, encode_lines};

/// Text with its lines, without terminal controls and commands of CI systems.
pub(crate) fn encode_console(text: &str) -> String {
    // The files of a Windows user end their lines with CR LF.
    let text = text.replace("\r\n", "\n");
    let text = encode_lines(&text);
    let mut encoded = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let content = line.trim_start();
        let name = content.strip_prefix("::").unwrap_or_default();
        if name.starts_with(|c: char| c.is_ascii_alphabetic()) {
            encoded.extend([&line[..line.len() - content.len()], r"\u{3a}:"]);
            encoded.push_str(&break_commands(name, r"#\u{23}"));
        } else {
            encoded.push_str(&break_commands(line, r"#\u{23}"));
        }
    }
    encoded
}

/// Prints a message on standard error, without secrets and encoded like all output.
pub(crate) fn eprint_line(message: &str) {
    let message = encode_console(&redact_secrets(message));
    // If this fails, there is nowhere to report it. `eprintln!` would panic.
    let _ = writeln!(io::stderr().lock(), "{message}");
}

/// The text of a JSON value, with the same value.
pub(crate) fn encode_console_json(json: String) -> String {
    // Only strings of JSON contain `#`.
    match break_commands(&encode_json(json), r"#\u0023") {
        Cow::Owned(encoded) => encoded,
        Cow::Borrowed(json) => json.to_owned(),
    }
}

/// Replaces `##` before a name and a bracket.
fn break_commands<'a>(text: &'a str, replacement: &str) -> Cow<'a, str> {
    let mut encoded = String::new();
    let mut copied = 0;
    for (bracket, _) in text.match_indices('[') {
        let start = text[..bracket].trim_end_matches(|c: char| c.is_ascii_alphabetic());
        if let Some(before) = start.strip_suffix("##") {
            encoded.extend([&text[copied..before.len()], replacement]);
            copied = start.len();
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    Cow::Owned(encoded + &text[copied..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn console_text_has_no_terminal_controls() {
        let text = "a\r\n\tb\x1b[2J\rc\u{9b}1m\u{202e}\n";
        assert_eq!(encode_console(text), "a\n\tb\\u{1b}[2J\\rc\\u{9b}1m\\u{202e}\n");
    }

    #[test]
    fn console_text_has_no_commands_of_ci_systems() {
        for (text, encoded) in [
            ("::error::x\n  ::group::y\n", "\\u{3a}:error::x\n  \\u{3a}:group::y\n"),
            ("a ::error::x\n:::note\n:: x\n", "a ::error::x\n:::note\n:: x\n"),
            ("## Title\n# [x]\n##\n", "## Title\n# [x]\n##\n"),
            ("a ##[error]b ###vso[c]", "a #\\u{23}[error]b ##\\u{23}vso[c]"),
            ("::x ##teamcity[y]", "\\u{3a}:x #\\u{23}teamcity[y]"),
        ] {
            assert_eq!(encode_console(text), encoded, "{text}");
        }
    }

    #[test]
    fn console_json_keeps_the_value() {
        let value = serde_json::json!({ "a": "##vso[x]\u{9b}" });
        let text = encode_console_json(value.to_string());
        assert_eq!(text, r##"{"a":"#\u0023vso[x]\u009b"}"##);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
