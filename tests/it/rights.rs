//! Access to every tool for each role, token scope and project, also on a read-only server.
//!
//! The tools are those listed for an administrator, so a new tool needs an example in
//! `tests/clients/arguments.json`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::http::{Answer, Client, STORAGES, Server, TestTeam, token_id};

/// A word in every document of the default project, and in the examples that search or write.
const MARKER_WORD: &str = "zebra";

struct TeamMember {
    name: String,
    token: String,
    writes: bool,
}

fn create_members(team: &TestTeam) -> Vec<TeamMember> {
    let mut members = Vec::new();
    for role in ["administrator", "user", "commenter"] {
        for scope in ["write", "read"] {
            let name = format!("{role}-{scope}");
            team.user(&name, role);
            let token = team.token(&name, &format!("--scope {scope}"));
            members.push(TeamMember {
                name,
                token,
                writes: role != "commenter" && scope == "write",
            });
        }
    }
    members
}

/// Creates one item of each kind in the default project.
fn create_items(client: &mut Client, root: &str) {
    let epic = json!({ "title": MARKER_WORD, "description": MARKER_WORD, "priority": 1 });
    client.data("create_epic", epic);
    let story = json!({ "epic": "EP-001", "title": MARKER_WORD, "description": MARKER_WORD, "priority": 1 });
    client.data("create_user_story", story);
    for _ in 0..3 {
        client.data("create_requirement", tool_arguments("create_requirement", root));
    }
    client.data("create_acceptance_criteria", tool_arguments("create_acceptance_criteria", root));
    client.data("create_relationship", tool_arguments("create_relationship", root));
    client.data("reqlix_set_requirements", tool_arguments("reqlix_set_requirements", root));
}

/// The first example of a tool, which refers to the items of [`create_items`], in this project.
fn tool_arguments(tool: &str, project: &str) -> Value {
    let text = include_str!("../clients/arguments.json").replace("{project}", project);
    let tools: Value = serde_json::from_str(&text).unwrap();
    let example = tools[tool]["examples"][0].clone();
    assert!(example.is_object(), "{tool}: add examples to tests/clients/arguments.json");
    example
}

/// The names of all tools listed for a client and of those that write.
fn listed_tools(client: &mut Client) -> (BTreeSet<String>, BTreeSet<String>) {
    let answer = client.request("tools/list", json!({})).json();
    let tools = answer["result"]["tools"].as_array().unwrap().clone();
    let tool_name = |tool: &Value| tool["name"].as_str().unwrap().to_owned();
    let is_writing = |tool: &&Value| tool["annotations"]["readOnlyHint"] != true;
    let writing_tools = tools.iter().filter(is_writing);
    (tools.iter().map(tool_name).collect(), writing_tools.map(tool_name).collect())
}

/// All stored documents as lines of a dump. No server may be running.
fn stored_documents(team: &TestTeam) -> Vec<String> {
    let file = team.folder().join("before.dump");
    let _ = std::fs::remove_file(&file);
    team.run(&format!("backup {}", file.display()));
    let dump = std::fs::read_to_string(file).unwrap();
    let is_content =
        |line: &&str| line.starts_with("{\"project\"") || line.starts_with("{\"mark\"");
    dump.lines().filter(is_content).map(str::to_owned).collect()
}

/// A team with items in its project, its members, and the names of reading and writing tools.
fn create_team(storage: &'static str) -> (TestTeam, Vec<TeamMember>, [BTreeSet<String>; 2]) {
    let team = TestTeam::new(storage);
    let members = create_members(&team);
    let server = team.serve();
    let mut administrator = server.client(&members[0].token);
    create_items(&mut administrator, team.root().to_str().unwrap());
    let (all, writing) = listed_tools(&mut administrator);
    server.end();
    let entities = team.root().join(".ixchel");
    std::fs::create_dir(&entities).unwrap();
    std::fs::write(entities.join("dec-000001.md"), "---\ntitle: later\n---\n").unwrap();
    assert!(writing.len() > 10 && all.len() > writing.len() + 10);
    // It imports files into a database.
    assert_eq!(writing.contains("ixchel_sync"), storage != "fs", "{storage}");
    let reading = all.difference(&writing).cloned().collect();
    (team, members, [reading, writing])
}

fn is_forbidden(answer: &Answer) -> bool {
    let is_status_403 = answer.status == 403;
    assert_eq!(is_status_403, answer.code() == Some(-32011), "{answer:?}");
    is_status_403
}

/// Each member without write access calls each writing tool, over JSON-RPC and MCP.
fn check_writes_forbidden(
    server: &Server,
    team: &TestTeam,
    restricted: &[&TeamMember],
    writing: &BTreeSet<String>,
) {
    let root = team.root();
    for member in restricted {
        let mut json_rpc_client = server.client(&member.token);
        let mut mcp_client = server.client(&member.token).into_mcp_client();
        let (listed, listed_writing) = listed_tools(&mut json_rpc_client);
        assert!(
            listed_writing.is_empty() && listed.is_disjoint(writing),
            "{}: {listed:?}",
            member.name
        );
        for tool in writing {
            for client in [&mut json_rpc_client, &mut mcp_client] {
                let answer = client.call(tool, tool_arguments(tool, root.to_str().unwrap()));
                assert!(is_forbidden(&answer), "{} {tool}: {answer:?}", member.name);
            }
        }
    }
}

