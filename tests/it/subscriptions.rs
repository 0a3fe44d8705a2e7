//! Subscribers are notified of edits by hand, over the real pipe, in both eras.
//!
//! EP-001 is subscribed and edited, EP-002 edited alone, EP-003 subscribed alone. All notifications
//! until the end are of the first.

use std::path::Path;

use serde_json::{Value, json};

use crate::backlog::epic;
use crate::client::{Server, project};

/// Writes an epic as an editor does.
fn write(root: &Path, number: u32, title: &str) {
    let folder = root.join(".reqlore/backlog/epics");
    std::fs::create_dir_all(&folder).unwrap();
    let text = format!("---\ntitle: {title}\n---\n");
    std::fs::write(folder.join(format!("EP-{number:03}.md")), text).unwrap();
}

const UPDATED: &str = "notifications/resources/updated";

/// Edits two epics, twice, and is notified of the first alone.
fn check_notified(mut server: Server, root: &Path, stream: &Value) {
    for title in ["once", "twice"] {
        write(root, 2, title);
        write(root, 1, title);
        let notified = server.answer();
        assert_eq!(
            (&notified["method"], &notified["params"]["uri"]),
            (&json!(UPDATED), &json!("epic://EP-001"))
        );
        let of = &notified["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
        assert_eq!(of, stream, "{notified}");
    }
    let read =
        json!({ "name": "get_item", "arguments": { "reference": "EP-001" }, "_meta": meta() });
    let answer = server.ask(&request(9, "tools/call", &read));
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

/// A server over three epics.
fn start(root: &Path) -> Server {
    for (number, title) in [(1, "one"), (2, "two"), (3, "three")] {
        write(root, number, title);
    }
    Server::start(root)
}

/// Opens the stream 5 for these URIs.
fn listen(server: &mut Server, uris: &[&str]) {
    let params = json!({ "notifications": { "resourceSubscriptions": uris }, "_meta": meta() });
    let answer = server.ask(&request(5, "subscriptions/listen", &params));
    assert_eq!(answer["method"], "notifications/subscriptions/acknowledged", "{answer}");
}

fn request(id: u32, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

#[test]
fn subscription_2025_file_edit_is_notified() {
    let project = project();
    let mut server = start(project.path());
    let hello = json!({
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": { "name": "c", "version": "1" }
    });
    let hello = server.ask(&request(1, "initialize", &hello));
    assert_eq!(hello["result"]["capabilities"]["resources"]["subscribe"], true);
    server.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string());
    for (method, uri) in [
        ("resources/subscribe", "epic://EP-001"),
        ("resources/subscribe", "epic://EP-002"),
        ("resources/subscribe", "epic://EP-003"),
        ("resources/unsubscribe", "epic://EP-002"),
    ] {
        let answer = server.ask(&request(2, method, &json!({ "uri": uri })));
        assert!(answer["result"].is_object(), "{answer}");
    }
    check_notified(server, project.path(), &Value::Null);
}

#[test]
fn subscription_2026_file_edit_is_notified() {
    let project = project();
    let mut server = start(project.path());
    listen(&mut server, &["epic://EP-001", "epic://EP-003"]);
    check_notified(server, project.path(), &json!(5));
}

#[test]
fn subscription_change_by_another_process_is_notified() {
    let project = project();
    let mut server = start(project.path());
    listen(&mut server, &["requirements://epics"]);
    let mut other = Server::start(project.path());
    assert_eq!(epic(&mut other, "of another"), "EP-004");
    assert_eq!(server.answer()["params"]["uri"], "requirements://epics");
}
