//! Bodies: accepted ones, and the responses to all others.

use std::sync::atomic::Ordering;

use reqlore_transport_http::Limits;
use serde_json::{Value, json};

use crate::client::Ask;
use crate::server::{Log, Server, ada, call, good};

fn post(body: impl Into<Vec<u8>>) -> Ask {
    Ask::post(body).token(&ada())
}

// S5: 1.11, 3.1, 3.2, 3.7, 3.9, 5.8; catalogue 50, 51, 53, 58
#[tokio::test]
async fn malformed_message_gets_its_code_its_id_and_status_400() {
    let server = Server::start();
    let nested = format!(r#"{{"id":1,"params":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    let twice =
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"who","name":"busy"}}"#;
    for (body, code, id) in [
        ("", -32700, json!(null)),
        (r#"{"jsonrpc":"2.0","#, -32700, json!(null)),
        (nested.as_str(), -32700, json!(null)),
        ("42", -32600, json!(null)),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600, json!(null)),
        (r#"{"id":"a","method":"ping"}"#, -32600, json!("a")),
        (r#"{"jsonrpc":"2.0","id":1,"method":5}"#, -32600, json!(1)),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[1]}"#, -32602, json!(1)),
        (r#"{"jsonrpc":"2.0","method":"notifications/x","params":[1]}"#, -32600, json!(null)),
        (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, -32600, json!(null)),
        (twice, -32602, json!(1)),
    ] {
        let answer = server.ask(&post(body)).await;
        let shown = &body[..body.len().min(60)];
        assert_eq!(answer.refusal(), (400, code), "{shown}: {answer:?}");
        // rmcp leaves out an unknown id.
        assert_eq!(answer.json().get("id").cloned().unwrap_or_default(), id, "{shown}");
        assert_eq!(answer.header("content-type"), Some("application/json"), "{shown}");
    }
    assert_eq!(server.refusal(&post(b"{\"a\":\"\xff\"}".to_vec())).await, (400, -32700));
    assert_eq!(server.called(), 0);
    let no_params = r#"{"jsonrpc":"2.0","id":"x","method":"tools/list"}"#;
    assert_eq!(server.ask(&post(no_params)).await.json()["id"], "x");
    let no_params = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#;
    assert_eq!(server.refusal(&post(no_params)).await, (200, -32602));
    server.lives().await;
}

// S5: 1.6, 1.8, 2.2, 2.4, 2.9, 3.4, 3.5
#[tokio::test]
async fn body_and_token_alone_make_a_request() {
    let server = Server::start();
    let answer = server.ask(&good()).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    let json = answer.json();
    assert_eq!((&json["jsonrpc"], &json["id"]), (&json!("2.0"), &json!(7)));
    assert_eq!(answer.data()["user"], "ada");
    assert!(answer.header("mcp-session-id").is_none());
    for id in [json!("a"), json!(0), json!(-5), json!("")] {
        let body = json!({ "jsonrpc": "2.0", "id": id, "method": "ping" }).to_string();
        assert_eq!(server.ask(&post(body)).await.json()["id"], id);
    }
    let unknown = json!({ "jsonrpc": "2.0", "id": 1, "method": "no/such" }).to_string();
    assert_eq!(server.refusal(&post(unknown)).await, (200, -32601));
}

// S5: 3.3
#[tokio::test]
async fn notification_gets_no_answer() {
    let server = Server::start();
    for method in ["notifications/initialized", "notifications/unknown", "tools/call"] {
        let params = json!({ "name": "who" });
        let body = json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string();
        let answer = server.ask(&post(body)).await;
        assert_eq!((answer.status, answer.body.as_str()), (202, ""), "{method}");
    }
    assert_eq!(server.called(), 0);
}

// Catalogue 65, 107
#[tokio::test]
async fn body_must_be_plain_json_in_utf_8() {
    let server = Server::start();
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
            let ask = crate::server::good().with(header, value);
            assert_eq!(server.status(&ask).await, 200, "{header}: {value}");
        }
        for value in bad {
            let ask = crate::server::good().with(header, value);
            assert_eq!(server.refusal(&ask).await, (415, -32600), "{header}: {value}");
        }
    }
    assert_eq!(server.status(&good().without("Content-Type")).await, 200);
}

// Catalogue 79
#[tokio::test]
async fn unknown_revision_is_refused_and_a_session_is_ignored() {
    let server = Server::start();
    let revision = |version: &str| good().header("MCP-Protocol-Version", version);
    for version in ["9999-01-01", "x", "2025-06-18, 2025-06-18"] {
        assert_eq!(server.refusal(&revision(version)).await, (400, -32600), "{version}");
    }
    for version in ["2025-06-18", "2025-11-25"] {
        assert_eq!(server.status(&revision(version)).await, 200, "{version}");
    }
    let session = good().header("Mcp-Session-Id", "1868a90c");
    assert_eq!(server.status(&session.clone().without("Authorization")).await, 401);
    assert_eq!(server.status(&session).await, 200);
}