/// Each refused attempt has an audit row with its user and token.
fn check_attempts_audited(team: &TestTeam, restricted: &[&TeamMember], writing: &BTreeSet<String>) {
    let rows = team.rows();
    for TeamMember { name, token, .. } in restricted {
        for tool in writing {
            let is_attempt = |row: &&Value| {
                row["user"] == **name && row["token"] == token_id(token) && row["action"] == **tool
            };
            let results: Vec<&Value> =
                rows.iter().filter(is_attempt).map(|row| &row["result"]).collect();
            // Earlier rows may come from a server where the member could write.
            assert!(results.ends_with(&[&json!("forbidden"); 2]), "{name} {tool}: {results:?}");
        }
    }
}

/// Members without write access change nothing. Every member can call the tools listed for them.
fn check_rights(storage: &'static str, is_read_only: bool) {
    let (team, members, [reading, writing]) = create_team(storage);
    let serve = || {
        let mut command = team.command();
        command.args(is_read_only.then_some("--read-only"));
        Server::start(command)
    };
    let restricted: Vec<&TeamMember> =
        members.iter().filter(|member| is_read_only || !member.writes).collect();
    assert_eq!(restricted.len(), if is_read_only { 6 } else { 4 });
    let before = stored_documents(&team);
    let server = serve();
    check_writes_forbidden(&server, &team, &restricted, &writing);
    server.end();
    assert_eq!(stored_documents(&team), before, "{storage}");
    check_attempts_audited(&team, &restricted, &writing);
    let server = serve();
    let all_tools: BTreeSet<String> = reading.union(&writing).cloned().collect();
    for TeamMember { name, token, writes } in &members {
        let mut client = server.client(token);
        let allowed = if *writes && !is_read_only { &all_tools } else { &reading };
        assert_eq!(listed_tools(&mut client).0, *allowed, "{name}");
        for tool in allowed {
            let answer = client.call(tool, tool_arguments(tool, team.root().to_str().unwrap()));
            assert!(!is_forbidden(&answer), "{name} {tool}: {answer:?}");
        }
    }
    server.end();
    assert_eq!(
        stored_documents(&team) == before,
        is_read_only,
        "only members with write access changed documents"
    );
}

// S5: 4.3, 4.4, 4.5, 7.9
#[test]
fn tools_each_role_and_scope_can_call_only_listed_ones() {
    for storage in STORAGES {
        check_rights(storage, false);
    }
}

// S5: 4.4, 7.9
#[test]
fn read_only_server_refuses_writes_of_members() {
    check_rights("sqlite", true);
}

// S5: 1.7, 1.9, 2.1, 2.2, 2.3, 4.3
#[test]
fn token_for_one_project_cannot_read_another() {
    for storage in STORAGES {
        let (team, members, [reading, _]) = create_team(storage);
        team.user("shopkeeper", "administrator");
        let token = team.token("shopkeeper", "--projects shop");
        let root = team.root();
        let root = root.to_str().unwrap();
        let server = team.serve();
        let mut other_client = server.client(&members[0].token);
        let mut shop_client = server.client(&token);
        for tool in &reading {
            for project in ["shop", "default", root, "unknown"] {
                let answer = shop_client.call(tool, tool_arguments(tool, project));
                let repeats_query = tool_arguments(tool, project)["query"] == MARKER_WORD;
                let body = answer.body.to_lowercase();
                let is_leaked = body.matches(MARKER_WORD).count() > usize::from(repeats_query) * 2;
                assert!(!is_leaked, "{tool} of {project} on {storage}: {answer:?}");
            }
            let body = other_client.call(tool, tool_arguments(tool, "default")).body;
            let content_tools =
                ["get_item", "epic_hierarchy", "search_global", "reqlix_get_requirements"];
            assert!(
                body.contains(MARKER_WORD) || !content_tools.contains(&&**tool),
                "{tool}: {body}"
            );
        }
        let prompt = json!({ "name": "decompose_epic", "arguments": { "epic": "EP-001" } });
        for (method, params) in
            [("resources/read", json!({ "uri": "epic://EP-001" })), ("prompts/get", prompt)]
        {
            let readable = other_client.request(method, params.clone());
            assert!(readable.body.contains(MARKER_WORD), "{method}: {readable:?}");
            let hidden = shop_client.request(method, params);
            assert!(hidden.code().is_some() && !hidden.body.contains(MARKER_WORD), "{hidden:?}");
        }
        let refusals = ["default", "unknown"].map(|project| {
            let mut client = server.client(&token).with("Reqlore-Project", project);
            let by_header = client.call("get_item", json!({ "reference": "EP-001" }));
            assert_eq!((by_header.status, by_header.code()), (404, Some(-32002)));
            let tool = "reqlix_get_requirements";
            let by_argument = shop_client.call(tool, tool_arguments(tool, project));
            [by_header, by_argument].map(|answer| {
                let mut json: Value =
                    serde_json::from_str(&answer.body.replace(project, "…")).unwrap();
                json["error"]["data"].as_object_mut().map(|data| data.remove("correlation_id"));
                json
            })
        });
        assert_eq!(
            refusals[0], refusals[1],
            "a forbidden project and an unknown one get the same error"
        );
    }
}

// S5: 4.3, 6.8, 8.8
#[test]
fn token_without_existing_projects_cannot_read() {
    let team = TestTeam::new("sqlite");
    team.user("shopkeeper", "administrator");
    let token = team.token("shopkeeper", "--projects shop");
    std::fs::write(team.root().join("reqlore.toml"), "").unwrap();
    let server = team.serve();
    let mut client = server.client(&token);
    for (method, params) in [
        ("resources/read", json!({ "uri": "epic://EP-001" })),
        ("resources/list", json!({})),
        ("prompts/get", json!({ "name": "decompose_epic", "arguments": { "epic": "EP-001" } })),
        ("tools/call", json!({ "name": "list_epics", "arguments": {} })),
    ] {
        let answer = client.request(method, params);
        assert!(is_forbidden(&answer), "{method}: {answer:?}");
    }
}
