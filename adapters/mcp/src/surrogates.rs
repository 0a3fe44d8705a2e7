//! Replaces lone surrogates in JSON by U+FFFD, and lets the answer say so.

use serde_json::{Map, Value, json};

/// Replaces the escapes of lone surrogates, which no string can contain, by that of U+FFFD. `None`
/// if there are none.
pub(crate) fn replace_lone_surrogates(text: &[u8]) -> Option<Vec<u8>> {
    let mut repaired = Vec::new();
    let mut at = 0;
    while at < text.len() {
        at += match unicode_escape(&text[at..]) {
            Some(0xD800..=0xDBFF)
                if matches!(unicode_escape(&text[at + 6..]), Some(0xDC00..=0xDFFF)) =>
            {
                12
            }
            Some(0xD800..=0xDFFF) => {
                if repaired.is_empty() {
                    repaired = text.to_vec();
                }
                repaired[at + 2..at + 6].copy_from_slice(b"fffd");
                6
            }
            // The second byte of an escape may be a backslash.
            None if text[at] == b'\\' => 2,
            _ => 1,
        };
    }
    (!repaired.is_empty()).then_some(repaired)
}

/// The code of an escape such as `\u00e9` at the start of the text.
fn unicode_escape(text: &[u8]) -> Option<u32> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    // `from_str_radix` also accepts a sign.
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// The key in `_meta` of a request that contained lone surrogates.
const REPLACED_SURROGATES: &str = "reqlore/replaced-surrogates";

/// Marks the requests in which surrogates were replaced, so that their answers can say so.
pub(crate) fn mark_replacements(message: &mut Value) {
    if let Value::Array(members) = message {
        return members.iter_mut().for_each(mark_replacements);
    }
    let is_affected = message.to_string().contains(char::REPLACEMENT_CHARACTER);
    if is_affected
        && let Some(Value::Object(params)) = message.get_mut("params")
        && let Value::Object(meta) = params.entry("_meta").or_insert_with(|| json!({}))
    {
        meta.insert(REPLACED_SURROGATES.to_owned(), Value::Bool(true));
    }
}

/// True if lone surrogates of this request were replaced.
pub(crate) fn has_replacements(meta: &Map<String, Value>) -> bool {
    meta.contains_key(REPLACED_SURROGATES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jsonrpc::parse_json;

    #[test]
    fn lone_surrogate_becomes_the_replacement_character() {
        for (text, expected) in [
            (r#""\ud800""#, "\u{fffd}"),
            (r#""a\uDC00b""#, "a\u{fffd}b"),
            (r#""\ud83d\ud83d\ude00""#, "\u{fffd}\u{1f600}"),
            (r#""\ude00\ud83d""#, "\u{fffd}\u{fffd}"),
            (r#""\ud800\n""#, "\u{fffd}\n"),
            (r#""\\\ud800""#, "\\\u{fffd}"),
        ] {
            let parsed = parse_json(text.as_bytes()).unwrap();
            assert_eq!(parsed.value, expected, "{text}");
            assert_eq!(parsed.repaired_text, Some(json!(expected).to_string()), "{text}");
        }
        for text in [r#""\\ud800""#, r#""\ud83d\ude00""#, r#""\ufffd""#] {
            assert_eq!(parse_json(text.as_bytes()).unwrap().repaired_text, None, "{text}");
        }
        for text in [r#""\ud8"#, r#""\ud800"#, r#"{"\ud800":1,"\udc00":2}"#] {
            assert!(parse_json(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn only_affected_requests_of_a_batch_are_marked() {
        let batch = r#"[{"id":1,"params":{}},{"id":2,"params":{"a":"\ud800"}},{"id":3},"\ud800"]"#;
        let parsed = parse_json(batch.as_bytes()).unwrap().value;
        let marks = [0, 1, 2].map(|member| {
            parsed[member]["params"]["_meta"].as_object().is_some_and(has_replacements)
        });
        assert_eq!(marks, [false, true, false]);
    }
}
