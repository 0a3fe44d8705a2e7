//! The skills of the server, by the protocol's extension and as files of `reqlore init`.

use reqlore_domain::skills::SKILLS;
use serde_json::{Value, json};

use crate::client::{Server, project};
use crate::init::Place;

const EXTENSION: &str = "io.modelcontextprotocol/skills";

fn initialize(server: &mut Server) -> Value {
    let client = json!({ "name": "test", "version": "1" });
    let params =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    server.request("initialize", params)["result"]["capabilities"].take()
}

#[test]
fn skills_are_served_with_their_size_and_text() {
    let root = project();
    let mut server = Server::start(root.path());
    assert_eq!(initialize(&mut server)["extensions"][EXTENSION], json!({}));
    let mut listed = server.request("skills/list", json!({}));
    let listed = listed["result"]["skills"].take();
    assert_eq!(listed.as_array().unwrap().len(), SKILLS.len());
    for (skill, entry) in SKILLS.iter().zip(listed.as_array().unwrap()) {
        let uri = format!("skill://{}/SKILL.md", skill.name);
        let front_matter = json!({ "name": skill.name, "description": skill.description() });
        assert_eq!((&entry["uri"], &entry["frontmatter"]), (&json!(uri), &front_matter));
        let file = &entry["resources"][0];
        assert_eq!((&file["uri"], &file["size"]), (&json!(uri), &json!(skill.text.len())));
        assert!(file["digest"].as_str().unwrap().starts_with("sha256:"), "{file}");
        let got = server.request("skills/get", json!({ "uri": uri }));
        assert_eq!(got["result"]["skill"], *entry);
        let read = server.request("resources/read", json!({ "uri": uri }));
        let content = &read["result"]["contents"][0];
        assert_eq!(
            (&content["text"], &content["mimeType"]),
            (&json!(skill.text), &json!("text/markdown"))
        );
    }
    for uri in ["skill://other/SKILL.md", "skill://../../etc/passwd", "US-001"] {
        for method in ["skills/get", "resources/read"] {
            let code = &server.request(method, json!({ "uri": uri }))["error"]["code"];
            assert_eq!(code, -32602, "{method} {uri}");
        }
    }
}

#[test]
fn init_skills_are_kept_once_edited_and_removed_to_the_byte() {
    let place = Place::new();
    let clients = ["--client", "claude-code", "--client", "codex", "--client", "claude-desktop"];
    let before = place.tree();
    place.ok(&[&clients[..], &["--skills", "--yes"]].concat());
    let file = |folder: &str| format!("project/{folder}/skills/reqlore-task/SKILL.md");
    assert_eq!(place.text(&file(".claude")), place.text(&file(".agents")));
    place.ok(&[&clients[..], &["--skills", "--check"]].concat());
    place.ok(&["--remove"]);
    assert_eq!(place.tree(), before);
    place.ok(&[&clients[..], &["--skills", "--yes"]].concat());
    place.write(&file(".claude"), "mine\n");
    place.ok(&[&clients[..], &["--skills", "--check"]].concat());
    let shown = place.ok(&["--remove"]);
    assert!(shown.contains("kept, because it was edited: .claude/skills/"), "{shown}");
    assert_eq!(place.text(&file(".claude")), "mine\n");
    assert!(!place.at("project/.agents").try_exists().unwrap());
}

#[test]
fn skills_are_not_served_without_their_tools() {
    let root = project();
    let mut server = Server::start_with(root.path(), &["--read-only"]);
    assert_eq!(initialize(&mut server)["extensions"][EXTENSION], Value::Null);
    assert_eq!(server.request("skills/list", json!({}))["error"]["code"], -32601);
}
