//! Bodies: what is taken, and what all others are told.

use std::sync::atomic::Ordering;

use reqlore_transport_http::Limits;
use serde_json::{Value, json};

use crate::client::Ask;
use crate::server::{Log, Server, ada, call, good};

// S5: 1.11, 3.1, 3.7, 3.9, 5.8; catalogue 50, 51, 53, 58
#[tokio::test]
async fn what_is_no_message_is_told_so_and_harms_nobody() {
    let server = Server::start();
    let nested = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{}{}}}"#,
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    let twice =
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"who","name":"busy"}}"#;
    for (body, code, id) in [
        ("", -32700, json!(null)),
        ("nonsense", -32700, json!(null)),
        (r#"{"jsonrpc":"2.0","#, -32700, json!(null)),
        ("{} {}", -32700, json!(null)),
        (nested.as_str(), -32700, json!(null)),
        ("{}", -32600, json!(null)),
        ("[]", -32600, json!(null)),
        ("null", -32600, json!(null)),
        ("42", -32600, json!(null)),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600, json!(null)),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600, json!(1)),
        (r#"{"id":"a","method":"ping"}"#, -32600, json!("a")),
        (r#"{"jsonrpc":"2.0","id":1,"method":5}"#, -32600, json!(1)),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[1]}"#, -32602, json!(1)),
        (r#"{"jsonrpc":"2.0","method":"notifications/x","params":[1]}"#, -32600, json!(null)),
        (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, -32600, json!(null)),
        (twice, -32602, json!(1)),
    ] {
        let answer = server.ask(&Ask::post(body).token(&ada())).await;
        let shown = &body[..body.len().min(60)];
        assert_eq!((answer.status, answer.code()), (400, code), "{shown}: {answer:?}");
        // rmcp leaves out what it does not know.
        assert_eq!(answer.json().get("id").cloned().unwrap_or_default(), id, "{shown}");
        assert_eq!(answer.header("content-type"), Some("application/json"), "{shown}");
    }
    let mut bytes = good().head();
    bytes.extend(b"\xff");
    let answer = server.ask(&Ask::post(b"{\"a\":\"\xff\"}".to_vec()).token(&ada())).await;
    assert_eq!((answer.status, answer.code()), (400, -32700));
    assert_eq!(server.stub.called.load(Ordering::SeqCst), 0);
    server.lives().await;
}

// S5: 1.6, 1.8, 2.2, 2.4, 3.4, 3.5
#[tokio::test]
async fn one_body_and_a_token_are_enough() {
    let server = Server::start();
    let answer = server.ask(&good()).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    let json = answer.json();
    assert_eq!((&json["jsonrpc"], &json["id"]), (&json!("2.0"), &json!(7)));
    assert_eq!(json["result"]["structuredContent"]["user"], "ada");
    assert!(answer.header("mcp-session-id").is_none());
    for id in [json!("a"), json!(0), json!(-5), json!("")] {
        let body = json!({ "jsonrpc": "2.0", "id": id, "method": "ping" }).to_string();
        assert_eq!(server.ask(&Ask::post(body).token(&ada())).await.json()["id"], id);
    }
}

// S5: 3.3
#[tokio::test]
async fn a_notification_gets_no_answer() {
    let server = Server::start();
    for method in ["notifications/initialized", "notifications/unknown", "tools/call"] {
        let params = json!({ "name": "who" });
        let body = json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string();
        let answer = server.ask(&Ask::post(body).token(&ada())).await;
        assert_eq!((answer.status, answer.body.as_str()), (202, ""), "{method}");
    }
    assert_eq!(server.stub.called.load(Ordering::SeqCst), 0);
}

// Catalogue 65, 107
#[tokio::test]
async fn bodies_are_json_in_utf_8_as_they_are() {
    let server = Server::start();
    for kind in [
        "application/json",
        "APPLICATION/JSON",
        "application/json; charset=utf-8",
        "application/json;charset=\"UTF-8\"",
    ] {
        assert_eq!(server.ask(&good().with("Content-Type", kind)).await.status, 200, "{kind}");
    }
    assert_eq!(server.ask(&good().without("Content-Type")).await.status, 200);
    for accept in ["*/*", "application/json", "text/html", "application/json, text/event-stream"] {
        assert_eq!(server.ask(&good().header("Accept", accept)).await.status, 200, "{accept}");
    }
    for kind in [
        "text/plain",
        "text/plain; charset=utf-8",
        "application/json; charset=utf-16",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonx",
        "",
    ] {
        let answer = server.ask(&good().with("Content-Type", kind)).await;
        assert_eq!((answer.status, answer.code()), (415, -32600), "{kind}");
    }
    for coding in ["gzip", "br", "deflate, gzip"] {
        let answer = server.ask(&good().header("Content-Encoding", coding)).await;
        assert_eq!((answer.status, answer.code()), (415, -32600), "{coding}");
    }
}

// Catalogue 79
#[tokio::test]
async fn an_unknown_revision_is_refused_and_a_session_means_nothing() {
    let server = Server::start();
    for version in ["9999-01-01", "x", "2025-06-18, 2025-06-18"] {
        let answer = server.ask(&good().header("MCP-Protocol-Version", version)).await;
        assert_eq!((answer.status, answer.code()), (400, -32600), "{version}");
    }
    for version in ["2025-06-18", "2025-11-25"] {
        let answer = server.ask(&good().header("MCP-Protocol-Version", version)).await;
        assert_eq!(answer.status, 200, "{version}");
    }
    let stolen = good().header("Mcp-Session-Id", "1868a90c").without("Authorization");
    assert_eq!(server.ask(&stolen).await.status, 401);
    assert_eq!(server.ask(&good().header("Mcp-Session-Id", "1868a90c")).await.status, 200);
}

// S5: 1.10, 3.6, 4.4
#[tokio::test]
async fn what_fails_has_the_status_that_it_deserves() {
    let server = Server::start();
    for accept in ["application/json", "application/json, text/event-stream"] {
        let ask = |tool| Ask::post(call(tool)).token(&ada()).header("Accept", accept);
        let forbidden = server.ask(&ask("forbidden")).await;
        assert_eq!((forbidden.status, forbidden.code()), (403, -32011), "{forbidden:?}");
        assert_eq!(forbidden.json()["id"], 7);
    }
    let busy = server.ask(&Ask::post(call("busy")).token(&ada())).await;
    assert_eq!((busy.status, busy.code()), (503, -32015), "{busy:?}");
    assert!(busy.header("retry-after").is_some());
}

// S5: 1.10, 3.6, 3.8
#[tokio::test]
async fn who_speaks_json_rpc_alone_gets_its_errors_and_clients_of_mcp_get_results() {
    let server = Server::start();
    let ask = Ask::post(call("conflict")).token(&ada());
    for plain in [ask.clone(), ask.clone().header("Accept", "application/json")] {
        let answer = server.ask(&plain).await;
        assert_eq!((answer.status, answer.code()), (200, -32012), "{answer:?}");
    }
    for mcp in [
        ask.clone().header("Accept", "application/json, Text/Event-Stream"),
        ask.header("MCP-Protocol-Version", "2025-06-18"),
        modern("tools/call", json!({ "name": "conflict", "arguments": {} })),
    ] {
        let answer = server.ask(&mcp).await;
        assert_eq!(answer.json()["result"]["isError"], true, "{answer:?}");
    }
}

// S5: 2.9
#[tokio::test]
async fn an_unknown_method_is_told_so() {
    let server = Server::start();
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "no/such" }).to_string();
    let answer = server.ask(&Ask::post(body).token(&ada())).await;
    assert_eq!((answer.status, answer.code()), (200, -32601));
}

