//! Plain JSON-RPC over HTTP: one request body, no handshake, and an error code for each failure.

use serde_json::{Value, json};

use crate::http::{Client, STORAGES, TestTeam};

/// Creates an epic, a story and a requirement.
fn create_items(client: &mut Client) {
    client.data("create_epic", json!({ "title": "Pay", "description": "by card", "priority": 1 }));
    client.data("create_user_story", json!({ "epic": "EP-001", "title": "Card", "priority": 2 }));
    let requirement = json!({
        "user_story": "US-001", "title": "Refuse", "description": "expired cards",
        "priority": 1, "type": "Functional"
    });
    client.data("create_requirement", requirement);
}

// S5: 1.1, 1.5, 1.6, 1.7, 1.8, 1.9, 2.1, 2.2, 2.3, 2.4, 2.6, 2.7, 2.8, 3.4, 3.5
#[test]
fn json_rpc_each_method_is_answered_and_audited() {
    for storage in STORAGES {
        let team = TestTeam::new(storage);
        team.user("ann", "user");
        let token = team.token("ann", "");
        let server = team.serve();
        let mut client = server.client(&token);
        create_items(&mut client);
        let item = &client.data("get_item", json!({ "reference": "EP-001" }))["item"];
        assert_eq!(item["creator_username"], "ann", "{item}");
        for (uri, word) in [
            ("epic://EP-001", "by card"),
            ("user-story://US-001", "Card"),
            ("requirement://REQ-001", "expired cards"),
            ("epic://EP-001/hierarchy", "Refuse"),
        ] {
            let answer = client.request("resources/read", json!({ "uri": uri }));
            let json = answer.json();
            assert_eq!((answer.status, &json["jsonrpc"]), (200, &json!("2.0")));
            let content = &json["result"]["contents"][0];
            assert_eq!(content["uri"], uri);
            assert!(content["name"].is_string() && content["description"].is_string());
            assert!(content["text"].as_str().unwrap().contains(word), "{uri}: {answer:?}");
        }
        let prompt = json!({ "name": "decompose_epic", "arguments": { "epic": "EP-001" } });
        let answer = client.request("prompts/get", prompt);
        assert!(answer.body.contains("by card"), "{answer:?}");
        let story = json!({ "user_story": "US-001" });
        let answer = client.data("get_user_story_requirements", story);
        assert_eq!(answer["requirements"][0]["reference_id"], "REQ-001", "{answer}");
        server.end();
        let rows = team.rows();
        let own_rows = rows.iter().filter(|row| row["user"] == "ann");
        assert_eq!(own_rows.filter(|row| row["result"] == "ok").count(), 10, "{rows:?}");
    }
}

