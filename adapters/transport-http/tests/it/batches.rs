//! JSON-RPC batches: accepted ones run member by member, others are refused as a whole.

use std::time::Duration;

use reqlore_transport_http::{HttpLimits, RateLimit};
use serde_json::{Value, json};

use crate::test_client::TestRequest;
use crate::test_server::{TestServer, ada_token};

fn tool_call(id: impl Into<Value>, tool: &str) -> Value {
    let params = json!({ "name": tool, "arguments": {} });
    json!({ "jsonrpc": "2.0", "id": id.into(), "method": "tools/call", "params": params })
}

fn batch(members: &[Value]) -> TestRequest {
    TestRequest::post(json!(members).to_string()).token(&ada_token())
}

// S5: 3.3
#[tokio::test]
async fn batch_runs_each_member_in_order_as_its_own_request() {
    let server = TestServer::start();
    let members = [
        tool_call(1, "who"),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        tool_call("b", "forbidden"),
        json!({ "jsonrpc": "2.0", "id": 3, "method": "initialize", "params": {} }),
        json!(42),
        json!([]),
        json!({ "jsonrpc": "2.0", "id": 5, "method": "no/such" }),
        tool_call(6, "who"),
    ];
    for request in [batch(&members), batch(&members).header("MCP-Protocol-Version", "2025-03-26")] {
        let response = server.request(&request).await;
        assert_eq!(response.status, 200, "{response:?}");
        let answers = response.json();
        let answers: Vec<(Value, Value)> = answers
            .as_array()
            .unwrap()
            .iter()
            .map(|answer| (answer["id"].clone(), answer["error"]["code"].clone()))
            .collect();
        let expected = [
            (json!(1), Value::Null),
            (json!("b"), json!(-32011)),
            (json!(3), json!(-32600)),
            (Value::Null, json!(-32600)),
            (Value::Null, json!(-32600)),
            (json!(5), json!(-32601)),
            (json!(6), Value::Null),
        ];
        assert_eq!(answers, expected);
        let ids = [&response.json()[0], &response.json()[6]]
            .map(|answer| answer["result"]["structuredContent"]["request"].clone());
        assert_ne!(ids[0], ids[1], "each member has a correlation id");
    }
}

#[tokio::test]
async fn batch_of_notifications_is_accepted_without_a_body() {
    let server = TestServer::start();
    let notification = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let response = server.request(&batch(&[notification.clone(), notification])).await;
    assert_eq!((response.status, response.body.as_str()), (202, ""));
}

#[tokio::test]
async fn batch_empty_or_too_long_or_of_a_later_version_is_refused() {
    let server = TestServer::start();
    let calls: Vec<Value> = (0..51).map(|id| tool_call(id, "who")).collect();
    assert_eq!(server.error_code(&batch(&[])).await, (400, -32600));
    assert_eq!(server.error_code(&batch(&calls)).await, (400, -32600));
    for version in ["2025-06-18", "2025-11-25", "2026-07-28"] {
        let request = batch(&calls[..1]).header("MCP-Protocol-Version", version);
        assert_eq!(server.error_code(&request).await, (400, -32600), "{version}");
    }
    assert_eq!(server.calls(), 0);
    let answers = server.request(&batch(&calls[..50])).await.json();
    assert_eq!(answers.as_array().unwrap().len(), 50);
}

#[tokio::test]
async fn batch_members_count_against_the_rate_limit() {
    let rate = RateLimit { every: Duration::from_secs(3_600), burst: 2 };
    let limits = HttpLimits { request_rate: Some(rate), ..HttpLimits::default() };
    let server = TestServer::with(limits);
    let calls: Vec<Value> = (0..4).map(|id| tool_call(id, "who")).collect();
    let response = server.request(&batch(&calls)).await;
    let codes = [0, 1, 2, 3].map(|member| response.json()[member]["error"]["code"].clone());
    assert_eq!(response.status, 200);
    assert_eq!(codes, [Value::Null, Value::Null, json!(-32013), json!(-32013)]);
    assert_eq!(response.json()[3]["id"], 3);
    assert_eq!(server.error_code(&batch(&calls)).await, (429, -32013));
}

// A small request must not make the server hold many large responses.
#[tokio::test]
async fn batch_stops_after_too_many_bytes_of_responses() {
    let server = TestServer::start();
    let params = json!({ "name": "big", "arguments": { "bytes": 9 << 20 } });
    let big = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let response = server.request(&batch(&[big.clone(), big, tool_call(2, "who")])).await;
    let answers = response.json();
    assert_eq!((response.status, answers[1]["error"].is_null()), (200, true));
    assert_eq!((&answers[2]["id"], &answers[2]["error"]["code"]), (&json!(2), &json!(-32600)));
    assert_eq!(server.calls(), 2);
}
