//! Rights of each role, scope and project for every tool, also on a read-only server.
//!
//! The tools are those that an administrator sees, so a new tool fails until [`arguments`] knows
//! it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::http::{Answer, Client, Place, STORAGES, Server, id};

/// A word of every document of the default project.
const WORD: &str = "zebra";
/// For every caller; with write access it imports files into a database.
const SYNC: &str = "ixchel_sync";

struct Member {
    name: String,
    token: String,
    writes: bool,
}

fn members(place: &Place) -> Vec<Member> {
    let mut members = Vec::new();
    for role in ["administrator", "user", "commenter"] {
        for scope in ["write", "read"] {
            let name = format!("{role}-{scope}");
            place.user(&name, role);
            let token = place.token(&name, &format!("--scope {scope}"));
            members.push(Member { name, token, writes: role != "commenter" && scope == "write" });
        }
    }
    members
}

/// One of everything in the default project.
fn furnish(client: &mut Client, root: &str) {
    let epic = json!({ "title": WORD, "description": WORD, "priority": 1 });
    client.data("create_epic", epic);
    let story = json!({ "epic": "EP-001", "title": WORD, "description": WORD, "priority": 1 });
    client.data("create_user_story", story);
    for _ in 0..2 {
        client.data("create_requirement", arguments("create_requirement", root));
    }
    client.data("create_acceptance_criteria", arguments("create_acceptance_criteria", root));
    client.data("create_relationship", arguments("create_relationship", root));
    client.data("reqlix_set_requirements", arguments("reqlix_set_requirements", root));
}

/// Arguments for each tool on the items of [`furnish`], in the project of this name.
fn arguments(tool: &str, project: &str) -> Value {
    let sections = |further: Value| {
        let mut all = json!({ "project_root": project, "operation_description": "testing" });
        all.as_object_mut().unwrap().extend(further.as_object().unwrap().clone());
        all
    };
    let pair = json!({ "source": "REQ-001", "target": "REQ-002", "type": "depends_on" });
    match tool {
        "create_epic" => json!({ "title": "new", "priority": 1 }),
        "create_user_story" => json!({ "epic": "EP-001", "title": "new", "priority": 1 }),
        "create_requirement" => json!({
            "user_story": "US-001", "title": WORD, "description": WORD, "priority": 1,
            "type": "Functional"
        }),
        "create_acceptance_criteria" => json!({ "user_story": "US-001", "description": WORD }),
        "create_relationship" | "delete_relationship" => pair,
        "update_epic" => json!({ "epic": "EP-001", "title": "changed" }),
        "update_user_story" => json!({ "user_story": "US-001", "title": "changed" }),
        "update_requirement" => json!({ "requirement": "REQ-001", "title": "changed" }),
        "update_acceptance_criteria" => {
            json!({ "acceptance_criteria": "AC-001", "description": "changed" })
        }
        "delete_item" => json!({ "reference": "AC-001" }),
        "get_item" => json!({ "reference": "EP-001" }),
        "epic_hierarchy" => json!({ "epic": "EP-001" }),
        "get_user_story_requirements" => json!({ "user_story": "US-001" }),
        "search_global" | "search_requirements" => json!({ "query": WORD }),
        "ixchel_search" => json!({ "query": WORD, "repo": project }),
        "ixchel_show" | "ixchel_graph" | "ixchel_context" => {
            json!({ "id": "EP-001", "repo": project })
        }
        "ixchel_sync" | "ixchel_tags" => json!({ "repo": project }),
        "list_docsets" | "list_epics" => json!({}),
        "search_docs" => json!({ "docset": "d", "keywords": ["k"], "generalized_keywords": [] }),
        "reqlix_get_instructions" => sections(json!({})),
        "reqlix_get_requirements" => sections(json!({ "section": "general" })),
        "reqlix_set_requirements" => {
            sections(json!({ "section": "general", "index": "1", "text": WORD }))
        }
        "reqlix_delete_requirements" => sections(json!({ "section": "general", "index": "1" })),
        _ => panic!("{tool}: with what is it called?"),
    }
}

