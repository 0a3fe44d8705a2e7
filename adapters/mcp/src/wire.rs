//! Strict JSON-RPC parsing: every malformed request gets an error, and ambiguous ones are refused.
//!
//! rmcp alone would not answer invalid JSON and would take the last of two equal keys.

use std::collections::HashSet;
use std::fmt;

use reqlore_domain::identity::redact;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientJsonRpcMessage, ClientRequest, ErrorData,
    JsonRpcMessage, MetaObject, RequestId, RequestMetaObject,
};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;
use serde_json::{Map, Value, json};

use crate::server::is_plain_meta;

/// How deep arrays and objects may nest.
pub const MAX_DEPTH: usize = 64;
/// How many values one message may hold.
pub const MAX_VALUES: usize = 50_000;

/// The JSON-RPC error for a malformed message, as one line; `None` for a malformed notification.
#[derive(Debug)]
pub struct Malformed {
    pub answer: Option<Vec<u8>>,
}

impl Malformed {
    fn new(id: &Value, error: &ErrorData) -> Self {
        Self { answer: Some(error_line(id, error)) }
    }
}

/// A JSON-RPC error as one line. The id is null where it is not known (JSON-RPC 2.0, 5.1).
pub fn error_line(id: &Value, error: &ErrorData) -> Vec<u8> {
    let message = json!({ "jsonrpc": "2.0", "id": id, "error": error });
    let mut line = message.to_string().into_bytes();
    line.push(b'\n');
    line
}

/// Reads one message.
pub fn read(line: &[u8]) -> Result<ClientJsonRpcMessage, Malformed> {
    check(line)?;
    if let Some(call) = tool_call(line) {
        return Ok(call.into_message());
    }
    serde_json::from_slice(line).map_err(|_| classify(line))
}

/// A `tools/call` request.
#[derive(Debug)]
pub struct ToolCall {
    pub id: RequestId,
    pub name: String,
    pub arguments: Map<String, Value>,
    pub meta: Map<String, Value>,
}

impl ToolCall {
    /// True if a client before 2026-07-28 wants no progress of it.
    pub fn is_plain(&self) -> bool {
        is_plain_meta(&self.meta)
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

/// Parses a checked `tools/call` with the usual members; `None` for any other message. rmcp's own
/// parser tries one request type after the other, which costs more than a small call.
pub fn tool_call(line: &[u8]) -> Option<ToolCall> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Message<'a> {
        jsonrpc: &'a str,
        id: RequestId,
        method: &'a str,
        params: Params,
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Params {
        name: String,
        #[serde(default)]
        arguments: Map<String, Value>,
        #[serde(default, rename = "_meta")]
        meta: Map<String, Value>,
    }
    let message: Message<'_> = serde_json::from_slice(line).ok()?;
    let Message { jsonrpc: "2.0", id, method: "tools/call", params } = message else { return None };
    let Params { name, arguments, meta } = params;
    Some(ToolCall { id, name, arguments, meta })
}

/// The error for valid JSON that is not a message.
fn classify(line: &[u8]) -> Malformed {
    let Ok(Value::Object(message)) = serde_json::from_slice::<Value>(line) else {
        let is_batch = line.first() == Some(&b'[');
        let reason = if is_batch {
            "batches are not supported; send one message a line"
        } else {
            "a message must be a JSON object"
        };
        return Malformed::new(&Value::Null, &ErrorData::invalid_request(reason, None));
    };
    let id = readable_id(&message);
    let invalid = |reason| Malformed::new(&id, &ErrorData::invalid_request(reason, None));
    if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return invalid("\"jsonrpc\" must be \"2.0\"");
    }
    if !message.contains_key("method")
        && ["result", "error"].iter().any(|key| message.contains_key(*key))
    {
        // A malformed response; answering it could loop forever between two peers.
        return Malformed { answer: None };
    }
    match message.get("method") {
        Some(Value::String(_)) if !message.contains_key("id") => Malformed { answer: None },
        Some(Value::String(_)) if id.is_null() => invalid("\"id\" must be a string or an integer"),
        Some(Value::String(_)) => {
            let error = ErrorData::invalid_params("\"params\" must be an object", None);
            Malformed::new(&id, &error)
        }
        _ => invalid("\"method\" must be a string"),
    }
}

fn readable_id(message: &Map<String, Value>) -> Value {
    match message.get("id") {
        Some(Value::String(id)) => Value::String(id.clone()),
        Some(Value::Number(id)) if id.is_i64() => Value::Number(id.clone()),
        _ => Value::Null,
    }
}

/// Checks syntax, limits and duplicate keys.
pub fn check(line: &[u8]) -> Result<(), Malformed> {
    let mut judge = Judge::default();
    let mut json = serde_json::Deserializer::from_slice(line);
    let outcome =
        Node { judge: &mut judge, depth: 0 }.deserialize(&mut json).and_then(|()| json.end());
    let Err(error) = outcome else { return Ok(()) };
    let refused = |error| Err(Malformed::new(&id_alone(line), &error));
    match judge.fault {
        Some(Fault::Duplicate(key)) => {
            let key = redact(&key);
            let message = format!("the key {key:?} stands twice in one object; name it once");
            refused(ErrorData::invalid_params(message, Some(json!({ "field": key }))))
        }
        Some(Fault::TooMany) => refused(ErrorData::invalid_request(
            format!("a message may hold at most {MAX_VALUES} values"),
            None,
        )),
        // The number is well-formed JSON that no value can hold.
        None if error.to_string().starts_with("number out of range") => {
            refused(ErrorData::invalid_params("a number is out of range", None))
        }
        fault => {
            let detail = match (fault, error.classify()) {
                (Some(Fault::TooDeep), _) => format!("nested deeper than {MAX_DEPTH}"),
                (_, Category::Eof) => "the line ends before its JSON does".to_owned(),
                _ => error.to_string(),
            };
            let error = ErrorData::parse_error("Parse error", Some(json!({ "detail": detail })));
            Err(Malformed::new(&Value::Null, &error))
        }
    }
}

