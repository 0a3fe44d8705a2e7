//! Any line is a message, gets a valid JSON-RPC error, or is a malformed notification or response.

#![no_main]

use libfuzzer_sys::fuzz_target;
use reqlore_mcp::jsonrpc;
use serde_json::Value;

const PARSE_ERROR: i64 = -32700;

fuzz_target!(|line: &[u8]| {
    // A line with lone surrogates is JSON only for this parser.
    let repaired = || jsonrpc::parse_json(line).ok().map(|parsed| parsed.value);
    let sent = serde_json::from_slice::<Value>(line).ok().or_else(repaired);
    match jsonrpc::parse_message(line) {
        Ok(message) => {
            let sent = sent.expect("a message is JSON");
            assert_eq!(sent["jsonrpc"], "2.0");
            let read = serde_json::to_value(&message).expect("a message is JSON again");
            assert_eq!(read.get("id"), sent.get("id").filter(|id| !id.is_null()), "{sent}");
        }
        Err(malformed) => match malformed.response {
            Some(error_line) => check_error_line(line, &error_line, sent.as_ref()),
            None => {
                let sent = sent.expect("an unanswered line is JSON");
                let has = |key| sent.get(key).is_some();
                let is_notification = has("method") && !has("id");
                let is_response = !has("method") && (has("result") || has("error"));
                assert!(is_notification || is_response, "{sent}");
            }
        },
    }
});

fn check_error_line(line: &[u8], response: &[u8], sent: Option<&Value>) {
    let (end, response) = response.split_last().expect("a response is not empty");
    assert_eq!(*end, b'\n');
    assert!(!response.iter().any(|byte| matches!(byte, b'\n' | b'\r')), "an answer is one line");
    let answer: Value = serde_json::from_slice(response).expect("an answer is JSON");
    assert_eq!(answer["jsonrpc"], "2.0");
    assert!(answer.get("result").is_none() && answer["error"]["message"].is_string());
    let code = answer["error"]["code"].as_i64().expect("a code");
    let id = &answer["id"];
    assert!(id.is_null() || id.is_string() || id.is_i64(), "{answer}");
    // The answer repeats the request's ID, unless the request has two.
    let id_sent = sent.map_or(&Value::Null, |sent| &sent["id"]);
    let has_one_id = line.windows(4).filter(|part| *part == b"\"id\"").count() == 1;
    if code != PARSE_ERROR && has_one_id && (id_sent.is_string() || id_sent.is_i64()) {
        assert_eq!(id, id_sent, "{answer}");
    }
}