/// The names of the tools that a client is listed, and those of them that change something.
fn listed(client: &mut Client) -> (BTreeSet<String>, BTreeSet<String>) {
    let answer = client.request("tools/list", json!({})).json();
    let tools = answer["result"]["tools"].as_array().unwrap().clone();
    let name = |tool: &Value| tool["name"].as_str().unwrap().to_owned();
    let writes =
        |tool: &&Value| tool["annotations"]["readOnlyHint"] == false && tool["name"] != SYNC;
    let writes = tools.iter().filter(writes);
    (tools.iter().map(name).collect(), writes.map(name).collect())
}

/// All stored documents, as lines. No server may run meanwhile.
fn documents(place: &Place) -> Vec<String> {
    let file = place.folder().join("before.dump");
    let _ = std::fs::remove_file(&file);
    place.run(&format!("backup {}", file.display()));
    let dump = std::fs::read_to_string(file).unwrap();
    let is_kept = |line: &&str| line.starts_with("{\"project\"") || line.starts_with("{\"mark\"");
    dump.lines().filter(is_kept).map(str::to_owned).collect()
}

/// A place with a furnished project, its team, and the tools that read and that write.
fn furnished(storage: &'static str) -> (Place, Vec<Member>, [BTreeSet<String>; 2]) {
    let place = Place::new(storage);
    let members = members(&place);
    let server = place.serve();
    let mut administrator = server.client(&members[0].token);
    furnish(&mut administrator, place.root().to_str().unwrap());
    let (all, writing) = listed(&mut administrator);
    server.end();
    let entities = place.root().join(".ixchel");
    std::fs::create_dir(&entities).unwrap();
    std::fs::write(entities.join("dec-000001.md"), "---\ntitle: later\n---\n").unwrap();
    assert!(writing.len() > 10 && all.len() > writing.len() + 10);
    let reading = all.difference(&writing).cloned().collect();
    (place, members, [reading, writing])
}

fn is_forbidden(answer: &Answer) -> bool {
    let is = answer.status == 403;
    assert_eq!(is, answer.code() == Some(-32011), "{answer:?}");
    is
}

/// Each member tries each forbidden tool, in both dialects.
fn trespass(server: &Server, place: &Place, trespassers: &[&Member], writing: &BTreeSet<String>) {
    let root = place.root();
    for member in trespassers {
        let mut plain = server.client(&member.token);
        let mut of_mcp = server.client(&member.token).of_mcp();
        let (seen, changing) = listed(&mut plain);
        plain.call(SYNC, json!({}));
        assert!(changing.is_empty() && seen.is_disjoint(writing), "{}: {seen:?}", member.name);
        for tool in writing {
            for client in [&mut plain, &mut of_mcp] {
                let answer = client.call(tool, arguments(tool, root.to_str().unwrap()));
                assert!(is_forbidden(&answer), "{} {tool}: {answer:?}", member.name);
            }
        }
    }
}

/// Each attempt is an audit row of its member.
fn assert_on_record(place: &Place, trespassers: &[&Member], writing: &BTreeSet<String>) {
    let rows = place.rows();
    for Member { name, token, .. } in trespassers {
        for tool in writing {
            let is_it = |row: &&Value| {
                row["user"] == **name && row["token"] == id(token) && row["action"] == **tool
            };
            let results: Vec<&Value> =
                rows.iter().filter(is_it).map(|row| &row["result"]).collect();
            // Earlier rows may be of a server where they may write.
            assert!(results.ends_with(&[&json!("forbidden"); 2]), "{name} {tool}: {results:?}");
        }
    }
}

