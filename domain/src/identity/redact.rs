//! Removes secrets from logs, audit rows and messages.
//!
//! The text is untrusted and may be large, so it is scanned once.

use std::borrow::Cow;

use super::token::{ID_LETTERS, SESSION_PREFIX, TOKEN_PREFIX};
use crate::bounded_types::truncate_echo;
use crate::untrusted_text::encode_line;

const HIDDEN: &str = "****";
const BEARER: &[u8] = b"bearer";
const SCHEME_END: &[u8] = b"://";

/// The beginning of a caller's text for an error, on one line and without secrets.
pub fn redact_echo(text: &str) -> String {
    // Redacted first: a secret that is cut in the middle would not be recognized.
    encode_line(truncate_echo(&redact_secrets(text))).into_owned()
}

/// Replaces Reqlore tokens and sessions, credentials after `Bearer`, and user information in URLs
/// with `****`.
pub fn redact_secrets(text: &str) -> Cow<'_, str> {
    let mut redacted = String::new();
    let mut copied = 0;
    let mut at = 0;
    let mut word = UrlWord::default();
    while at < text.len() {
        if let Some((start, end)) = find_secret(text.as_bytes(), at, &mut word) {
            redacted.push_str(&text[copied..start]);
            redacted.push_str(HIDDEN);
            // Continues after the secret, so that no part of it is scanned again.
            (copied, at) = (end, end);
        } else {
            at += 1;
        }
    }
    // Most texts contain no secret and are not copied.
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    redacted.push_str(&text[copied..]);
    Cow::Owned(redacted)
}

/// The range of a secret whose prefix is at `at`. Not empty, and not before `at`.
fn find_secret(text: &[u8], at: usize, word: &mut UrlWord) -> Option<(usize, usize)> {
    match text[at] {
        b'r' if [TOKEN_PREFIX, SESSION_PREFIX]
            .iter()
            .any(|p| text[at..].starts_with(p.as_bytes())) =>
        {
            find_token(text, at + TOKEN_PREFIX.len())
        }
        b'b' | b'B' if starts_with_ignoring_case(&text[at..], BEARER) => {
            find_credential(text, at + BEARER.len())
        }
        b':' if text[at..].starts_with(SCHEME_END) => {
            word.extend_over(text, at);
            find_userinfo(text, at + SCHEME_END.len(), word)
        }
        _ => None,
    }
}

/// The secret of a token. Its id is public and stays.
fn find_token(text: &[u8], from: usize) -> Option<(usize, usize)> {
    let end = from + prefix_length(&text[from..], is_word);
    let after_id = from + ID_LETTERS + 1;
    let has_id = after_id <= end && text[after_id - 1] == b'_';
    let start = if has_id { after_id } else { from };
    (start < end).then_some((start, end))
}

fn find_credential(text: &[u8], from: usize) -> Option<(usize, usize)> {
    const MIN_CREDENTIAL_BYTES: usize = 16;
    let spaces = prefix_length(&text[from..], |byte| byte == b' ' || byte == b'\t');
    let start = from + spaces;
    let end = start + prefix_length(&text[start..], is_credential);
    // A short word after "bearer" is prose.
    (spaces > 0 && end - start >= MIN_CREDENTIAL_BYTES).then_some((start, end))
}

/// The user information of a URL (RFC 3986, 3.2), which may contain unescaped characters. The last
/// `@` ends it. If the port is not a number, it is the beginning of a password with a slash.
fn find_userinfo(text: &[u8], from: usize, word: &UrlWord) -> Option<(usize, usize)> {
    let authority = &text[from..word.end];
    let authority = &authority[..prefix_length(authority, |byte| !b"/?#".contains(&byte))];
    if let Some(length) = authority.iter().rposition(|byte| *byte == b'@') {
        return (length > 0).then_some((from, from + length));
    }
    if authority.starts_with(b"[") {
        // An IPv6 address.
        return None;
    }
    let colon = authority.iter().position(|byte| *byte == b':')?;
    let is_port = authority[colon + 1..].iter().all(u8::is_ascii_digit);
    match word.last_at_sign {
        Some(at_sign) if !is_port && at_sign > from => Some((from, at_sign)),
        _ => None,
    }
}

/// The text up to the next space or quote. Cached, so that a word with many URLs is scanned once.
#[derive(Default)]
struct UrlWord {
    end: usize,
    last_at_sign: Option<usize>,
}

