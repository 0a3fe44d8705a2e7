//! Strict JSON-RPC parsing: every malformed or ambiguous request gets an error response.
//!
//! rmcp alone would not respond to invalid JSON and would accept the last of two equal keys.

use std::borrow::Cow;
use std::fmt;

use reqlore_domain::identity::redact_echo;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientJsonRpcMessage, ClientRequest, ErrorCode,
    ErrorData, JsonRpcMessage, MetaObject, RequestId, RequestMetaObject,
};
use serde::Deserialize;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;
use serde_json::{Map, Value, json};

use crate::message_id::{leading_id, request_id};
use crate::request_meta::has_only_own_keys;
use crate::surrogates::{mark_replacements, replace_lone_surrogates};

/// Maximum nesting, which limits the stack of the recursive parser.
const MAX_DEPTH: usize = 64;
/// Maximum JSON values in one message, which limits the memory of a parsed message.
const MAX_VALUES: usize = 50_000;

#[derive(Debug)]
pub struct MalformedMessage {
    /// A JSON-RPC error as one line; `None` for a notification or a response.
    pub response: Option<Vec<u8>>,
    /// The code and message of the error, for the log.
    pub code: i32,
    pub message: Cow<'static, str>,
}

impl MalformedMessage {
    pub fn new(id: &Value, error: &ErrorData) -> Self {
        let (code, message) = (error.code.0, error.message.clone());
        Self { response: Some(error_line(id, error)), code, message }
    }

    /// A notification or a response, which gets no response.
    pub fn without_response() -> Self {
        let message = Cow::Borrowed("neither a request nor a notification");
        Self { response: None, code: ErrorCode::INVALID_REQUEST.0, message }
    }
}

/// Returns a JSON-RPC error as one line. An unknown id is null (JSON-RPC 2.0, section 5.1).
pub fn error_line(id: &Value, error: &ErrorData) -> Vec<u8> {
    let message = json!({ "jsonrpc": "2.0", "id": id, "error": error });
    let mut line = message.to_string().into_bytes();
    line.push(b'\n');
    line
}

pub fn parse_message(line: &[u8]) -> Result<ClientJsonRpcMessage, MalformedMessage> {
    into_message(parse_json(line)?.value)
}

/// Converts parsed JSON into a message.
pub fn into_message(mut message: Value) -> Result<ClientJsonRpcMessage, MalformedMessage> {
    // The fast path for the most frequent request.
    if let Some(call) = take_tool_call(&mut message) {
        return Ok(call.into_message());
    }
    // By reference, because the error needs the message again.
    ClientJsonRpcMessage::deserialize(&message).map_err(|_| classify_malformed(&message))
}

#[derive(Debug)]
pub struct ToolCallMessage {
    pub id: RequestId,
    pub name: String,
    pub arguments: Map<String, Value>,
    pub meta: Map<String, Value>,
}

impl ToolCallMessage {
    /// True if the client speaks a protocol before 2026-07-28 and requests no progress.
    pub fn has_plain_meta(&self) -> bool {
        has_only_own_keys(&self.meta)
    }

    fn into_message(self) -> ClientJsonRpcMessage {
        let params = CallToolRequestParams::new(self.name).with_arguments(self.arguments);
        let mut request = CallToolRequest::new(params);
        if !self.meta.is_empty() {
            request.extensions.insert(RequestMetaObject(MetaObject(self.meta)));
        }
        JsonRpcMessage::request(ClientRequest::CallToolRequest(request), self.id)
    }
}

/// Maximum members of a batch.
const MAX_BATCH_MEMBERS: usize = 50;

/// Checks that a batch may run as a whole. `is_accepted` is false for a protocol version without
/// batches.
pub fn check_batch(members: &[Value], is_accepted: bool) -> Result<(), MalformedMessage> {
    let reason = if !is_accepted {
        "batch: this protocol version has none; send one message at a time".to_owned()
    } else if members.is_empty() {
        "batch: is empty; send at least one message".to_owned()
    } else if members.len() > MAX_BATCH_MEMBERS {
        let count = members.len();
        format!("batch: at most {MAX_BATCH_MEMBERS} messages are allowed, this has {count}")
    } else {
        return Ok(());
    };
    Err(MalformedMessage::new(&Value::Null, &ErrorData::invalid_request(reason, None)))
}

/// Checks that a message may be a member of a batch.
pub fn check_member(member: &Value) -> Result<(), MalformedMessage> {
    if member["method"] != "initialize" {
        return Ok(());
    }
    let error = ErrorData::invalid_request("initialize: must not be in a batch", None);
    Err(MalformedMessage::new(&request_id(member.get("id")), &error))
}