// S5: 2.10; catalogue 108
#[tokio::test]
async fn one_call_that_breaks_breaks_no_other() {
    let server = Server::with(Limits { in_flight_per_token: 64, ..Limits::default() });
    let mut others = Vec::new();
    for _ in 0..50 {
        others.push(server.begin(&Ask::post(call("wait")).token(&ada())).await);
    }
    server.begun(50).await;
    let broken = server.ask(&Ask::post(call("panic")).token(&ada())).await;
    assert_eq!(broken.code(), -32603, "{broken:?}");
    let id = broken.header("x-request-id").unwrap();
    assert_eq!(broken.json()["error"]["data"]["correlation_id"], *id);
    assert!(!broken.body.contains("of the tool"), "{}", broken.body);
    server.stub.gate.add_permits(50);
    for mut other in others {
        assert_eq!(other.answer().await.unwrap().status, 200);
    }
    server.lives().await;
}

// S5: 2.10; catalogue 108
#[tokio::test]
async fn what_breaks_outside_of_a_tool_is_answered_too() {
    let server = Server::configured(Limits::default(), |config| {
        config.metrics = std::sync::Arc::new(|| panic!("of the figures"));
        config.ready = std::sync::Arc::new(|| panic!("of the probe"));
    });
    let figures = Ask::get("/metrics").token(&ada());
    let (log, _guard) = Log::keep();
    for (ask, breaks_login) in [(&figures, false), (&good(), true), (&figures, true)] {
        server.tokens.panics.store(breaks_login, Ordering::SeqCst);
        let answer = server.ask(ask).await;
        assert_eq!((answer.status, answer.code()), (500, -32603), "{answer:?}");
        let id = answer.header("x-request-id").unwrap();
        assert_eq!(answer.json()["error"]["data"]["correlation_id"], *id);
        assert!(!answer.body.contains("of the"), "{}", answer.body);
        let text = log.text();
        assert!(text.lines().any(|line| line.contains("ERROR") && line.contains(id)), "{text}");
    }
    assert_eq!(server.ask(&Ask::get("/readyz")).await.status, 500);
    server.tokens.panics.store(false, Ordering::SeqCst);
    server.lives().await;
}

