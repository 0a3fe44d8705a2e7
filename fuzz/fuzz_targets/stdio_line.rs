//! Parses any line from a client: a message, an error response, or a malformed notification or
//! response, which gets no error response.

#![no_main]

use libfuzzer_sys::fuzz_target;
use reqlore_mcp::jsonrpc;
use serde_json::Value;

const PARSE_ERROR: i64 = -32700;

fuzz_target!(|line: &[u8]| {
    let sent = serde_json::from_slice::<Value>(line).ok();
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
                let sent = sent.expect("a line without an error response is JSON");
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
    assert!(!response.iter().any(|byte| matches!(byte, b'\n' | b'\r')), "a response is one line");
    let response: Value = serde_json::from_slice(response).expect("a response is JSON");
    assert_eq!(response["jsonrpc"], "2.0");
    assert!(response.get("result").is_none() && response["error"]["message"].is_string());
    let code = response["error"]["code"].as_i64().expect("a code");
    let id = &response["id"];
    assert!(id.is_null() || id.is_string() || id.is_i64(), "{response}");
    // The error response has the id of the request, unless the request has two.
    let known = sent.map_or(&Value::Null, |sent| &sent["id"]);
    let is_one = line.windows(4).filter(|part| *part == b"\"id\"").count() == 1;
    if code != PARSE_ERROR && is_one && (known.is_string() || known.is_i64()) {
        assert_eq!(id, known, "{response}");
    }
}