/// Takes the members out of a `tools/call` without unusual ones; `None` for any other message.
/// rmcp's own parser tries one request type after the other, which costs more than a small call.
pub fn take_tool_call(message: &mut Value) -> Option<ToolCallMessage> {
    if message["jsonrpc"] != "2.0"
        || message["method"] != "tools/call"
        || !has_only_members(message, &["jsonrpc", "id", "method", "params"])
        || !has_only_members(&message["params"], &["name", "arguments", "_meta"])
    {
        return None;
    }
    // Everything is checked before anything is taken, so `None` leaves the message whole.
    let id = RequestId::deserialize(&message["id"]).ok()?;
    let params = &mut message["params"];
    let name = params["name"].as_str()?.to_owned();
    for key in ["arguments", "_meta"] {
        if params.get(key).is_some_and(|value| !value.is_object()) {
            return None;
        }
    }
    let arguments = take_object(params, "arguments");
    let meta = take_object(params, "_meta");
    Some(ToolCallMessage { id, name, arguments, meta })
}

fn has_only_members(value: &Value, members: &[&str]) -> bool {
    match value {
        Value::Object(object) => object.keys().all(|key| members.contains(&key.as_str())),
        _ => false,
    }
}

fn take_object(params: &mut Value, key: &str) -> Map<String, Value> {
    match params.get_mut(key).map(Value::take) {
        Some(Value::Object(object)) => object,
        _ => Map::new(),
    }
}

/// Returns the error for valid JSON that is not a message.
pub fn classify_malformed(message: &Value) -> MalformedMessage {
    let Value::Object(message) = message else {
        return invalid_request(&Value::Null, "a message must be a JSON object");
    };
    let id = request_id(message.get("id"));
    if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return invalid_request(&id, "\"jsonrpc\" must be \"2.0\"");
    }
    match message.get("method") {
        // A malformed response; responding to it could loop forever between two peers.
        None if message.contains_key("result") || message.contains_key("error") => {
            MalformedMessage::without_response()
        }
        // JSON-RPC 2.0, section 4.1: a notification gets no response, even a wrong one.
        Some(Value::String(_)) if !message.contains_key("id") => {
            MalformedMessage::without_response()
        }
        Some(Value::String(_)) if RequestId::deserialize(&message["id"]).is_err() => {
            invalid_request(&id, "\"id\" must be a string or an integer")
        }
        Some(Value::String(_)) => {
            // rmcp accepts any other member here and rejects it later.
            let has_params = message.get("params").is_some_and(Value::is_object);
            let field = if has_params { "_meta" } else { "params" };
            let problem = format!("{field}: must be an object");
            let error = ErrorData::invalid_params(problem, Some(json!({ "field": field })));
            MalformedMessage::new(&id, &error)
        }
        _ => invalid_request(&id, "\"method\" must be a string"),
    }
}

fn invalid_request(id: &Value, reason: &'static str) -> MalformedMessage {
    MalformedMessage::new(id, &ErrorData::invalid_request(reason, None))
}

/// Parsed JSON, with U+FFFD in place of each lone surrogate.
#[derive(Debug)]
pub struct ParsedJson {
    pub value: Value,
    /// The value as JSON, if it differs from the text that was parsed.
    pub repaired_text: Option<String>,
}

/// Parses JSON within the limits on depth and values and without duplicate keys.
pub fn parse_json(line: &[u8]) -> Result<ParsedJson, MalformedMessage> {
    let failure = match parse_value(line) {
        Ok(value) => return Ok(ParsedJson { value, repaired_text: None }),
        Err(failure) => failure,
    };
    if failure.violation.is_none()
        && let Some(repaired) = replace_lone_surrogates(line)
    {
        let mut value = parse_json(&repaired)?.value;
        tracing::info!("lone surrogates of a message were replaced by U+FFFD");
        mark_replacements(&mut value);
        return Ok(ParsedJson { repaired_text: Some(value.to_string()), value });
    }
    Err(malformed_json(line, failure))
}

/// Returns the id of a message that was read only in part.
pub fn id_of_start(start: &[u8]) -> Value {
    let repaired = replace_lone_surrogates(start);
    let start = repaired.as_deref().unwrap_or(start);
    let end = parse_value(start).map_or_else(|failure| failure.offset(start), |_| start.len());
    leading_id(&start[..end])
}

/// The reason why a text is rejected.
struct JsonError {
    error: serde_json::Error,
    violation: Option<JsonViolation>,
}

impl JsonError {
    /// Bytes of the text up to the failure.
    fn offset(&self, text: &[u8]) -> usize {
        let mut lines = text.split_inclusive(|byte| *byte == b'\n');
        let earlier = lines.by_ref().take(self.error.line().saturating_sub(1));
        let start: usize = earlier.map(<[u8]>::len).sum();
        (start + self.error.column()).min(text.len())
    }
}