/// Members who may not write change nothing, and all others use what they see.
fn check_rights(storage: &'static str, is_read_only: bool) {
    let (place, members, [reading, writing]) = furnished(storage);
    let serve = || {
        let mut command = place.command();
        command.args(is_read_only.then_some("--read-only"));
        Server::start(command)
    };
    let trespassers: Vec<&Member> =
        members.iter().filter(|member| is_read_only || !member.writes).collect();
    assert_eq!(trespassers.len(), if is_read_only { 6 } else { 4 });
    let before = documents(&place);
    let server = serve();
    trespass(&server, &place, &trespassers, &writing);
    server.end();
    assert_eq!(documents(&place), before, "{storage}");
    assert_on_record(&place, &trespassers, &writing);
    let server = serve();
    let all: BTreeSet<String> = reading.union(&writing).cloned().collect();
    for Member { name, token, writes } in &members {
        let mut client = server.client(token);
        let may = if *writes && !is_read_only { &all } else { &reading };
        assert_eq!(listed(&mut client).0, *may, "{name}");
        for tool in may {
            let answer = client.call(tool, arguments(tool, place.root().to_str().unwrap()));
            assert!(!is_forbidden(&answer), "{name} {tool}: {answer:?}");
        }
    }
    server.end();
    assert_eq!(documents(&place) == before, is_read_only, "members who may write did");
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
        let (place, members, [reading, _]) = furnished(storage);
        place.user("shopkeeper", "administrator");
        let token = place.token("shopkeeper", "--projects shop");
        let root = place.root();
        let root = root.to_str().unwrap();
        let server = place.serve();
        let mut theirs = server.client(&members[0].token);
        let mut ours = server.client(&token);
        for tool in &reading {
            for project in ["shop", "default", root, "unknown"] {
                let answer = ours.call(tool, arguments(tool, project));
                let named = arguments(tool, project)["query"] == WORD;
                let body = answer.body.to_lowercase();
                let found = body.matches(WORD).count() > usize::from(named) * 2;
                assert!(!found, "{tool} of {project} on {storage}: {answer:?}");
            }
            let seen = theirs.call(tool, arguments(tool, "default")).body;
            let tells = ["get_item", "epic_hierarchy", "search_global", "reqlix_get_requirements"];
            assert!(seen.contains(WORD) || !tells.contains(&&**tool), "{tool}: {seen}");
        }
        let prompt = json!({ "name": "decompose_epic", "arguments": { "epic": "EP-001" } });
        for (method, params) in
            [("resources/read", json!({ "uri": "epic://EP-001" })), ("prompts/get", prompt)]
        {
            let seen = theirs.request(method, params.clone());
            assert!(seen.body.contains(WORD), "{method}: {seen:?}");
            let hidden = ours.request(method, params);
            assert!(hidden.code().is_some() && !hidden.body.contains(WORD), "{hidden:?}");
        }
        let refusals = ["default", "unknown"].map(|project| {
            let mut client = server.client(&token).with("Reqlore-Project", project);
            let named = client.call("get_item", json!({ "reference": "EP-001" }));
            assert_eq!((named.status, named.code()), (404, Some(-32002)));
            let sections = "reqlix_get_requirements";
            let section = ours.call(sections, arguments(sections, project));
            [named, section].map(|answer| {
                let mut json: Value =
                    serde_json::from_str(&answer.body.replace(project, "…")).unwrap();
                json["error"]["data"].as_object_mut().map(|data| data.remove("correlation_id"));
                json
            })
        });
        assert_eq!(refusals[0], refusals[1], "another's project and an unknown one look alike");
    }
}

// S5: 4.3, 6.8, 8.8
#[test]
fn token_without_existing_projects_cannot_read() {
    let place = Place::new("sqlite");
    place.user("shopkeeper", "administrator");
    let token = place.token("shopkeeper", "--projects shop");
    std::fs::write(place.root().join("reqlore.toml"), "").unwrap();
    let server = place.serve();
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
