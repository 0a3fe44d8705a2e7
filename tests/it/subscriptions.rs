//! Who subscribed hears of an edit by hand, over the real pipe, in both eras.
//!
//! EP-001 is subscribed and edited, EP-002 edited alone, EP-003 subscribed alone. That nothing is
//! told of the latter two is proved by order: what is heard until the end speaks of the first.

use std::path::Path;

use serde_json::{Value, json};

use crate::backlog::epic;
use crate::client::{Server, project};

/// An epic as a person writes it.
fn write(root: &Path, number: u32, title: &str) {
    let folder = root.join(".reqlore/backlog/epics");
    std::fs::create_dir_all(&folder).unwrap();
    let text = format!("---\ntitle: {title}\n---\n");
    std::fs::write(folder.join(format!("EP-{number:03}.md")), text).unwrap();
}

const UPDATED: &str = "notifications/resources/updated";

/// Edits two, twice, and hears of the first alone.
fn check_told(server: Server, root: &Path, stream: &Value) {
    let mut server = server;
    for title in ["once", "twice"] {
        write(root, 2, title);
        write(root, 1, title);
        let told = server.answer();
        assert_eq!(
            (&told["method"], &told["params"]["uri"]),
            (&json!(UPDATED), &json!("epic://EP-001"))
        );
        let of = &told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
        assert_eq!(of, stream, "{told}");
    }
    let read = json!({
        "jsonrpc": "2.0", "id": 9, "method": "tools/call",
        "params": { "name": "get_item", "arguments": { "reference": "EP-001" }, "_meta": meta() }
    });
    let answer = server.ask(&read);
    assert_eq!(answer["result"]["structuredContent"]["item"]["title"], "twice", "{answer}");
    let (rest, status) = server.end();
    assert!(status.success());
    let others = rest.iter().filter(|message| message["method"] == UPDATED);
    assert_eq!(others.count(), 0, "{rest:?}");
}

fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "c", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

#[test]
fn an_edit_by_hand_is_told_to_who_subscribed_in_the_old_era() {
    let project = project();
    write(project.path(), 1, "one");
    write(project.path(), 2, "two");
    write(project.path(), 3, "three");
    let mut server = Server::start(project.path());
    let hello = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": { "name": "c", "version": "1" }
        }
    });
    assert_eq!(server.ask(&hello)["result"]["capabilities"]["resources"]["subscribe"], true);
    server.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string());
    let subscribe = |method: &str, uri: &str| json!({ "jsonrpc": "2.0", "id": 2, "method": method, "params": { "uri": uri } });
    for uri in ["epic://EP-001", "epic://EP-002", "epic://EP-003"] {
        let answer = server.ask(&subscribe("resources/subscribe", uri));
        assert!(answer["result"].is_object(), "{answer}");
    }
    let answer = server.ask(&subscribe("resources/unsubscribe", "epic://EP-002"));
    assert!(answer["result"].is_object(), "{answer}");
    check_told(server, project.path(), &Value::Null);
}

#[test]
fn an_edit_by_hand_is_told_to_who_listens_in_the_new_era() {
    let project = project();
    write(project.path(), 1, "one");
    write(project.path(), 2, "two");
    write(project.path(), 3, "three");
    let mut server = Server::start(project.path());
    let listen = json!({
        "jsonrpc": "2.0", "id": 5, "method": "subscriptions/listen", "params": {
            "notifications": { "resourceSubscriptions": ["epic://EP-001", "epic://EP-003"] }, "_meta": meta()
        }
    });
    let answer = server.ask(&listen);
    assert_eq!(answer["method"], "notifications/subscriptions/acknowledged", "{answer}");
    check_told(server, project.path(), &json!(5));
}

// A change by another process is one like that of an editor
#[test]
fn what_another_process_makes_is_told_too() {
    let project = project();
    write(project.path(), 1, "one");
    let mut server = Server::start(project.path());
    let listen = json!({
        "jsonrpc": "2.0", "id": 5, "method": "subscriptions/listen", "params": {
            "notifications": { "resourceSubscriptions": ["requirements://epics"] }, "_meta": meta()
        }
    });
    server.ask(&listen);
    let mut other = Server::start(project.path());
    assert_eq!(epic(&mut other, "of another"), "EP-002");
    assert_eq!(server.answer()["params"]["uri"], "requirements://epics");
}