fn parse_value(text: &[u8]) -> Result<Value, JsonError> {
    let mut state = ParseState::default();
    let mut json = serde_json::Deserializer::from_slice(text);
    let root = StrictValue { state: &mut state, depth: 0 };
    // `end` rejects characters after the value.
    let parsed = root.deserialize(&mut json).and_then(|value| json.end().map(|()| value));
    parsed.map_err(|error| JsonError { error, violation: state.violation })
}

fn malformed_json(line: &[u8], failure: JsonError) -> MalformedMessage {
    let mut start = &line[..failure.offset(line)];
    let error = match failure.violation {
        Some(JsonViolation::TooDeep) => {
            let message =
                format!("nested deeper than {MAX_DEPTH} levels; send JSON with fewer levels");
            ErrorData::parse_error(message, None)
        }
        Some(JsonViolation::DuplicateKey(key)) => {
            let key = redact_echo(&key);
            let message = format!("key {key:?}: appears twice in one object; send it once");
            ErrorData::invalid_params(message, Some(json!({ "field": key })))
        }
        Some(JsonViolation::TooManyValues) => {
            let message = format!("a message may contain at most {MAX_VALUES} values");
            ErrorData::invalid_request(message, None)
        }
        // The number is well-formed JSON that no type can represent.
        None if failure.error.to_string().starts_with("number out of range") => {
            ErrorData::invalid_params("a number is out of range", None)
        }
        None => {
            let (line_number, column) = (failure.error.line(), failure.error.column());
            // Only characters are quoted, never the parser's words.
            let rest = &line[start.len().saturating_sub(1)..];
            let found = String::from_utf8_lossy(&rest[..rest.len().min(4)]).chars().next();
            let problem = match found {
                Some(found) if failure.error.classify() != Category::Eof => {
                    format!("unexpected {found:?} at line {line_number}, column {column}")
                }
                _ => "the text ends before the JSON value does".to_owned(),
            };
            ErrorData::parse_error(format!("Parse error: {problem}; send valid JSON"), None)
        }
    };
    // Many clients send the id last. It can be trusted only if all of the text is JSON.
    if error.code != ErrorCode::PARSE_ERROR && serde_json::from_slice::<IgnoredAny>(line).is_ok() {
        start = line;
    }
    MalformedMessage::new(&leading_id(start), &error)
}

enum JsonViolation {
    DuplicateKey(String),
    TooDeep,
    TooManyValues,
}

#[derive(Default)]
struct ParseState {
    values: usize,
    violation: Option<JsonViolation>,
}

/// Reads one value and its children.
struct StrictValue<'a> {
    state: &'a mut ParseState,
    depth: usize,
}

impl StrictValue<'_> {
    fn reject<E: serde::de::Error>(self, violation: JsonViolation) -> Result<Value, E> {
        // serde would reduce the cause to a text, so the state keeps it.
        self.state.violation = Some(violation);
        Err(E::custom("rejected"))
    }
}

