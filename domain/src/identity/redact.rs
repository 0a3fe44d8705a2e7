//! No secret in any log, audit row or message (S5 5.3).

use std::borrow::Cow;

use super::token::PREFIX;

/// What stands where a secret stood.
const HIDDEN: &str = "****";

/// The text without tokens of ours and without what follows `Bearer`, whoever wrote it.
pub fn redact(text: &str) -> Cow<'_, str> {
    let mut rest = text;
    let mut clean = String::new();
    while let Some((start, end)) = secret(rest) {
        clean.push_str(&rest[..start]);
        clean.push_str(HIDDEN);
        rest = &rest[end..];
    }
    if clean.is_empty() && rest.len() == text.len() {
        return Cow::Borrowed(text);
    }
    clean.push_str(rest);
    Cow::Owned(clean)
}

/// The first secret's place. A token's id is no secret and stays.
fn secret(text: &str) -> Option<(usize, usize)> {
    let token = text.find(PREFIX).map(|found| {
        let from = found + PREFIX.len();
        let id = text[from..].bytes().take(13).take_while(|byte| is_word(*byte)).count();
        let from = if id == 13 && text.as_bytes()[from + 12] == b'_' { from + 13 } else { from };
        let length = text[from..].bytes().take_while(|byte| is_word(*byte)).count();
        (from, from + length)
    });
    let bearer = find_ignoring_case(text, b"bearer ").and_then(|found| {
        let from = found + b"bearer ".len();
        let length = text[from..].bytes().take_while(|byte| is_credential(*byte)).count();
        // A short word is no credential but prose.
        (length >= 16).then_some((from, from + length))
    });
    let token = token.filter(|(start, end)| end > start);
    match (token, bearer) {
        (Some(one), Some(other)) if other.0 <= one.0 && other.1 >= one.1 => Some(other),
        (Some(one), Some(other)) => Some(if one.0 <= other.0 { one } else { other }),
        (one, other) => one.or(other),
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// RFC 6750, 2.1.
fn is_credential(byte: u8) -> bool {
    is_word(byte) || b"-.~+/=".contains(&byte)
}

fn find_ignoring_case(text: &str, word: &[u8]) -> Option<usize> {
    text.as_bytes().windows(word.len()).position(|window| window.eq_ignore_ascii_case(word))
}
