//! Removes secrets from logs, audit rows and messages, in one pass over untrusted text.

use std::borrow::Cow;

use super::token::PREFIX;

const HIDDEN: &str = "****";
const BEARER: &[u8] = b"bearer";
const SCHEME_END: &[u8] = b"://";

/// Hides our tokens, credentials after `Bearer`, and user information in URLs.
pub fn redact(text: &str) -> Cow<'_, str> {
    let mut clean = String::new();
    let mut kept = 0;
    let mut at = 0;
    let mut run = Run::default();
    while at < text.len() {
        match secret(text.as_bytes(), at, &mut run) {
            Some((start, end)) => {
                clean.push_str(&text[kept..start]);
                clean.push_str(HIDDEN);
                (kept, at) = (end, end);
            }
            None => at += 1,
        }
    }
    if kept == 0 {
        return Cow::Borrowed(text);
    }
    clean.push_str(&text[kept..]);
    Cow::Owned(clean)
}

/// The range of the secret that is announced at `at`. Never empty and never before `at`.
fn secret(text: &[u8], at: usize, run: &mut Run) -> Option<(usize, usize)> {
    match text[at] {
        b'r' if text[at..].starts_with(PREFIX.as_bytes()) => token(text, at + PREFIX.len()),
        b'b' | b'B' if starts_with(&text[at..], BEARER) => bearer(text, at + BEARER.len()),
        b':' if text[at..].starts_with(SCHEME_END) => {
            userinfo(text, at + SCHEME_END.len(), run.around(text, at))
        }
        _ => None,
    }
}

/// A token's id is public and stays.
fn token(text: &[u8], from: usize) -> Option<(usize, usize)> {
    let end = from + count(&text[from..], is_word);
    let id = from + 13;
    let start = if id <= end && text[id - 1] == b'_' { id } else { from };
    (start < end).then_some((start, end))
}

fn bearer(text: &[u8], from: usize) -> Option<(usize, usize)> {
    let spaces = count(&text[from..], |byte| byte == b' ' || byte == b'\t');
    let start = from + spaces;
    let end = start + count(&text[start..], is_credential);
    // A short word is prose.
    (spaces > 0 && end - start >= 16).then_some((start, end))
}

/// RFC 3986, 3.2. Passwords may be unescaped, so the last `@` ends them, and a "port" that is not a
/// number begins a password with a slash.
fn userinfo(text: &[u8], from: usize, run: &Run) -> Option<(usize, usize)> {
    let authority = &text[from..run.end];
    let authority = &authority[..count(authority, |byte| !b"/?#".contains(&byte))];
    if let Some(end) = authority.iter().rposition(|byte| *byte == b'@') {
        return (end > 0).then_some((from, from + end));
    }
    let port = authority.iter().position(|byte| *byte == b':');
    let port = port.filter(|_| !authority.starts_with(b"["))?;
    let is_number = authority[port + 1..].iter().all(u8::is_ascii_digit);
    run.at_sign.filter(|sign| !is_number && *sign > from).map(|end| (from, end))
}

/// The text up to the next space or quote, scanned once.
#[derive(Default)]
struct Run {
    end: usize,
    at_sign: Option<usize>,
}

impl Run {
    fn around(&mut self, text: &[u8], at: usize) -> &Self {
        if at >= self.end {
            let is_inside = |byte: u8| !byte.is_ascii_whitespace() && !b"\"'`<>".contains(&byte);
            self.end = at + count(&text[at..], is_inside);
            let at_sign = text[at..self.end].iter().rposition(|byte| *byte == b'@');
            self.at_sign = at_sign.map(|sign| at + sign);
        }
        self
    }
}

fn count(text: &[u8], is_part: impl Fn(u8) -> bool) -> usize {
    text.iter().take_while(|byte| is_part(**byte)).count()
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// RFC 6750, 2.1.
fn is_credential(byte: u8) -> bool {
    is_word(byte) || b"-.~+/=".contains(&byte)
}

fn starts_with(text: &[u8], word: &[u8]) -> bool {
    text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TOKEN: &str = "reqlore_pat_Ab3dEf6hIj9l_0123456789abcdefghijklmnopqrstuv_A1b2C3";

    fn check(text: &str, clean: &str) {
        assert_eq!(redact(text), clean);
        assert_eq!(redact(clean), clean, "what is clean stays as it is");
    }

    // S5: 5.3
    #[test]
    fn a_token_keeps_its_id_and_loses_the_rest() {
        check(&format!("got {TOKEN}."), "got reqlore_pat_Ab3dEf6hIj9l_****.");
        check("reqlore_pat_short", "reqlore_pat_****");
        check(&format!("{TOKEN},{TOKEN}"), &["reqlore_pat_Ab3dEf6hIj9l_****"; 2].join(","));
        check(&format!("é{TOKEN}é"), "éreqlore_pat_Ab3dEf6hIj9l_****é");
    }

    // S5: 5.3
    #[test]
    fn what_follows_bearer_goes_whoever_made_it() {
        check("authorization: bearer ghp_0123456789abcdef", "authorization: bearer ****");
        check("Bearer\t  a.b-c~d+e/f=0123456789", "Bearer\t  ****");
        check(&format!("Bearer {TOKEN}"), "Bearer ****");
        check("bearer of news", "bearer of news");
    }

    // S5: 5.3
    #[test]
    fn what_stands_before_a_host_goes() {
        for (text, clean) in [
            ("postgres://me:secret@db:5432/x", "postgres://****@db:5432/x"),
            ("(https://ghp_abc@host/x)", "(https://****@host/x)"),
            ("a://u:p@x b://u:p@y", "a://****@x b://****@y"),
            // Characters that should have been escaped.
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
    fn what_looks_like_a_secret_and_is_none_hides_no_later_one() {
        check("the bearer token: Bearer 0123456789abcdef", "the bearer token: Bearer ****");
        check(
            &format!("reqlore_pat_ and {TOKEN}"),
            "reqlore_pat_ and reqlore_pat_Ab3dEf6hIj9l_****",
        );
        check("x://host y://u:p@host", "x://host y://****@host");
    }

    /// With a scan of the rest at each find this would take minutes.
    #[test]
    fn long_texts_full_of_beginnings_are_read_once() {
        for part in ["Bearer 0123456789abcdef ", "reqlore_pat_a ", "x://a:b/", "://", "bearer "] {
            let text = part.repeat(1024 * 1024 / part.len());
            assert!(redact(&text).len() <= 2 * text.len());
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in "(Bearer |reqlore_pat_|://|[a-z]{1,20}|[@:/é \\[]){0,12}") {
            let clean = redact(&text).into_owned();
            prop_assert_eq!(redact(&clean), clean.as_str());
        }
    }
}