impl<'de> DeserializeSeed<'de> for StrictValue<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.state.values += 1;
        // Counted while parsing, because a small line can hold many values.
        if self.state.values > MAX_VALUES {
            return self.reject(JsonViolation::TooManyValues);
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictValue<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        if self.depth >= MAX_DEPTH {
            return self.reject(JsonViolation::TooDeep);
        }
        let depth = self.depth + 1;
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(StrictValue { state: self.state, depth })? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        if self.depth >= MAX_DEPTH {
            return self.reject(JsonViolation::TooDeep);
        }
        let depth = self.depth + 1;
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            // Other parsers use the first of two equal keys, so a check there could be bypassed.
            if object.contains_key(&key) {
                return self.reject(JsonViolation::DuplicateKey(key));
            }
            let value = entries.next_value_seed(StrictValue { state: self.state, depth })?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: impl AsRef<[u8]>, code: i64, id: &Value) {
        let line = line.as_ref();
        let shown = String::from_utf8_lossy(&line[..line.len().min(80)]).into_owned();
        let malformed = parse_message(line).expect_err(&shown);
        let response: Value = serde_json::from_slice(&malformed.response.expect(&shown)).unwrap();
        assert_eq!(response["error"]["code"], code, "{shown}: {response}");
        assert_eq!(response["id"], *id, "{shown}: {response}");
    }

    // S4: AC-001.1
    #[test]
    fn malformed_line_gets_its_code_and_id() {
        let nested = |depth| "[".repeat(depth) + &"]".repeat(depth);
        for line in
            ["", "nonsense", "{\"a\":1", "{\"a\":1,}", "{} {}", "\"\\ud80\"", &nested(100_000)]
        {
            check(line, -32700, &Value::Null);
        }
        check(b"{\"a\":\"\xff\"}", -32700, &Value::Null);
        for line in ["{}", "[]", "null", "42", r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#] {
            check(line, -32600, &Value::Null);
        }
        check(r#"{"id":7,"method":"ping"}"#, -32600, &json!(7));
        check(r#"{"jsonrpc":"1.0","id":"a","method":"ping"}"#, -32600, &json!("a"));
        check(r#"{"jsonrpc":2.0,"id":1,"method":"ping"}"#, -32600, &json!(1));
        check(r#"{"jsonrpc":"2.0","id":1,"method":5}"#, -32600, &json!(1));
        check(r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600, &Value::Null);
        for id in [json!(1.5), json!(-0.25), json!(1e300), json!(u64::MAX)] {
            let message = json!({ "jsonrpc": "2.0", "id": id, "method": "ping" });
            check(message.to_string(), -32600, &id);
        }
        for id in ["true", "[1]", r#"{"a":1}"#] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
            check(line, -32600, &Value::Null);
        }
        let many = format!(r#"{{"a":[{}0]}}"#, "0,".repeat(60_000));
        for (params, code, id) in [
            (&*nested(70), -32700, json!(1)),
            ("[1]", -32602, json!(1)),
            (r#"{"a":1,"a":2}"#, -32602, json!(1)),
            (r#"{"a":1e400}"#, -32602, json!(1)),
            (&*many, -32600, json!(1)),
        ] {
            let line = r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":"#;
            check(format!("{line}{params}}}"), code, &id);
        }
    }

    // S5: 5.6, 5.8
    #[test]
    fn invalid_json_gets_a_position_and_no_words_of_the_parser() {
        let cut = "the text ends before the JSON value does";
        for (line, problem) in [
            ("", cut),
            ("{", cut),
            ("{\"a\":\"b", cut),
            ("{\"a\":", cut),
            ("nonsense", "unexpected 'o' at line 1, column 2"),
            ("xyz", "unexpected 'x' at line 1, column 1"),
            ("{\"a\":1,}", "unexpected '}' at line 1, column 8"),
            ("{} {}", "unexpected '{' at line 1, column 4"),
            ("{\n  \"a\": tru,\n}", "unexpected ',' at line 2, column 11"),
            ("{'a':1}", "unexpected '\\'' at line 1, column 2"),
            ("{\"a\" 1}", "unexpected '1' at line 1, column 6"),
            ("[1 2]", "unexpected '2' at line 1, column 4"),
            ("[1,,2]", "unexpected ',' at line 1, column 4"),
            ("{\"a\":01}", "unexpected '1' at line 1, column 7"),
            ("[ü]", "unexpected 'ü' at line 1, column 2"),
            ("\u{feff}{}", "unexpected '\\u{feff}' at line 1, column 1"),
            ("{\"a\":\"b\tc\"}", "unexpected '\\t' at line 1, column 8"),
            ("{\"a\":NaN}", "unexpected 'N' at line 1, column 6"),
        ] {
            let malformed = parse_message(line.as_bytes()).expect_err(line);
            assert_eq!(
                malformed.message,
                format!("Parse error: {problem}; send valid JSON"),
                "{line}"
            );
            let response = String::from_utf8(malformed.response.unwrap()).unwrap();
            for word in ["expected value", "EOF", "trailing", "line 1 column", "identifier"] {
                assert!(!response.contains(word), "{line}: {response}");
            }
        }
    }

    #[test]
    fn malformed_notification_or_response_gets_no_response() {
        for line in [
            r#"{"jsonrpc":"2.0","method":"notifications/x","params":[]}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{}}"#,
        ] {
            assert!(
                parse_message(line.as_bytes()).is_err_and(|malformed| malformed.response.is_none())
            );
        }
    }

    #[test]
    fn valid_message_parses_as_in_rmcp() {
        for (line, is_call) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}"#, true),
            (
                r#"{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"t","arguments":{"a":[1,null,{"a":1}]}}}"#,
                true,
            ),
            (
                r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"_meta":{"progressToken":3},"name":"t","arguments":{}}}"#,
                true,
            ),
            (
                r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"t","task":{}}}"#,
                false,
            ),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, false),
            (r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, false),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"unknown","params":{"x":[null,true,-0,1.5e3,"\u00e9"]}}"#,
                false,
            ),
        ] {
            assert_eq!(
                take_tool_call(&mut parse_json(line.as_bytes()).unwrap().value).is_some(),
                is_call,
                "{line}"
            );
            let theirs: ClientJsonRpcMessage = serde_json::from_str(line).unwrap();
            let (mut ours, theirs) =
                (json!(parse_message(line.as_bytes()).unwrap()), json!(theirs));
            if is_call && theirs["params"].get("arguments").is_none() {
                ours["params"].as_object_mut().unwrap().remove("arguments");
            }
            assert_eq!(ours, theirs);
        }
    }
}