// S5: 1.10, 3.6, 3.7, 3.8, 5.4, 5.5, 5.6, 6.4, 7.1, 7.2, 7.8, 8.1, 8.6, 8.7
#[test]
fn json_rpc_each_error_has_a_code_and_names_the_fix() {
    let team = TestTeam::new("sqlite");
    let token = team.administrator();
    let server = team.serve();
    let mut client = server.client(&token);
    create_items(&mut client);
    let stale = json!({ "epic": "EP-001", "title": "x", "if_version": "0123456789abcdef" });
    let missing = json!({ "name": "decompose_epic", "arguments": { "epic": "EP-404" } });
    let placeholder = json!({ "name": "decompose_epic", "arguments": { "epic": "$1" } });
    let mut mcp_client = server.client(&token).into_mcp_client();
    let filled = mcp_client.request("prompts/get", placeholder.clone()).json();
    let text = filled["result"]["messages"][0]["content"]["text"].as_str().unwrap();
    assert!(text.contains("`get_item`\nwith `reference` \"$1\""), "{text}");
    for (answer, code, words) in [
        (client.call("create_epic", json!({ "priority": 1 })), -32602, "title"),
        (client.call("create_epic", json!({ "title": "x", "priority": 9 })), -32602, "9"),
        (client.call("get_item", json!({ "reference": "EP-404" })), -32002, "EP-404"),
        (client.call("update_epic", stale), -32012, "version"),
        (client.call("no_such", json!({})), -32601, "tools/list returns all tools"),
        (client.request("no/such", json!({})), -32601, "use one of "),
        (client.request("tools/call", json!({})), -32602, "tools/call"),
        (client.request("resources/read", json!({ "uri": "epic://EP-404" })), -32002, "EP-404"),
        (client.request("prompts/get", json!({ "name": "no_such" })), -32602, "no_such"),
        (client.request("prompts/get", json!({ "name": "decompose_epic" })), -32602, "epic"),
        (client.request("prompts/get", missing), -32002, "EP-404"),
        (client.request("prompts/get", placeholder), -32602, "$1"),
    ] {
        let json = answer.json();
        assert_eq!((answer.status, answer.code()), (200, Some(code)), "{words}: {answer:?}");
        assert!(json.get("result").is_none() && json["id"] == 1, "{answer:?}");
        assert!(json["error"]["message"].as_str().unwrap().contains(words), "{words}: {answer:?}");
        if ["title", "9"].contains(&words) {
            let field = if words == "9" { "priority" } else { words };
            assert_eq!(json["error"]["data"]["field"], field, "{answer:?}");
        }
    }
}

// S5: 4.8, 5.1, 5.2, 5.9
#[test]
fn json_rpc_failure_is_logged_with_cause_and_request_id() {
    let team = TestTeam::new("sqlite");
    let token = team.administrator();
    let server = team.serve();
    let mut client = server.client(&token).with("X-Request-Id", "broken-1");
    client.data("create_epic", json!({ "title": "x", "priority": 1 }));
    std::fs::remove_dir_all(team.root().join(".reqlore/local")).unwrap();
    let answer = client.call("create_epic", json!({ "title": "y", "priority": 1 }));
    assert_eq!((answer.status, answer.code()), (503, Some(-32016)), "{answer:?}");
    assert!(answer.head.contains("retry-after: "), "{answer:?}");
    assert_eq!(answer.json()["error"]["data"]["correlation_id"], "broken-1", "{answer:?}");
    let mut unknown_client = server.client("reqlore_pat_x").with("X-Request-Id", "stranger-1");
    assert_eq!(unknown_client.call("list_epics", json!({})).status, 401);
    server.signal(rustix::process::Signal::TERM);
    let log = server.wait().1;
    let line = |words: &[&str]| {
        let log_line = log.lines().find(|line| words.iter().all(|word| line.contains(word)));
        log_line.unwrap_or_else(|| panic!("{words:?}: {log}"))
    };
    let refused = line(&["stranger-1", "WARN", "login rejected", "127.0.0.1"]);
    assert!(refused.starts_with("20") && refused.contains("Z "), "{refused}");
    line(&["broken-1", "ERROR"]);
}

// S5: 5.1, 5.9
#[test]
fn json_rpc_failed_call_leaves_one_line_with_its_details() {
    let team = TestTeam::new("sqlite");
    let token = team.administrator();
    let server = team.serve();
    let mut failures = Vec::new();
    for (method, params, code, words) in [
        (
            "tools/call",
            json!({ "name": "get_item", "arguments": { "reference": "EP-9" } }),
            -32002,
            "tool=get_item",
        ),
        ("tools/call", json!({ "name": "no_such" }), -32601, "tool=no_such"),
        ("resources/read", json!({ "uri": "epic://EP-9" }), -32002, "Epic not found: EP-009"),
        ("prompts/get", json!({}), -32602, "name: required, and missing"),
        ("no/such", json!({}), -32601, "unknown method"),
    ] {
        let id = format!("failure-{}", failures.len());
        let answer = server.client(&token).with("X-Request-Id", &id).request(method, params);
        assert_eq!(answer.code(), Some(code), "{answer:?}");
        failures.push((id, method, format!("code={code}"), words));
    }
    server.signal(rustix::process::Signal::TERM);
    let log = server.wait().1;
    for (id, method, code, words) in &failures {
        let lines: Vec<&str> = log.lines().filter(|line| line.contains(&**id)).collect();
        let [line] = lines[..] else { panic!("{id}: {lines:#?}") };
        for part in [" INFO ", &format!("method={method}"), code, words] {
            assert!(line.contains(part), "{part}: {line}");
        }
    }
}