/// The id of a message whose other members are not usable.
fn id_alone(line: &[u8]) -> Value {
    #[derive(Deserialize)]
    struct Envelope {
        id: Option<Value>,
    }
    let envelope = serde_json::from_slice::<Envelope>(line).ok();
    let id = envelope.and_then(|envelope| envelope.id).unwrap_or_default();
    readable_id(&Map::from_iter([("id".to_owned(), id)]))
}

enum Fault {
    Duplicate(String),
    TooDeep,
    TooMany,
}

#[derive(Default)]
struct Judge {
    values: usize,
    fault: Option<Fault>,
}

/// Visits one value and its children; keeps only the keys of open objects.
struct Node<'a> {
    judge: &'a mut Judge,
    depth: usize,
}

impl Node<'_> {
    fn fail<E: serde::de::Error>(self, fault: Fault) -> Result<(), E> {
        self.judge.fault = Some(fault);
        Err(E::custom("refused"))
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.judge.values += 1;
        if self.judge.values > MAX_VALUES {
            return self.fail(Fault::TooMany);
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        if self.depth >= MAX_DEPTH {
            return self.fail(Fault::TooDeep);
        }
        let depth = self.depth + 1;
        while items.next_element_seed(Node { judge: self.judge, depth })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        if self.depth >= MAX_DEPTH {
            return self.fail(Fault::TooDeep);
        }
        let depth = self.depth + 1;
        let mut seen = HashSet::new();
        while let Some(key) = entries.next_key::<std::borrow::Cow<'de, str>>()? {
            if seen.contains(&key) {
                self.judge.fault = Some(Fault::Duplicate(key.into_owned()));
                return Err(A::Error::custom("refused"));
            }
            entries.next_value_seed(Node { judge: self.judge, depth })?;
            seen.insert(key);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: impl AsRef<[u8]>, code: i64, id: &Value) {
        let line = line.as_ref();
        let shown = String::from_utf8_lossy(&line[..line.len().min(80)]).into_owned();
        let malformed = read(line).expect_err(&shown);
        let answer: Value = serde_json::from_slice(&malformed.answer.expect(&shown)).unwrap();
        assert_eq!(answer["error"]["code"], code, "{shown}: {answer}");
        assert_eq!(answer["id"], *id, "{shown}: {answer}");
    }

    // Catalogue 50, 51, 53, 58, 60
    #[test]
    fn every_malformed_line_gets_its_code_and_its_id() {
        let nested = |depth| "[".repeat(depth) + &"]".repeat(depth);
        for line in
            ["", "nonsense", "{\"a\":1", "{\"a\":1,}", "{} {}", "\"\\ud800\"", &nested(100_000)]
        {
            check(line, -32700, &Value::Null);
        }
        check(b"{\"a\":\"\xff\"}", -32700, &Value::Null);
        check(
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{}}}"#, nested(70)),
            -32700,
            &Value::Null,
        );
        for line in ["{}", "[]", "null", "42", r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#] {
            check(line, -32600, &Value::Null);
        }
        check(r#"{"id":7,"method":"ping"}"#, -32600, &json!(7));
        check(r#"{"jsonrpc":"1.0","id":"a","method":"ping"}"#, -32600, &json!("a"));
        check(r#"{"jsonrpc":2.0,"id":1,"method":"ping"}"#, -32600, &json!(1));
        check(r#"{"jsonrpc":"2.0","id":1,"method":5}"#, -32600, &json!(1));
        check(r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600, &Value::Null);
        check(r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}"#, -32602, &json!(1));
        check(r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1,"a":2}}"#, -32602, &json!(1));
        check(r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1e400}}"#, -32602, &json!(1));
        let many = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{"a":[{}0]}}}}"#,
            "0,".repeat(60_000)
        );
        check(many, -32600, &json!(1));
    }

    // Catalogue 54
    #[test]
    fn a_broken_notification_or_response_gets_no_answer() {
        for line in [
            r#"{"jsonrpc":"2.0","method":"notifications/x","params":[]}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{}}"#,
        ] {
            assert!(read(line.as_bytes()).is_err_and(|malformed| malformed.answer.is_none()));
        }
    }

    #[test]
    fn a_usual_call_is_the_same_message_as_rmcp_reads() {
        for line in [
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}"#,
            r#"{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"t","arguments":{"a":[1,null]}}}"#,
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"_meta":{"progressToken":3},"name":"t","arguments":{}}}"#,
        ] {
            assert!(tool_call(line.as_bytes()).is_some(), "{line}");
            let theirs: ClientJsonRpcMessage = serde_json::from_str(line).unwrap();
            let ours = read(line.as_bytes()).unwrap();
            let shown = |message| serde_json::to_value(message).unwrap();
            let (mut ours, theirs) = (shown(&ours), shown(&theirs));
            let params = ours["params"].as_object_mut().unwrap();
            if theirs["params"].get("arguments").is_none() {
                params.remove("arguments");
            }
            assert_eq!(ours, theirs);
        }
    }

    #[test]
    fn good_messages_pass() {
        for line in [
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"t","arguments":{"a":{"a":1}}}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"unknown","params":{"x":[null,true,-0,1.5e3,"\u00e9"]}}"#,
        ] {
            assert!(read(line.as_bytes()).is_ok(), "{line}");
        }
    }
}
