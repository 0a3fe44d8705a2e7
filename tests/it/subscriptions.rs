//! Clients of both protocol revisions are notified of edits on disk.
//!
//! EP-001 is subscribed and edited, EP-002 only edited, EP-003 only subscribed. All notifications
//! must be for EP-001.

use std::path::Path;

use serde_json::{Value, json};

use crate::backlog::create_epic;
use crate::client::{Server, project, storage_argument};
use crate::http::TestTeam;

/// Writes an epic as an editor would.
fn write_epic(root: &Path, number: u32, title: &str) {
    let folder = root.join(".reqlore/backlog/epics");
    std::fs::create_dir_all(&folder).unwrap();
    let text = format!("---\ntitle: {title}\n---\n");
    std::fs::write(folder.join(format!("EP-{number:03}.md")), text).unwrap();
}

const UPDATED_METHOD: &str = "notifications/resources/updated";

/// Edits two epics twice and expects notifications for the first only.
fn check_notified(mut server: Server, root: &Path, stream: &Value) {
    for title in ["once", "twice"] {
        write_epic(root, 2, title);
        write_epic(root, 1, title);
        let notified = server.answer();
        assert_eq!(
            (&notified["method"], &notified["params"]["uri"]),
            (&json!(UPDATED_METHOD), &json!("epic://EP-001"))
        );
        let subscription = &notified["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
        assert_eq!(subscription, stream, "{notified}");
    }
    let read = json!({ "name": "get_item", "arguments": { "reference": "EP-001" }, "_meta": request_meta() });
    let answer = server.ask(&request(9, "tools/call", &read));
    assert_eq!(answer["result"]["structuredContent"]["item"]["title"], "twice", "{answer}");
    let (rest, status) = server.end();
    assert!(status.success());
    let further = rest.iter().filter(|message| message["method"] == UPDATED_METHOD);
    assert_eq!(further.count(), 0, "{rest:?}");
}

fn request_meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "c", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

/// Writes three epics and starts a server.
fn start_with_epics(root: &Path) -> Server {
    for (number, title) in [(1, "one"), (2, "two"), (3, "three")] {
        write_epic(root, number, title);
    }
    Server::start(root)
}

/// Subscribes to these URIs in a stream with ID 5.
fn listen(server: &mut Server, uris: &[&str]) {
    let params =
        json!({ "notifications": { "resourceSubscriptions": uris }, "_meta": request_meta() });
    let answer = server.ask(&request(5, "subscriptions/listen", &params));
    assert_eq!(answer["method"], "notifications/subscriptions/acknowledged", "{answer}");
}

fn request(id: u32, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

#[test]
fn subscription_2025_file_edit_is_notified() {
    let project = project();
    let mut server = start_with_epics(project.path());
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
    let mut server = start_with_epics(project.path());
    listen(&mut server, &["epic://EP-001", "epic://EP-003"]);
    check_notified(server, project.path(), &json!(5));
}

#[test]
fn subscription_to_missing_item_fails_alike_on_both_transports() {
    let team = TestTeam::new("fs");
    let token = team.administrator();
    let http = team.serve();
    let mut client = http
        .client(&token)
        .into_mcp_client()
        .with("MCP-Protocol-Version", "2026-07-28")
        .with("Mcp-Method", "subscriptions/listen");
    let project = project();
    let mut stdio = Server::start(project.path());
    for uris in [json!(["epic://EP-404"]), json!(["requirements://epics", "epic://x"])] {
        let params =
            json!({ "notifications": { "resourceSubscriptions": uris }, "_meta": request_meta() });
        let listen = request(5, "subscriptions/listen", &params);
        let over_http = client.post(&listen);
        assert_eq!(over_http.status, 200, "{uris}");
        let over_http = over_http.json();
        assert_eq!(over_http["error"]["code"], -32602, "{over_http}");
        assert_eq!(stdio.ask(&listen), over_http, "{uris}");
    }
    http.end();
}

#[test]
fn subscription_change_by_another_process_is_notified() {
    for storage in ["fs", "sqlite", "postgres"] {
        let project = project();
        let storage = storage_argument(storage);
        let start = || Server::start_with(project.path(), &["--storage", &storage]);
        let (mut server, mut other) = (start(), start());
        listen(&mut server, &["requirements://epics"]);
        assert_eq!(create_epic(&mut other, "of another"), "EP-001");
        assert_eq!(server.answer()["params"]["uri"], "requirements://epics", "{storage}");
    }
}