// S5: 5.2; catalogue 101
#[tokio::test]
async fn a_requests_name_is_the_clients_if_it_is_a_plain_word() {
    let server = Server::start();
    let longest = "x".repeat(64);
    for name in ["a", "01J-x.y_z", &longest] {
        let answer = server.ask(&good().header("X-Request-Id", name)).await;
        assert_eq!(answer.header("x-request-id"), Some(name));
        assert_eq!(answer.json()["result"]["structuredContent"]["request"], name);
    }
    let mut seen = std::collections::BTreeSet::new();
    let too_long = "x".repeat(65);
    for name in ["", "a b", "a\tb", "a;Set-Cookie: x", "ä", &too_long] {
        let answer = server.ask(&good().header("X-Request-Id", name)).await;
        let given = answer.header("x-request-id").unwrap();
        assert_eq!(answer.json()["result"]["structuredContent"]["request"], *given);
        assert!(given.len() == 16 && seen.insert(given.to_owned()), "{name}: {given}");
    }
    let refused = server.ask(&Ask::post("").header("X-Request-Id", "mine")).await;
    assert_eq!((refused.status, refused.header("x-request-id")), (401, Some("mine")));
}

#[tokio::test]
async fn the_handshake_of_either_era_works() {
    let server = Server::start();
    let old = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": { "name": "c", "version": "1" },
        },
    });
    let answer = server.ask(&Ask::post(old.to_string()).token(&ada())).await;
    assert_eq!(answer.json()["result"]["protocolVersion"], "2025-06-18", "{answer:?}");
    let answer = server.ask(&modern("server/discover", json!({}))).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let answer = server.ask(&modern("tools/call", json!({ "name": "who", "arguments": {} }))).await;
    assert_eq!(answer.json()["result"]["structuredContent"]["user"], "ada", "{answer:?}");
}

/// A request as clients of 2026-07-28 send it.
pub(crate) fn modern(method: &str, mut params: Value) -> Ask {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "c", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let ask = Ask::post(body.to_string())
        .token(&ada())
        .header("Accept", "application/json, text/event-stream")
        .header("MCP-Protocol-Version", "2026-07-28")
        .header("Mcp-Method", method);
    match params["name"].as_str() {
        Some(name) => ask.header("Mcp-Name", name),
        None => ask,
    }
}