// S5: 1.10, 3.6, 3.8, 4.4
#[tokio::test]
async fn failed_call_has_the_status_and_form_of_its_error_and_client() {
    let server = Server::start();
    let ask = |tool| post(call(tool));
    for accept in ["application/json", "application/json, text/event-stream"] {
        let forbidden = server.ask(&ask("forbidden").header("Accept", accept)).await;
        assert_eq!(forbidden.refusal(), (403, -32011), "{forbidden:?}");
        assert_eq!(forbidden.json()["id"], 7);
    }
    let busy = server.ask(&ask("busy")).await;
    assert_eq!(busy.refusal(), (503, -32015), "{busy:?}");
    assert!(busy.header("retry-after").is_some());
    for plain in [ask("conflict"), ask("conflict").header("Accept", "application/json")] {
        assert_eq!(server.refusal(&plain).await, (200, -32012));
    }
    for mcp in [
        ask("conflict").header("Accept", "application/json, Text/Event-Stream"),
        ask("conflict").header("MCP-Protocol-Version", "2025-06-18"),
        modern("tools/call", json!({ "name": "conflict", "arguments": {} })),
    ] {
        let answer = server.ask(&mcp).await;
        assert_eq!(answer.json()["result"]["isError"], true, "{answer:?}");
    }
}

// S5: 2.10; catalogue 108
#[tokio::test]
async fn panic_of_one_call_affects_no_other() {
    let server = Server::with(Limits { in_flight_per_token: 64, ..Limits::default() });
    let mut others = Vec::new();
    for _ in 0..50 {
        others.push(server.begin(&post(call("wait"))).await);
    }
    server.begun(50).await;
    let broken = server.ask(&post(call("panic"))).await;
    assert_eq!(broken.refusal(), (200, -32603), "{broken:?}");
    broken.correlation_id();
    assert!(!broken.body.contains("of the tool"), "{}", broken.body);
    server.stub.gate.add_permits(50);
    for mut other in others {
        assert_eq!(other.answer().await.unwrap().status, 200);
    }
    server.lives().await;
}

// S5: 2.10; catalogue 108
#[tokio::test]
async fn panic_outside_of_a_tool_is_a_logged_500() {
    let server = Server::configured(Limits::default(), |config| {
        config.metrics = std::sync::Arc::new(|| panic!("of the figures"));
        config.ready = std::sync::Arc::new(|| panic!("of the probe"));
    });
    let figures = Ask::get("/metrics").token(&ada());
    let log = Log::keep();
    for (ask, breaks_login) in [(&figures, false), (&good(), true), (&figures, true)] {
        server.tokens.panics.store(breaks_login, Ordering::SeqCst);
        let answer = server.ask(ask).await;
        assert_eq!(answer.refusal(), (500, -32603), "{answer:?}");
        log.assert_line(&["ERROR", answer.correlation_id()]);
        assert!(!answer.body.contains("of the"), "{}", answer.body);
    }
    assert_eq!(server.status(&Ask::get("/readyz")).await, 500);
    server.tokens.panics.store(false, Ordering::SeqCst);
    server.lives().await;
}

// S5: 5.2; catalogue 101
#[tokio::test]
async fn request_id_is_the_clients_if_it_is_a_plain_word() {
    let server = Server::start();
    let longest = "x".repeat(64);
    for name in ["a", "01J-x.y_z", &longest] {
        let answer = server.ask(&good().header("X-Request-Id", name)).await;
        assert_eq!(answer.header("x-request-id"), Some(name));
        assert_eq!(answer.data()["request"], name);
    }
    let mut seen = std::collections::BTreeSet::new();
    let too_long = "x".repeat(65);
    for name in ["", "a b", "a\tb", "a;Set-Cookie: x", "ä", &too_long] {
        let answer = server.ask(&good().header("X-Request-Id", name)).await;
        let given = answer.header("x-request-id").unwrap();
        assert_eq!(answer.data()["request"], *given);
        assert!(given.len() == 16 && seen.insert(given.to_owned()), "{name}: {given}");
    }
    let refused = server.ask(&Ask::post("").header("X-Request-Id", "mine")).await;
    assert_eq!((refused.status, refused.header("x-request-id")), (401, Some("mine")));
}

#[tokio::test]
async fn handshakes_of_both_eras_and_calls_with_progress_work() {
    let server = Server::start();
    let old = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": { "name": "c", "version": "1" },
        },
    });
    let answer = server.ask(&post(old.to_string())).await;
    assert_eq!(answer.json()["result"]["protocolVersion"], "2025-06-18", "{answer:?}");
    assert_eq!(server.status(&modern("server/discover", json!({}))).await, 200);
    let answer = server.ask(&modern("tools/call", json!({ "name": "who", "arguments": {} }))).await;
    assert_eq!(answer.data()["user"], "ada", "{answer:?}");
    let params = json!({ "name": "who", "arguments": {}, "_meta": { "progressToken": 1 } });
    let body = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params });
    let answer = server.ask(&good().body(body.to_string())).await;
    assert_eq!(answer.data()["user"], "ada", "{answer:?}");
}

/// A request as clients of 2026-07-28 send it.
pub(crate) fn modern(method: &str, mut params: Value) -> Ask {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "c", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let ask = post(body.to_string())
        .header("Accept", "application/json, text/event-stream")
        .header("MCP-Protocol-Version", "2026-07-28")
        .header("Mcp-Method", method);
    match params["name"].as_str() {
        Some(name) => ask.header("Mcp-Name", name),
        None => ask,
    }
}