// S5: 4.8, 5.1
#[test]
fn json_rpc_request_refused_before_its_call_leaves_one_line() {
    let team = TestTeam::new("sqlite");
    let token = team.administrator();
    let limits = "[http.limits]\nrequests_per_second = 1\nrequests_burst = 4\n";
    std::fs::write(team.root().join("reqlore.toml"), limits).unwrap();
    let server = team.serve();
    let mut anonymous = server.client(&token).with("X-Request-Id", "no-token");
    anonymous.headers.remove(0);
    assert_eq!(anonymous.call("list_epics", json!({})).status, 401);
    let modern = server.client(&token).into_mcp_client().with("X-Request-Id", "modern");
    let mut modern =
        modern.with("MCP-Protocol-Version", "2026-07-28").with("Mcp-Method", "no/such");
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {}
    });
    assert_eq!(modern.request("no/such", json!({ "_meta": meta })).code(), Some(-32601));
    let call = |id: u8| {
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call",
                "params": { "name": "list_epics", "arguments": {} } })
    };
    let mut batch = server.client(&token).with("X-Request-Id", "batch");
    // More than the burst and what a slow machine adds in the meantime.
    let members: Vec<Value> = (1..=50).map(call).collect();
    let last = &batch.post(&json!(members)).json()[49];
    assert_eq!((&last["id"], &last["error"]["code"]), (&json!(50), &json!(-32013)));
    let mut limited = server.client(&token).with("X-Request-Id", "limited");
    let refused = (0..100).any(|_| limited.call("list_epics", json!({})).status == 429);
    assert!(refused);
    let log = server.end();
    for (id, words) in [
        ("id=no-token ", "login rejected"),
        ("id=modern ", "method=no/such code=-32601"),
        ("id=batch.50 ", "method=tools/call tool=list_epics code=-32013"),
        ("id=limited ", "code=-32013"),
    ] {
        let lines: Vec<&str> = log.lines().filter(|line| line.contains(id)).collect();
        let [line] = lines[..] else { panic!("{id}: {lines:#?}") };
        assert!(line.contains(" INFO ") && line.contains(words), "{words}: {line}");
    }
}

// S5: 3.5, 7.2
#[test]
fn json_rpc_missing_member_is_named_by_its_path() {
    let team = TestTeam::new("sqlite");
    let token = team.administrator();
    let server = team.serve();
    let mut client = server.client(&token);
    let info = json!({ "name": "x" });
    let version = "2025-06-18";
    for (method, params, field) in [
        ("tools/call", json!({}), "name"),
        ("tools/call", json!({ "name": 5 }), "name"),
        ("resources/read", json!({}), "uri"),
        ("prompts/get", json!({ "arguments": {} }), "name"),
        (
            "completion/complete",
            json!({ "ref": { "type": "ref/prompt", "name": "x" } }),
            "argument",
        ),
        ("initialize", json!({ "protocolVersion": version, "capabilities": {} }), "clientInfo"),
        (
            "initialize",
            json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": info }),
            "clientInfo.version",
        ),
    ] {
        let answer = client.request(method, params);
        let error = &answer.json()["error"];
        assert_eq!((&error["code"], &error["data"]["field"]), (&json!(-32602), &json!(field)));
        assert!(error["message"].as_str().unwrap().starts_with(&format!("{field}: ")), "{error}");
    }
    let answer = client.post(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call" }));
    assert_eq!(answer.json()["error"]["data"]["field"], "params", "{answer:?}");
}
