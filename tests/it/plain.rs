//! Plain JSON-RPC over HTTP, as specification 5 has it: a token, one body, no handshake, and an error
//! with a code for whatever fails.

use serde_json::{Value, json};

use crate::http::{Client, POST, Place, STORAGES};

/// An epic, a story and a requirement.
fn furnish(client: &mut Client) {
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
fn each_method_is_answered_from_the_projects_own_store_in_the_callers_name() {
    for storage in STORAGES {
        let place = Place::new(storage);
        place.user("ann", "user");
        let token = place.token("ann", "");
        let server = place.serve();
        let mut client = server.client(&token);
        furnish(&mut client);
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
            assert!(content["text"].as_str().unwrap().contains(word), "{uri}: {answer:?}");
        }
        let prompt = json!({ "name": "decompose_epic", "arguments": { "epic": "EP-001" } });
        let answer = client.request("prompts/get", prompt);
        assert!(answer.body.contains("by card"), "{answer:?}");
        let story = json!({ "user_story": "US-001" });
        let found = client.data("get_user_story_requirements", story);
        assert_eq!(found["requirements"][0]["reference_id"], "REQ-001", "{found}");
        server.end();
        let rows = place.rows();
        let mine = rows.iter().filter(|row| row["user"] == "ann");
        assert_eq!(mine.filter(|row| row["result"] == "ok").count(), 10, "{rows:?}");
    }
}

// S5: 1.10, 3.6, 3.7, 3.8, 5.4, 5.5, 5.6, 6.4, 7.1, 7.2, 7.8, 8.1, 8.6, 8.7
#[test]
fn whatever_fails_has_a_code_and_words_that_name_the_way_out() {
    let place = Place::new("sqlite");
    let token = place.administrator();
    let server = place.serve();
    let mut client = server.client(&token);
    furnish(&mut client);
    let tool = |name: &str, arguments: Value| {
        ("tools/call".to_owned(), json!({ "name": name, "arguments": arguments }))
    };
    let ask = |method: &str, params: Value| (method.to_owned(), params);
    let stale = json!({ "epic": "EP-001", "title": "x", "if_version": "0123456789abcdef" });
    for ((method, params), code, field, words) in [
        (tool("create_epic", json!({ "priority": 1 })), -32602, Some("title"), "title"),
        (
            tool("create_epic", json!({ "title": "x", "priority": 9 })),
            -32602,
            Some("priority"),
            "9",
        ),
        (tool("get_item", json!({ "reference": "EP-404" })), -32002, None, "EP-404"),
        (tool("update_epic", stale), -32012, None, "version"),
        (tool("no_such", json!({})), -32601, None, "tools/list names all"),
        (ask("no/such", json!({})), -32601, None, "Reqlore serves "),
        (ask("tools/call", json!({})), -32602, None, "tools/call"),
        (ask("resources/read", json!({ "uri": "epic://EP-404" })), -32002, None, "EP-404"),
        (ask("prompts/get", json!({ "name": "no_such" })), -32602, None, "no_such"),
        (ask("prompts/get", json!({ "name": "decompose_epic" })), -32602, None, "epic"),
        (
            ask(
                "prompts/get",
                json!({ "name": "decompose_epic", "arguments": { "epic": "EP-404" } }),
            ),
            -32002,
            None,
            "EP-404",
        ),
    ] {
        let answer = client.request(&method, params);
        let json = answer.json();
        let error = &json["error"];
        assert_eq!((answer.status, answer.code()), (200, Some(code)), "{method}: {answer:?}");
        assert!(json.get("result").is_none() && json["id"] == 1, "{answer:?}");
        assert!(error["message"].as_str().unwrap().contains(words), "{words}: {error}");
        if let Some(field) = field {
            assert_eq!(error["data"]["field"], field, "{error}");
        }
    }
}

// S5: 1.11, 3.1, 3.2, 3.3, 3.9, 5.8
#[test]
fn what_is_no_request_is_told_so_and_what_needs_no_answer_gets_none() {
    let place = Place::new("fs");
    let token = place.administrator();
    let server = place.serve();
    let mut client = server.client(&token);
    for (body, status, code) in [
        ("{", 400, -32700),
        ("nonsense", 400, -32700),
        ("[]", 400, -32600),
        (r#"{"id":1,"method":"ping"}"#, 400, -32600),
        (r#"{"jsonrpc":"2.0","id":1}"#, 400, -32600),
    ] {
        let answer = client.ask(POST, body);
        assert_eq!((answer.status, answer.code()), (status, Some(code)), "{body}");
    }
    let no_params = client.post(&json!({ "jsonrpc": "2.0", "id": "x", "method": "tools/list" }));
    assert_eq!((no_params.status, &no_params.json()["id"]), (200, &json!("x")));
    let none = client.post(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call" }));
    assert_eq!(none.code(), Some(-32602), "{none:?}");
    let notified = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let answer = client.post(&notified);
    assert_eq!((answer.status, &*answer.body), (202, ""));
}

// S5: 4.8, 5.1, 5.2, 5.9
#[test]
fn the_log_tells_when_what_went_wrong_under_which_name() {
    let place = Place::new("sqlite");
    let token = place.administrator();
    let server = place.serve();
    let mut client = server.client(&token).with("X-Request-Id", "broken-1");
    client.data("create_epic", json!({ "title": "x", "priority": 1 }));
    std::fs::remove_dir_all(place.root().join(".reqlore/local")).unwrap();
    let answer = client.call("create_epic", json!({ "title": "y", "priority": 1 }));
    assert_eq!((answer.status, answer.code()), (503, Some(-32016)), "{answer:?}");
    assert!(answer.head.contains("retry-after: "), "{answer:?}");
    assert_eq!(answer.json()["error"]["data"]["correlation_id"], "broken-1", "{answer:?}");
    let mut stranger = server.client("reqlore_pat_x").with("X-Request-Id", "stranger-1");
    assert_eq!(stranger.call("list_epics", json!({})).status, 401);
    server.signal(rustix::process::Signal::TERM);
    let said = server.wait().1;
    let line = |words: &[&str]| {
        let found = said.lines().find(|line| words.iter().all(|word| line.contains(word)));
        found.unwrap_or_else(|| panic!("{words:?}: {said}"))
    };
    let refused = line(&["stranger-1", "WARN", "a login was refused", "127.0.0.1"]);
    assert!(refused.starts_with("20") && refused.contains("Z "), "{refused}");
    line(&["broken-1", "ERROR"]);
}
