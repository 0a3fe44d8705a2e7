//! Custom fields and statuses in the list of tools, on both transports.

use std::path::Path;

use serde_json::{Value, json};

use crate::client::{Server, project, storage_argument};
use crate::http::{POST, TestTeam};

const SCHEMA: &str = r#"
[fields.risk]
kinds = ["requirement", "user_story", "decision"]
type = "choice"
values = ["Low", "Medium", "High"]
[fields.effort]
kinds = ["requirement", "user_story", "epic"]
type = "number"
required = true
[fields.team]
kinds = ["epic"]
type = "text"
[fields.review_day]
kinds = ["requirement"]
type = "date"

[statuses.user_story]
order = ["Backlog", "Ready", "In Progress", "Review", "Done", "Cancelled"]
category = { Ready = "open" }
"#;

fn write_schema(root: &Path, text: &str) {
    std::fs::create_dir_all(root.join(".reqlore")).unwrap();
    std::fs::write(root.join(".reqlore/project.toml"), text).unwrap();
}

fn list(server: &mut Server) -> Value {
    server.request("tools/list", json!({}))["result"]["tools"].take()
}

fn fields_of(tools: &Value, name: &str) -> Value {
    let tool = tools.as_array().unwrap().iter().find(|tool| tool["name"] == name).unwrap();
    tool["inputSchema"]["properties"]["fields"]["description"].clone()
}

const LIST_CHANGED: &str = "notifications/tools/list_changed";

#[test]
fn list_of_tools_names_fields_in_300_tokens_and_changes() {
    let project = project();
    let mut server = Server::start_with(project.path(), &["--answers", "text"]);
    let before = list(&mut server);
    write_schema(project.path(), SCHEMA);
    assert_eq!(server.answer()["method"], LIST_CHANGED);
    let tools = list(&mut server);
    let fields = fields_of(&tools, "create_requirement");
    let expected = "risk: Low, Medium, High; effort (required): number; review_day: date";
    assert_eq!(fields, expected);
    let tokenizer = tiktoken_rs::o200k_base().unwrap();
    let count = |tools: &Value| tokenizer.encode_ordinary(&tools.to_string()).len();
    let added = count(&tools) - count(&before);
    assert!(added <= 300, "{added} tokens");
    let story = json!({ "title": "A", "priority": 1, "fields": { "effort": 3, "team": "core" } });
    let created = server.call("create_epic", story);
    assert_eq!(created["result"]["isError"], false, "{created}");
    std::fs::remove_file(project.path().join(".reqlore/project.toml")).unwrap();
    assert_eq!(server.answer()["method"], LIST_CHANGED);
    assert_eq!(list(&mut server), before);
    let (rest, status) = server.end();
    assert!(status.success() && rest.is_empty(), "{rest:?}");
}

#[test]
fn many_fields_of_a_project_cost_at_most_300_tokens() {
    let project = project();
    let kinds = r#"["epic", "user_story", "requirement", "acceptance_criteria", "entity"]"#;
    let tokenizer = tiktoken_rs::o200k_base().unwrap();
    let count = |text: &str| {
        write_schema(project.path(), text);
        let mut server = Server::start_with(project.path(), &["--answers", "text"]);
        tokenizer.encode_ordinary(&list(&mut server).to_string()).len()
    };
    let before = count("");
    let mut text = String::new();
    for number in 0..40 {
        let start = format!("[fields.field_{number}]\nkinds = {kinds}\ntype = \"choice\"\n");
        text.push_str(&start);
        text += "values = [\"Größe\", \"小さい\", \"छोटा\", \"a longer value\"]\n";
        if [0, 1, 2, 3, 5, 10, 39].contains(&number) {
            let added = count(&text) - before;
            assert!(added <= 300, "{number}: {added} tokens");
        }
    }
}