impl UrlWord {
    fn extend_over(&mut self, text: &[u8], at: usize) {
        if at < self.end {
            return;
        }
        self.end = at
            + prefix_length(&text[at..], |byte| {
                !byte.is_ascii_whitespace() && !b"\"'`<>".contains(&byte)
            });
        let at_sign = text[at..self.end].iter().rposition(|byte| *byte == b'@');
        self.last_at_sign = at_sign.map(|offset| at + offset);
    }
}

fn prefix_length(text: &[u8], is_part: impl Fn(u8) -> bool) -> usize {
    text.iter().take_while(|byte| is_part(**byte)).count()
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The characters of a bearer token (RFC 6750, 2.1).
fn is_credential(byte: u8) -> bool {
    is_word(byte) || b"-.~+/=".contains(&byte)
}

fn starts_with_ignoring_case(text: &[u8], word: &[u8]) -> bool {
    text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TOKEN: &str = "reqlore_pat_Ab3dEf6hIj9l_0123456789abcdefghijklmnopqrstuv_A1b2C3";

    #[test]
    fn echo_that_cuts_a_secret_does_not_show_its_beginning() {
        let text = format!("{}https://ann:password{}@host", "x".repeat(80), "y".repeat(50));
        assert!(!redact_echo(&text).contains("password"));
    }

    #[track_caller]
    fn check(text: &str, redacted: &str) {
        assert_eq!(redact_secrets(text), redacted);
        assert_eq!(redact_secrets(redacted), redacted, "redacting twice changes nothing");
    }

    // S5: 5.3
    #[test]
    fn redact_of_a_token_keeps_its_id() {
        check(&format!("got {TOKEN}."), "got reqlore_pat_Ab3dEf6hIj9l_****.");
        check("reqlore_pat_short", "reqlore_pat_****");
        check(&format!("{TOKEN},{TOKEN}"), &["reqlore_pat_Ab3dEf6hIj9l_****"; 2].join(","));
        check(&format!("é{TOKEN}é"), "éreqlore_pat_Ab3dEf6hIj9l_****é");
    }

    // S5: 5.3
    #[test]
    fn redact_hides_any_credential_after_bearer() {
        check("authorization: bearer ghp_0123456789abcdef", "authorization: bearer ****");
        check("Bearer\t  a.b-c~d+e/f=0123456789", "Bearer\t  ****");
        check(&format!("Bearer {TOKEN}"), "Bearer ****");
        check("bearer of news", "bearer of news");
    }

    // S5: 5.3
    #[test]
    fn redact_hides_user_information_in_urls() {
        for (text, clean) in [
            ("postgres://me:secret@db:5432/x", "postgres://****@db:5432/x"),
            ("(https://ghp_abc@host/x)", "(https://****@host/x)"),
            ("a://u:p@x b://u:p@y", "a://****@x b://****@y"),
            // Unescaped characters.
            ("postgres://me:se@cret@db/x", "postgres://****@db/x"),
            ("postgres://me:se/cr#et@db/x", "postgres://****@db/x"),
        ] {
            check(text, clean);
        }
        for harmless in [
            "https://host/@scope/package",
            "http://127.0.0.1:8080/api?mail=a@b",
            "http://[::1]:80/a@b",
            "epic://EP-001 of me@example.org",
            "https://@host",
        ] {
            check(harmless, harmless);
        }
    }

    #[test]
    fn redact_finds_a_secret_after_a_mere_prefix() {
        check("the bearer token: Bearer 0123456789abcdef", "the bearer token: Bearer ****");
        check(
            &format!("reqlore_pat_ and {TOKEN}"),
            "reqlore_pat_ and reqlore_pat_Ab3dEf6hIj9l_****",
        );
        check("x://host y://u:p@host", "x://host y://****@host");
    }

    /// With a scan of the rest at each prefix, this test would take minutes.
    #[test]
    fn redact_of_many_prefixes_scans_the_text_once() {
        for part in ["Bearer 0123456789abcdef ", "reqlore_pat_a ", "x://a:b/", "://", "bearer "] {
            let text = part.repeat(1024 * 1024 / part.len());
            assert!(redact_secrets(&text).len() <= 2 * text.len());
        }
    }

    proptest! {
        #[test]
        fn redact_twice_changes_nothing(text in "(Bearer |reqlore_pat_|://|[a-z]{1,20}|[@:/é \\[]){0,12}") {
            let clean = redact_secrets(&text).into_owned();
            prop_assert_eq!(redact_secrets(&clean), clean.as_str());
        }
    }
}
