//! Finds the id of a message that is broken, so that its client gets the error.

use serde_json::Value;

/// Returns the id that the beginning of a message has as a complete member of its top level; null
/// if it has none or several. The text must be valid JSON as far as it goes.
pub(crate) fn leading_id(start: &[u8]) -> Value {
    let (mut depth, mut at) = (0_usize, 0);
    let mut key: &[u8] = b"";
    let mut id = None;
    while let Some(byte) = start.get(at) {
        match byte {
            b'"' => {
                let Some(length) = string_length(&start[at..]) else { break };
                key = &start[at..at + length];
                at += length - 1;
            }
            // The top level of a batch is not a message.
            b'[' if depth == 0 => break,
            b'{' | b'[' => depth += 1,
            // The end of the message.
            b'}' | b']' if depth <= 1 => break,
            b'}' | b']' => depth -= 1,
            b':' if depth == 1
                && serde_json::from_slice(key).is_ok_and(|key: String| key == "id") =>
            {
                if id.is_some() {
                    return Value::Null;
                }
                id = Some(complete_id(&start[at + 1..]));
            }
            _ => {}
        }
        at += 1;
    }
    id.unwrap_or_default()
}

/// Returns the string or number at the start of the text; null if it may continue after the text.
fn complete_id(text: &[u8]) -> Value {
    // Checked first, because an object could be large.
    if !matches!(text.trim_ascii_start().first(), Some(b'"' | b'-' | b'0'..=b'9')) {
        return Value::Null;
    }
    let mut values = serde_json::Deserializer::from_slice(text).into_iter::<Value>();
    match values.next() {
        Some(Ok(id)) if id.is_string() || values.byte_offset() < text.len() => {
            request_id(Some(&id))
        }
        _ => Value::Null,
    }
}

/// Returns the bytes of the string at the start of the text, with its quotes; `None` without an
/// end.
fn string_length(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Returns the id for the response: null unless the request's id is a string or a number.
pub fn request_id(id: Option<&Value>) -> Value {
    match id {
        // MCP rejects fractions, but JSON-RPC 2.0 allows them, so the error has them as its id.
        Some(id) if id.is_string() || id.is_number() => id.clone(),
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::jsonrpc::{id_of_start, parse_message};

    /// The id of the error for a text that is not a message.
    fn error_id(text: &str) -> Value {
        let response = parse_message(text.as_bytes()).unwrap_err().response.unwrap();
        serde_json::from_slice::<Value>(&response).unwrap()["id"].take()
    }

    #[test]
    fn broken_message_is_answered_with_an_id_before_the_fault() {
        for (text, id) in [
            (r#"{"jsonrpc":"2.0","id":7,"method":"#, json!(7)),
            (r#"{"id":7,"#, json!(7)),
            (r#"{"id":7.5,"#, json!(7.5)),
            (r#"{"id":7 "method""#, json!(7)),
            (r#"{"id":7}x"#, json!(7)),
            (r#"{"id":"a","params":{]}"#, json!("a")),
            (r#"{"id":"a""#, json!("a")),
            (r#"{"\u0069d":"\"","a":tru}"#, json!("\"")),
            ("{\n \"id\" : -7 ,\n\n \"a\": x", json!(-7)),
            // Late, or perhaps not complete.
            (r#"{"params":{]},"id":7}"#, Value::Null),
            (r#"{"a":nul,"id":7}"#, Value::Null),
            (r#"{"id":7"#, Value::Null),
            (r#"{"id":7x,"a":1}"#, Value::Null),
            (r#"{"id":"ab"#, Value::Null),
            (r#"{"id":"a\"#, Value::Null),
            // Nested, quoted or several.
            (r#"{"params":{"id":7},"#, Value::Null),
            (r#"{"id":{"id":7},"#, Value::Null),
            (r#"{"a":"\"id\":7,","#, Value::Null),
            (r#"{"a":"{","b":[{"id":7}],"#, Value::Null),
            (r#"{"id":7,"id":8}"#, Value::Null),
            (r#"{"id":7,"a":1,"a":2,"id":8}"#, Value::Null),
            (r#"[{"id":7},{"#, Value::Null),
            (r#""id":7"#, Value::Null),
            // All of it is JSON, so the id can be anywhere.
            (r#"{"a":1,"a":2,"id":7}"#, json!(7)),
            (r#"{"a":1e999,"id":7}"#, json!(7)),
            (r#"{"a":1,"a":2,"id":7"#, Value::Null),
        ] {
            assert_eq!(error_id(text), id, "{text}");
        }
        let deep = format!("{}{}", "[".repeat(65), "]".repeat(65));
        assert_eq!(error_id(&format!(r#"{{"id":7,"a":{deep}}}"#)), json!(7));
        assert_eq!(error_id(&format!(r#"{{"a":{deep},"id":7}}"#)), Value::Null);
        let id = id_of_start(br#"{"a":"\ud800","id":7,"b":""#);
        assert_eq!(id, json!(7), "a lone surrogate is no error");
        assert_eq!(id_of_start(br#"{"a":x,"id":7,"b":""#), Value::Null);
        assert_eq!(id_of_start(br#"{"id":7}    "#), json!(7));
    }

    const VALUES: [&str; 8] = [
        "null",
        "-1.5e3",
        r#"{"id":91}"#,
        r#"[{"id":92},[],{"a":{"id":93}}]"#,
        r#""\"id\":94,""#,
        r#""\\""#,
        r#""{\"id\":95""#,
        r#""\u00e9\ud83d\ude00""#,
    ];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(50))]

        #[test]
        fn message_cut_anywhere_has_its_id_once_it_is_complete(
            before in prop::collection::vec(prop::sample::select(&VALUES[..]), 0..4),
            after in prop::collection::vec(prop::sample::select(&VALUES[..]), 0..4),
            id in prop_oneof![Just(json!(17)), Just(json!("x\\\",}")), Just(json!(""))],
            space in prop_oneof![Just(""), Just(" "), Just("\n\t")],
        ) {
            let member = |key: String, value: &str| {
                format!("{space}\"{key}\"{space}:{space}{value}{space}")
            };
            let mut members = Vec::new();
            for (number, value) in before.iter().enumerate() {
                members.push(member(format!("b{number}"), value));
            }
            // The id is complete from here on: a string at its quote, a number after the next byte.
            let mut end = 1 + members.iter().map(|member| member.len() + 1).sum::<usize>();
            let text = id.to_string();
            end += 3 * space.len() + "\"id\":".len() + text.len() + usize::from(id.is_i64());
            members.push(member("id".to_owned(), &text));
            for (number, value) in after.iter().enumerate() {
                members.push(member(format!("a{number}"), value));
            }
            let message = format!("{{{}}}", members.join(","));
            for cut in 0..message.len() {
                let expected = if cut >= end { &id } else { &Value::Null };
                prop_assert_eq!(&id_of_start(&message.as_bytes()[..cut]), expected);
                if let Some(start) = message.get(..cut) {
                    prop_assert_eq!(&error_id(start), expected, "{}", start);
                    prop_assert_eq!(&error_id(&format!("{start}\u{1}")), expected, "{}", start);
                }
            }
        }
    }
}
