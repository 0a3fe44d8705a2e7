//! Accepted request bodies, and the responses to malformed ones.

use std::sync::atomic::Ordering;

use reqlore_transport_http::HttpLimits;
use serde_json::{Value, json};

use crate::test_client::TestRequest;
use crate::test_server::{CapturedLog, TestServer, ada_token, call, valid_request};

fn post(body: impl Into<Vec<u8>>) -> TestRequest {
    TestRequest::post(body).token(&ada_token())
}

// S5: 1.11, 3.1, 3.2, 3.7, 3.9, 5.8; catalogue 50, 51, 53, 58
#[tokio::test]
async fn malformed_message_gets_400_with_code_and_id() {
    let server = TestServer::start();
    let nested = format!(r#"{{"id":1,"params":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    let twice =
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"who","name":"busy"}}"#;
    for (body, code, id) in [
        ("", -32700, json!(null)),
        (r#"{"jsonrpc":"2.0","#, -32700, json!(null)),
        (r#"{"jsonrpc":"2.0","id":3,"#, -32700, json!(3)),
        (nested.as_str(), -32700, json!(1)),
        ("42", -32600, json!(null)),
        ("[]", -32600, json!(null)),
        (r#"{"id":"a","method":"ping"}"#, -32600, json!("a")),
        (r#"{"jsonrpc":"2.0","id":1,"method":5}"#, -32600, json!(1)),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[1]}"#, -32602, json!(1)),
        (r#"{"jsonrpc":"2.0","method":"notifications/x","params":[1]}"#, -32600, json!(null)),
        (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, -32600, json!(null)),
        (twice, -32602, json!(1)),
    ] {
        let response = server.request(&post(body)).await;
        let shown = &body[..body.len().min(60)];
        assert_eq!(response.error_code(), (400, code), "{shown}: {response:?}");
        assert_eq!(response.json().get("id"), Some(&id), "{shown}");
        assert_eq!(response.header("content-type"), Some("application/json"), "{shown}");
    }
    assert_eq!(server.error_code(&post(b"{\"a\":\"\xff\"}".to_vec())).await, (400, -32700));
    assert_eq!(server.calls(), 0);
    let no_params = r#"{"jsonrpc":"2.0","id":"x","method":"tools/list"}"#;
    assert_eq!(server.request(&post(no_params)).await.json()["id"], "x");
    let no_params = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#;
    assert_eq!(server.error_code(&post(no_params)).await, (200, -32602));
    server.assert_serves().await;
}

// S5: 5.5, 7.2, 7.8
#[tokio::test]
async fn member_of_wrong_type_is_named() {
    let server = TestServer::start();
    let named = |name: &str, arguments: Value| json!({ "name": name, "arguments": arguments });
    for (method, params, field) in [
        ("tools/call", named("who", json!([])), "arguments"),
        ("tools/call", named("who", json!([{ "a": 1 }])), "arguments"),
        ("tools/call", named("who", json!("{}")), "arguments"),
        ("tools/call", named("who", json!(5)), "arguments"),
        ("tools/call", named("who", json!(false)), "arguments"),
        ("tools/call", json!({ "name": 5 }), "name"),
        ("tools/call", json!({ "arguments": [] }), "name"),
        ("tools/call", json!({ "name": "who", "_meta": [] }), "_meta"),
        ("prompts/get", named("x", json!([])), "arguments"),
        ("prompts/get", named("x", json!("a")), "arguments"),
        ("prompts/get", named("x", json!(1.5)), "arguments"),
        ("completion/complete", json!({ "ref": [], "argument": {} }), "ref.type"),
        ("resources/read", json!({ "uri": [] }), "uri"),
    ] {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        for accept in ["application/json", "application/json, text/event-stream"] {
            let response = server.request(&post(body.to_string()).header("Accept", accept)).await;
            let status = if field == "_meta" { 400 } else { 200 };
            assert_eq!(response.error_code(), (status, -32602), "{body}: {response:?}");
            let error = &response.json()["error"];
            assert_eq!(error["data"]["field"], field, "{body}: {error}");
            assert!(error["message"].as_str().unwrap().starts_with(field), "{body}: {error}");
        }
    }
    for arguments in [json!({}), json!(null)] {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": named("who", arguments) });
        assert!(server.request(&post(body.to_string())).await.json().get("result").is_some());
    }
}

#[tokio::test]
async fn byte_order_mark_before_a_body_is_ignored() {
    let server = TestServer::start();
    let list = r#"{"jsonrpc":"2.0","id":7,"method":"tools/list"}"#.to_owned();
    let batch = format!("[{}]", call("who"));
    for body in [call("who"), list, batch, format!("\r\n{}", call("who"))] {
        let with_mark = post(format!("\u{feff}{body}"));
        let plain = server.request(&post(body).header("X-Request-Id", "r")).await;
        let marked = server.request(&with_mark.header("X-Request-Id", "r")).await;
        assert_eq!((marked.status, marked.body), (200, plain.body));
    }
    let marked = modern("tools/call", json!({ "name": "who", "arguments": {} }));
    let bytes = String::from_utf8(marked.bytes()).unwrap();
    let body = bytes.split_once("\r\n\r\n").unwrap().1;
    assert_eq!(server.status(&marked.body(format!("\u{feff}{body}"))).await, 200);
    assert_eq!(server.error_code(&post("\u{feff}")).await, (400, -32700));
    assert_eq!(server.error_code(&post("\u{feff}\u{feff}{}")).await, (400, -32700));
}

#[tokio::test]
async fn listening_to_a_missing_item_fails_before_the_stream() {
    let server = TestServer::start();
    let listen = |uris: Value| {
        modern(
            "subscriptions/listen",
            json!({ "notifications": { "resourceSubscriptions": uris } }),
        )
    };
    for uris in [json!(["epic://404"]), json!(["epic://1", "epic://404"])] {
        let response = server.request(&listen(uris)).await;
        assert_eq!(response.error_code(), (200, -32602), "{response:?}");
        assert_eq!(response.json()["id"], 1);
        let data = &response.json()["error"]["data"];
        assert_eq!((&data["uri"], &data["code"]), (&json!("epic://404"), &json!(-32002)));
    }
    let mut open = server.send(&listen(json!(["epic://1"]))).await;
    assert_eq!(open.read_head().await.unwrap().0, 200);
    assert!(open.read_chunk().await.unwrap().contains("acknowledged"));
}

#[tokio::test]
async fn lone_surrogate_is_replaced_and_noted_in_the_answer() {
    let server = TestServer::start();
    let call = |id: u8, text: &str| {
        let params = format!(r#"{{"name":"who","arguments":{{"x":"{text}"}}}}"#);
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#)
    };
    let (plain, affected) = (call(1, "x"), call(2, r"\ud800"));
    let note = "The request had lone surrogates, such as \\ud800; each was read as U+FFFD.";
    let answer = server.request(&post(affected.clone())).await.json();
    let batch = server.request(&post(format!("[{plain},{affected}]"))).await.json();
    for answer in [&answer, &batch[1]] {
        assert_eq!(answer["result"]["structuredContent"]["notes"], json!([note]), "{answer}");
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        let text: Value = serde_json::from_str(text).unwrap();
        assert_eq!(text["notes"], json!([note]), "{answer}");
    }
    assert!(!batch[0].to_string().contains("notes"), "{batch}");
    let failed = server.request(&post(affected.replace("who", "conflict"))).await.json();
    assert_eq!(failed["error"]["data"]["hint"], note, "{failed}");
    let prompt = r#"{"name":"decompose_epic","arguments":{"epic":"\udfff"}}"#;
    let body =
        format!(r#"{{"jsonrpc":"2.0","id":"\ud800","method":"prompts/get","params":{prompt}}}"#);
    let answer = server.request(&post(body)).await.json();
    assert_eq!(answer["id"], "\u{fffd}");
    let text = &answer["result"]["messages"][0]["content"]["text"];
    assert_eq!(*text, format!("Decompose \u{fffd}.\n\nNote: {note}"));
}

// S5: 6.6
#[tokio::test]
async fn plain_client_reads_name_and_description_beside_the_uri() {
    let server = TestServer::start();
    let params = json!({ "uri": "epic://1" });
    let body = json!({ "jsonrpc": "2.0", "id": 7, "method": "resources/read", "params": params });
    let request = post(body.to_string());
    let plain = server.request(&request).await.json();
    let batch = server.request(&post(format!("[{body}]"))).await.json();
    assert_eq!(batch[0], plain);
    let content = &plain["result"]["contents"][0];
    assert_eq!((&plain["id"], &content["uri"]), (&json!(7), &json!("epic://1")));
    for key in ["name", "description"] {
        assert!(content[key].is_string(), "{plain}");
        assert_eq!(content[key], content["_meta"][key], "{plain}");
    }
    let accept = "application/json, text/event-stream";
    let mcp = server.request(&request.header("Accept", accept)).await.json();
    let content = &mcp["result"]["contents"][0];
    assert!(content.get("name").is_none() && content["_meta"]["name"].is_string(), "{mcp}");
    let unknown = body.to_string().replace("epic://1", "epic://9");
    assert_eq!(server.error_code(&post(unknown)).await, (200, -32002));
}

// S5: 1.6, 1.8, 2.2, 2.4, 2.9, 3.4, 3.5
#[tokio::test]
async fn request_needs_only_body_and_token() {
    let server = TestServer::start();
    let response = server.request(&valid_request()).await;
    assert_eq!((response.status, response.header("content-type")), (200, Some("application/json")));
    let json = response.json();
    assert_eq!((&json["jsonrpc"], &json["id"]), (&json!("2.0"), &json!(7)));
    assert_eq!(response.data()["user"], "ada");
    assert!(response.header("mcp-session-id").is_none());
    for id in [json!("a"), json!(0), json!(-5), json!("")] {
        let body = json!({ "jsonrpc": "2.0", "id": id, "method": "ping" }).to_string();
        assert_eq!(server.request(&post(body)).await.json()["id"], id);
    }
    let unknown = json!({ "jsonrpc": "2.0", "id": 1, "method": "no/such" }).to_string();
    assert_eq!(server.error_code(&post(unknown)).await, (200, -32601));
}

// S5: 3.3
#[tokio::test]
async fn notification_gets_empty_202() {
    let server = TestServer::start();
    for method in ["notifications/initialized", "notifications/unknown", "tools/call"] {
        let params = json!({ "name": "who" });
        let body = json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string();
        let response = server.request(&post(body)).await;
        assert_eq!((response.status, response.body.as_str()), (202, ""), "{method}");
    }
    assert_eq!(server.calls(), 0);
}

// Catalogue 65, 107
#[tokio::test]
async fn body_other_than_utf8_json_gets_415() {
    let server = TestServer::start();
    for (header, good, bad) in [
        (
            "Content-Type",
            [
                "application/json",
                "APPLICATION/JSON",
                "application/json; charset=utf-8",
                "application/json;charset=\"UTF-8\"",
            ],
            &[
                "text/plain; charset=utf-8",
                "application/json; charset=utf-16",
                "application/x-www-form-urlencoded",
                "multipart/form-data; boundary=x",
                "application/jsonx",
                "",
            ][..],
        ),
        (
            "Accept",
            ["*/*", "application/json", "text/html", "application/json, text/event-stream"],
            &[][..],
        ),
        ("Content-Encoding", ["identity"; 4], &["gzip", "br", "deflate, gzip"][..]),
    ] {
        for value in good {
            let request = crate::test_server::valid_request().with(header, value);
            assert_eq!(server.status(&request).await, 200, "{header}: {value}");
        }
        for value in bad {
            let request = crate::test_server::valid_request().with(header, value);
            assert_eq!(server.error_code(&request).await, (415, -32600), "{header}: {value}");
        }
    }
    assert_eq!(server.status(&valid_request().without("Content-Type")).await, 200);
}

// Catalogue 79
#[tokio::test]
async fn unknown_revision_is_rejected_and_session_ignored() {
    let server = TestServer::start();
    let revision = |version: &str| valid_request().header("MCP-Protocol-Version", version);
    for version in ["9999-01-01", "x", "2025-06-18, 2025-06-18"] {
        let response = server.request(&revision(version)).await;
        assert_eq!(response.error_code(), (400, -32600), "{version}");
        assert!(response.body.contains("use one of 2024-11-05, 2025-03-26"), "{response:?}");
        assert_eq!(response.json()["id"], 7);
    }
    for version in ["2099-01-01", "2026-07-29", "x"] {
        let body = modern("tools/list", json!({}));
        let body = String::from_utf8(body.bytes()).unwrap().replace("2026-07-28", version);
        let (head, body) = body.split_once("\r\n\r\n").unwrap();
        let request = head.lines().skip(1).fold(TestRequest::post(body), |request, line| {
            let (name, value) = line.split_once(": ").unwrap();
            if name == "Content-Length" { request } else { request.with(name, value) }
        });
        let response = server.request(&request).await;
        assert_eq!(response.error_code(), (400, -32022), "{version}: {response:?}");
        assert!(response.body.contains("; use one of 2024-11-05"), "{version}: {response:?}");
        assert_eq!(response.json()["id"], 1);
    }
    for version in ["2025-06-18", "2025-11-25"] {
        assert_eq!(server.status(&revision(version)).await, 200, "{version}");
    }
    let session = valid_request().header("Mcp-Session-Id", "1868a90c");
    assert_eq!(server.status(&session.clone().without("Authorization")).await, 401);
    assert_eq!(server.status(&session).await, 200);
}

// S5: 1.10, 3.6, 3.8, 4.4
#[tokio::test]
async fn failed_call_has_status_and_form_of_error_and_client() {
    let server = TestServer::start();
    let request = |tool| post(call(tool));
    for accept in ["application/json", "application/json, text/event-stream"] {
        let forbidden = server.request(&request("forbidden").header("Accept", accept)).await;
        assert_eq!(forbidden.error_code(), (403, -32011), "{forbidden:?}");
        assert_eq!(forbidden.json()["id"], 7);
    }
    for busy in [
        request("busy"),
        request("busy").header("Accept", "application/json, text/event-stream"),
        request("busy").header("MCP-Protocol-Version", "2025-06-18"),
        modern("tools/call", json!({ "name": "busy", "arguments": {} })),
    ] {
        let busy = server.request(&busy).await;
        assert_eq!(busy.error_code(), (503, -32015), "{busy:?}");
        assert!(busy.header("retry-after").is_some());
    }
    for plain in [request("conflict"), request("conflict").header("Accept", "application/json")] {
        assert_eq!(server.error_code(&plain).await, (200, -32012));
    }
    for mcp in [
        request("conflict").header("Accept", "application/json, Text/Event-Stream"),
        request("conflict").header("MCP-Protocol-Version", "2025-06-18"),
        modern("tools/call", json!({ "name": "conflict", "arguments": {} })),
    ] {
        let response = server.request(&mcp).await;
        assert_eq!(response.json()["result"]["isError"], true, "{response:?}");
    }
}

// S5: 2.10; catalogue 108
#[tokio::test]
async fn panicking_call_affects_no_other_call() {
    let server = TestServer::with(HttpLimits { in_flight_per_token: 64, ..HttpLimits::default() });
    let mut others = Vec::new();
    for _ in 0..50 {
        others.push(server.send(&post(call("wait"))).await);
    }
    server.wait_started(50).await;
    let broken = server.request(&post(call("panic"))).await;
    assert_eq!(broken.error_code(), (200, -32603), "{broken:?}");
    broken.correlation_id();
    assert!(!broken.body.contains("of the tool"), "{}", broken.body);
    server.stub.gate.add_permits(50);
    for mut other in others {
        assert_eq!(other.read_response().await.unwrap().status, 200);
    }
    server.assert_serves().await;
}

// S5: 2.10; catalogue 108
#[tokio::test]
async fn panic_outside_tool_gets_logged_500() {
    let server = TestServer::configured(HttpLimits::default(), |config| {
        config.render_metrics = std::sync::Arc::new(|| panic!("of the figures"));
        config.readiness = std::sync::Arc::new(|| panic!("of the probe"));
    });
    let figures = TestRequest::get("/metrics").token(&ada_token());
    let log = CapturedLog::capture();
    for (request, breaks_login) in [(&figures, false), (&valid_request(), true), (&figures, true)] {
        server.tokens.panics.store(breaks_login, Ordering::SeqCst);
        let response = server.request(request).await;
        assert_eq!(response.error_code(), (500, -32603), "{response:?}");
        log.assert_line(&["ERROR", response.correlation_id()]);
        assert!(!response.body.contains("of the"), "{}", response.body);
    }
    assert_eq!(server.status(&TestRequest::get("/readyz")).await, 500);
    server.tokens.panics.store(false, Ordering::SeqCst);
    server.assert_serves().await;
}

// S5: 5.2; catalogue 101
#[tokio::test]
async fn request_id_of_client_is_kept_if_it_is_a_plain_word() {
    let server = TestServer::start();
    let longest = "x".repeat(64);
    for name in ["a", "01J-x.y_z", &longest] {
        let response = server.request(&valid_request().header("X-Request-Id", name)).await;
        assert_eq!(response.header("x-request-id"), Some(name));
        assert_eq!(response.data()["request"], name);
    }
    let mut seen = std::collections::BTreeSet::new();
    let too_long = "x".repeat(65);
    for name in ["", "a b", "a\tb", "a;Set-Cookie: x", "ä", &too_long] {
        let response = server.request(&valid_request().header("X-Request-Id", name)).await;
        let given = response.header("x-request-id").unwrap();
        assert_eq!(response.data()["request"], *given);
        assert!(given.len() == 16 && seen.insert(given.to_owned()), "{name}: {given}");
    }
    let refused = server.request(&TestRequest::post("").header("X-Request-Id", "mine")).await;
    assert_eq!((refused.status, refused.header("x-request-id")), (401, Some("mine")));
}

#[tokio::test]
async fn handshakes_of_both_eras_and_progress_calls_succeed() {
    let server = TestServer::start();
    let old = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": { "name": "c", "version": "1" },
        },
    });
    let response = server.request(&post(old.to_string())).await;
    assert_eq!(response.json()["result"]["protocolVersion"], "2025-06-18", "{response:?}");
    assert_eq!(server.status(&modern("server/discover", json!({}))).await, 200);
    let response =
        server.request(&modern("tools/call", json!({ "name": "who", "arguments": {} }))).await;
    assert_eq!(response.data()["user"], "ada", "{response:?}");
    let params = json!({ "name": "who", "arguments": {}, "_meta": { "progressToken": 1 } });
    let body = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params });
    let response = server.request(&valid_request().body(body.to_string())).await;
    assert_eq!(response.data()["user"], "ada", "{response:?}");
}

/// Returns a request in the form of clients since 2026-07-28.
pub(crate) fn modern(method: &str, mut params: Value) -> TestRequest {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "c", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let request = post(body.to_string())
        .header("Accept", "application/json, text/event-stream")
        .header("MCP-Protocol-Version", "2026-07-28")
        .header("Mcp-Method", method);
    match params["name"].as_str() {
        Some(name) => request.header("Mcp-Name", name),
        None => request,
    }
}