#[test]
fn administrator_changes_the_tools_of_a_team() {
    let team = TestTeam::new("sqlite");
    let administrator = team.administrator();
    team.user("uli", "user");
    let user = team.token("uli", "");
    let http = team.serve();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "c", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({ "notifications": { "toolsListChanged": true }, "_meta": meta });
    let listen =
        json!({ "jsonrpc": "2.0", "id": 5, "method": "subscriptions/listen", "params": params });
    let mut stream = http
        .client(&user)
        .into_mcp_client()
        .with("MCP-Protocol-Version", "2026-07-28")
        .with("Mcp-Method", "subscriptions/listen");
    stream.send(POST, &listen.to_string()).unwrap();
    let acknowledged = stream.next_event();
    assert_eq!(acknowledged["params"]["notifications"]["toolsListChanged"], true, "{acknowledged}");
    let change = json!({ "text": SCHEMA, "if_version": "" });
    let refused = http.client(&user).call("set_record_schema", change.clone());
    assert_eq!((refused.status, refused.code()), (403, Some(-32011)));
    let changed = http.client(&administrator).data("set_record_schema", change);
    let notified = stream.next_event();
    assert_eq!(notified["method"], LIST_CHANGED, "{notified}");
    let mut client = http.client(&user);
    let tools = client.request("tools/list", json!({})).json()["result"]["tools"].take();
    assert_eq!(fields_of(&tools, "create_epic"), "effort (required): number; team: text");
    let shown = client.data("get_record_schema", json!({}));
    assert_eq!((&shown["version"], &shown["can_edit"]), (&changed["version"], &json!(false)));
    let story = shown["kinds"][1]["statuses"].as_array().unwrap();
    assert_eq!(story[3], json!({ "name": "Review", "category": "active" }));
    http.end();
    let rows = team.rows();
    let results = rows.iter().filter(|row| row["action"] == "set_record_schema");
    let results: Vec<_> = results.map(|row| row["result"].clone()).collect();
    assert_eq!(results, ["forbidden", "ok"]);
}

#[test]
fn value_of_a_custom_field_that_names_a_document_is_not_a_link() {
    let schema = "[fields.origin]\nkinds = [\"entity\"]\ntype = \"text\"\n";
    for storage in ["fs", "sqlite"] {
        let project = project();
        let mut server = Server::start_with(project.path(), &["--storage", storage]);
        server.data("set_record_schema", json!({ "text": schema }));
        server.data("create_epic", json!({ "title": "A", "priority": 1 }));
        let create = json!({ "kind": "decision", "title": "A" });
        let decision = server.data("ixchel_create", create)["id"].clone();
        for (target, cascade) in [(decision, true), (json!("EP-001"), false)] {
            let idea = json!({ "kind": "idea", "title": "A", "fields": { "origin": target } });
            let idea = json!({ "id": server.data("ixchel_create", idea)["id"] });
            let before = server.data("ixchel_show", idea.clone());
            assert_eq!(before["links"]["outgoing"], json!([]), "{storage}: {before}");
            let deletion = json!({ "reference": target, "cascade": cascade });
            let deleted = server.data("delete_item", deletion);
            assert_eq!(deleted["unlinked"], json!([]), "{storage}");
            // The version is the hash of all bytes.
            let after = server.data("ixchel_show", idea);
            assert_eq!(after, before, "{storage}");
            assert_eq!(after["fields"]["origin"], target, "{storage}");
        }
        assert!(server.end().1.success());
    }
}

#[test]
fn undo_of_the_first_schema_removes_its_document() {
    for storage in ["fs", "sqlite", "sled", "postgres"] {
        let project = project();
        let argument = storage_argument(storage);
        let mut server = Server::start_with(project.path(), &["--storage", &argument]);
        let before = server.data("get_record_schema", json!({}));
        let create = json!({ "text": SCHEMA, "if_version": "" });
        server.data("set_record_schema", create.clone());
        let undone = server.data("undo", json!({}));
        assert_eq!(undone["documents"], json!([{ "id": "project", "version": null }]), "{storage}");
        assert_eq!(server.data("get_record_schema", json!({})), before, "{storage}");
        let file = project.path().join(".reqlore/project.toml");
        assert!(file.symlink_metadata().is_err(), "{storage}");
        // A change of an existing document is restored, not removed.
        let created = server.data("set_record_schema", create);
        server.data("set_record_schema", json!({ "text": "", "if_version": created["version"] }));
        let undone = server.data("undo", json!({}));
        assert_eq!(undone["documents"][0]["version"], created["version"], "{storage}");
        assert!(server.end().1.success());
    }
}
