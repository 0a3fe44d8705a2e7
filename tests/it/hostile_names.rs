//! Names from a hostile repository forge no line and control no terminal, in any output.
//!
//! Tools come from `tools/list` and commands from `--help`, so a new one needs an entry here.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::client::{DIRECTORY, Server, reqlore};
use crate::git_merges::run_git;
use crate::hostile_commands::command_calls;
use crate::init::{Place, output};

/// Characters that a file name may hold on every storage, and that a reader must not get raw.
const HIDDEN: &str = "\u{202e}\u{2066}\u{200b}\u{feff}\u{2028}FORGED\u{2029}\u{e0041}";
/// Controls of terminals, and text that would be a line of its own after a line end.
const CONTROLS: &str = "\u{1b}]52;c;eA==\u{7}\u{9b}31m\u{85}FORGED\rFORGED\n\
                        ::error::FORGED\n- FORGED\n# FORGED";
/// A title that a tool stores.
const ONE_LINE: &str = "# x\u{202e}\u{2066}\u{200b}\u{feff}\u{e0041}##[error]FORGED";
/// Commands of GitHub Actions, Azure Pipelines and TeamCity.
const COMMANDS: &str = "##[error]FORGED ##vso[task.complete]FORGED ##teamcity[FORGED]";

/// A title, tag or person's name.
pub(crate) fn hostile() -> String {
    format!("evil{HIDDEN}{CONTROLS}{COMMANDS}")
}

/// The name of a file that is a document on every storage.
pub(crate) fn file_name() -> String {
    format!("evil{HIDDEN} {COMMANDS} (epic, Done): x")
}

/// A YAML string in ASCII, so that the file itself is harmless.
fn yaml(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        // A key of a map has at most 1,024 characters.
        match u32::from(c) {
            0x20..0x7f => quoted.push(c),
            code @ 0..0x100 => quoted.extend(["\\x", &format!("{code:02x}")]),
            code => quoted.extend(["\\U", &format!("{code:08x}")]),
        }
    }
    quoted + "\""
}

fn write(root: &Path, path: &str, body: impl AsRef<[u8]>) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, body).unwrap();
}

/// Writes documents of every kind with hostile names, titles, tags, users and relations.
fn write_repository(root: &Path) {
    let (name, text) = (file_name(), yaml(&hostile()));
    let controls = CONTROLS.replace('/', "");
    let section = format!("# {}\n\n**1.** {HIDDEN} EP-001\n", hostile().replace(['\n', '\r'], " "));
    write(root, &format!("{DIRECTORY}/{name}.md"), section);
    write(root, &format!("{DIRECTORY}/{controls}.md"), "**1.** x\n");
    write(root, &format!("{DIRECTORY}/general.md"), "# General\n\n**1.** See EP-001\n");
    let backlog = |kind: &str, file: &str, keys: &str| {
        let body = format!(
            "---\ntitle: {text}\ntags: [{text}]\nassignee_username: {text}\n\
             creator_username: {text}\n{keys}---\nText EP-001 REQ-001.\n"
        );
        write(root, &format!(".reqlore/backlog/{kind}/{file}.md"), body);
    };
    backlog("epics", "EP-001", "");
    backlog("epics", &format!("EP-002-{name}"), &format!("status: {text}\npriority: {text}\n"));
    backlog("epics", &format!("EP-003-{controls}"), "");
    backlog("epics", &name, "");
    backlog("stories", "US-001", "epic: EP-001\n");
    let links = format!("user_story: US-001\ndepends_on: [REQ-002, REQ-900, {text}]\n");
    backlog("requirements", "REQ-001", &links);
    backlog("requirements", &format!("{name}/REQ-002-{name}"), "user_story: US-001\n");
    for twin in ["a", "b"] {
        let file = format!("REQ-003-{name}-{twin}");
        backlog("requirements", &file, &format!("user_story: US-001\n{text}: {text}\n"));
    }
    backlog("criteria", "AC-001", "user_story: US-001\n");
    write(root, &format!(".reqlore/backlog/stories/US-009-{name}.md"), "---\ntitle: [\n---\n");
    let entity = format!(
        "---\nid: dec-000001\ntitle: {text}\nstatus: {text}\ntype: {text}\ntags: [{text}]\n\
         created_by: {text}\n{text}: [EP-001, dec-0000ff]\naffects: [{text}, general]\n---\nBody\n"
    );
    write(root, &format!(".ixchel/decisions/{name}.md"), entity);
    write(root, &format!(".ixchel/{name}/{name}.md"), format!("# {name}\n\nSee EP-001.\n"));
    write(root, &format!(".ixchel/ideas/{controls}.md"), "# x\n");
    for twin in ["a", "b"] {
        let body = format!("---\nid: idea-000002\ntitle: {text}\n---\n");
        write(root, &format!(".ixchel/ideas/{name}-{twin}.md"), body);
    }
    write(root, &format!(".ixchel/{name}/broken.md"), format!("---\n{text}: [\n---\n"));
    // A template is an instruction of several lines.
    let hidden = yaml(HIDDEN);
    let docsets = format!(
        "docsets:\n  angular:\n    description: {text}\n    template: {hidden}\n    title: {text}\n  \
         react:\n    version: 1\n    local_path: {text}\n  vue:\n    {text}: 1\n{text}: 1\n"
    );
    write(root, ".knowledge/config.yaml", docsets);
    let servers = json!({ "mcpServers": { hostile(): { "command": hostile() } } });
    write(root, ".mcp.json", servers.to_string());
    run_git(root, &["init", "--quiet", "--initial-branch=main"]);
    run_git(root, &["add", "--all"]);
    let author = format!("{} <evil@example.org>", hostile().replace(['\n', '<', '>'], " "));
    let message = hostile().replace('\n', " ");
    run_git(root, &["commit", "--quiet", "--author", &author, "--message", &message]);
}

/// True for a character that a terminal or a reader could be misled by.
fn is_misleading(c: char) -> bool {
    (c.is_control() && c != '\n')
        || matches!(c, '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e0fff}')
}

/// Problems in all outputs, so that one run shows every place.
#[derive(Default)]
struct Findings(Vec<String>);

impl Findings {
    fn check_lines(&mut self, source: &str, text: &str) {
        if let Some(c) = text.chars().find(|c| is_misleading(*c)) {
            self.add(source, &format!("{c:?}"), text);
        }
        for line in text.lines() {
            let start = line.trim_start_matches([' ', '-', '#', '*', ':']);
            let is_forged = start.starts_with("FORGED") || line.trim_start().starts_with("::error");
            if is_forged {
                self.add(source, line, text);
            }
        }
    }

    /// Also checks that no line is a command to a CI system.
    fn check_console(&mut self, source: &str, text: &str) {
        self.check_lines(source, text);
        for command in ["##[", "##vso[", "##teamcity["] {
            if text.contains(command) {
                self.add(source, command, text);
            }
        }
    }

    fn add(&mut self, source: &str, part: &str, text: &str) {
        let at = text.find(part.trim_matches('\'')).unwrap_or_default();
        let before: String = text[..at].chars().rev().take(200).collect();
        let before: String = before.chars().rev().collect();
        let after: String = text[at..].chars().take(100).collect();
        self.0.push(format!("{source:?} contains {part:?}: {before:?} + {after:?}"));
    }

    #[track_caller]
    fn assert_none(self) {
        assert!(self.0.is_empty(), "{} findings:\n\n{}", self.0.len(), self.0.join("\n\n"));
    }
}

/// Checks all text of an answer that a model or user reads. Structured content has true values.
fn check_answer(findings: &mut Findings, source: &str, answer: &Value) {
    let mut texts = Vec::new();
    let (result, error) = (&answer["result"], &answer["error"]);
    for list in ["content", "contents", "resources", "messages"] {
        for entry in result[list].as_array().into_iter().flatten() {
            for path in [
                "/text",
                "/title",
                "/name",
                "/description",
                "/uri",
                "/_meta/description",
                "/content/text",
                "/content/resource/text",
                "/content/resource/_meta/description",
            ] {
                texts.extend(entry.pointer(path).and_then(Value::as_str));
            }
        }
    }
    texts.extend(result["description"].as_str());
    texts.extend(result["instructions"].as_str());
    texts.extend(error["message"].as_str());
    for detail in [&result["_meta"]["reqlore/error"], &error["data"]] {
        texts.extend(["message", "hint"].iter().filter_map(|key| detail[key].as_str()));
    }
    assert!(!texts.is_empty() || result["resources"].is_array(), "{source}: {answer}");
    for text in texts {
        // A conflict shows the document after its first line.
        let is_conflict = text.starts_with("Conflict: ");
        let text = if is_conflict { text.lines().next().unwrap() } else { text };
        findings.check_lines(source, text);
    }
}

/// IDs of documents in the repository.
const IDS: [&str; 7] =
    ["dec-000001", "idea-000002", "EP-001", "REQ-001", "EP-002", "REQ-003", "EP-003"];

/// Calls with these values and two hostile ones for one argument.
fn calls_by(argument: &str, values: &[&str]) -> Vec<Value> {
    let mut calls: Vec<Value> = values.iter().map(|value| json!({ argument: value })).collect();
    calls.extend([file_name(), hostile()].map(|value| json!({ argument: value })));
    calls
}

/// Calls of each tool that show names, and calls that fail and repeat their arguments.
fn tool_calls(tool: &str) -> Vec<Value> {
    let (name, text) = (file_name(), hostile());
    match tool {
        "search_global" | "search_requirements" | "ixchel_search" => {
            calls_by("query", &["evil", "EP-001", "forged"])
        }
        "list_epics" | "list_docsets" | "ixchel_tags" | "ixchel_sync" => {
            vec![json!({}), json!({ "untagged": true }), json!({ text: 1 })]
        }
        "get_item" | "get_history" => {
            let mut calls = calls_by("reference", &IDS);
            for other in [format!("{name}:1"), format!(".ixchel/{name}/{name}.md")] {
                calls.push(json!({ "reference": other }));
            }
            calls.push(json!({ "reference": "angular" }));
            calls
        }
        "ixchel_show" | "ixchel_graph" | "ixchel_context" => {
            let mut calls = calls_by("id", &IDS);
            calls.push(json!({ "id": format!("{name}:1") }));
            calls.push(json!({ "id": format!("{name}/{name}") }));
            calls
        }
        "get_context" => {
            let mut calls = calls_by("task", &["evil", "forged"]);
            for list in ["items", "files", "kinds"] {
                calls.push(json!({ "task": "evil", list: [name] }));
                calls.push(json!({ "task": "evil", list: [text] }));
            }
            calls.push(json!({ "items": IDS }));
            calls
        }
        "list_changes" => vec![json!({}), json!({ "since": text }), json!({ "kinds": [text] })],
        "list_ready" => vec![json!({}), json!({ "epic": text }), json!({ "assignee": text })],
        "claim_item" => {
            let mut calls = calls_by("id", &["US-001", "EP-001"]);
            calls.push(json!({ "id": "US-001", "claim": text }));
            calls
        }
        "epic_hierarchy" => calls_by("epic", &["EP-001", "EP-002"]),
        "get_user_story_requirements" => calls_by("user_story", &["US-001", "US-009"]),
        "search_docs" => {
            let mut calls = calls_by("docset", &["angular", "react", "vue", "reakt"]);
            for call in &mut calls {
                call["keywords"] = json!(["k"]);
                call["generalized_keywords"] = json!([]);
            }
            calls
        }
        "reqlix_get_instructions" => vec![json!({}), json!({ "project_root": text })],
        "reqlix_get_requirements" => calls_by("section", &["missing", "general"]),
        "reqlix_set_requirements" | "reqlix_delete_requirements" => {
            let mut calls = calls_by("section", &["missing", "general"]);
            for call in &mut calls {
                call["index"] = json!("1");
                call["operation_description"] = json!(text);
                if tool == "reqlix_set_requirements" {
                    call["text"] = json!("x");
                }
            }
            calls
        }
        _ => item_calls(tool),
    }
}

/// Calls of each tool that writes items and entities.
#[expect(clippy::too_many_lines, reason = "a table")]
fn item_calls(tool: &str) -> Vec<Value> {
    let (name, text) = (file_name(), hostile());
    let titled = |argument: &str, value: &str, title: &str| {
        let mut call = json!({ argument: value, "title": title, "priority": 2 });
        if tool.starts_with("create_") && argument == "user_story" {
            call["type"] = json!("Functional");
        }
        call
    };
    let calls_with_titles = |argument: &str, id: &str| {
        let mut calls = calls_by(argument, &[id]);
        calls.extend([ONE_LINE, &text].map(|title| titled(argument, id, title)));
        let mut stale = titled(argument, id, "x");
        stale["if_version"] = json!("0123456789abcdef");
        calls.push(stale);
        calls
    };
    let described = |argument: &str, id: &str| {
        let mut calls = calls_by(argument, &[id]);
        calls.push(json!({ argument: id, "description": "x" }));
        calls
    };
    match tool {
        "create_epic" => vec![
            json!({ "title": ONE_LINE, "priority": 1, "tags": [ONE_LINE] }),
            json!({ "title": text, "priority": 1 }),
        ],
        "create_user_story" | "update_epic" => calls_with_titles("epic", "EP-001"),
        "create_requirement" | "update_user_story" => calls_with_titles("user_story", "US-001"),
        "update_requirement" => calls_with_titles("requirement", "REQ-001"),
        "create_acceptance_criteria" => described("user_story", "US-001"),
        "update_acceptance_criteria" => described("acceptance_criteria", "AC-001"),
        "create_relationship" | "delete_relationship" => vec![
            json!({ "source": "REQ-001", "target": "REQ-002", "type": "blocks" }),
            json!({ "source": "REQ-001", "target": "REQ-003", "type": text }),
            json!({ "source": text, "target": name, "type": "blocks" }),
        ],
        "delete_item" => {
            let mut calls = calls_by("reference", &["EP-001", "REQ-002", "dec-000001"]);
            calls.push(json!({ "reference": "EP-001", "cascade": true }));
            calls
        }
        "apply_changes" => vec![
            json!({ "changes": [{ "create": "epic", "title": ONE_LINE, "priority": 1 }] }),
            json!({ "changes": [{ "update": "EP-001", "tags": [] }, { "delete": "US-001" }],
                    "dry_run": true }),
            json!({ "changes": [{ "update": "EP-001", "tags": [] }, { "delete": text }] }),
            json!({ "changes": [{ "create": text, "name": text }] }),
        ],
        "import_items" => vec![
            json!({ "path": text, "content": format!("# {ONE_LINE}\n\n## {text}\n") }),
            json!({ "path": "a.md", "content": format!("# {ONE_LINE}\n\n## x\n"), "dry_run": true }),
            json!({ "path": "a.csv", "content": format!("title,status\n\"{text}\",\"{text}\"\n") }),
            json!({ "path": "a", "content": "", "format": text }),
        ],
        "ixchel_create" => vec![
            json!({ "kind": "idea", "title": ONE_LINE, "tags": [ONE_LINE] }),
            json!({ "kind": text, "title": text, "links": { text.clone(): [text] } }),
            json!({ "kind": "idea", "title": "x", "links": { "affects": [name, "idea-000002"] } }),
        ],
        "ixchel_update" => vec![
            json!({ "id": "dec-000001", "status": ONE_LINE, "links": { "affects": [name] } }),
            json!({ "id": "dec-000001", "title": ONE_LINE }),
            json!({ "id": "idea-000002", "title": "x" }),
            json!({ "id": name, "title": text }),
        ],
        "list_items" => {
            let mut calls = Vec::new();
            for kind in ["epic", "user_story", "requirement", "acceptance_criteria", "entity"] {
                calls.push(json!({ "kind": kind }));
                calls.push(json!({ "kind": kind, "text": text }));
            }
            for argument in ["kind", "status", "assignee", "sort", "updated_since", "cursor"] {
                let mut call = json!({ "kind": "epic" });
                call[argument] = json!(text);
                calls.push(call);
            }
            calls
        }
        _ => panic!("{tool}: add calls with hostile arguments for this tool"),
    }
}

/// Calls every tool, and reads every resource and prompt.
fn check_server(findings: &mut Findings, server: &mut Server) {
    let listed = server.request("tools/list", json!({}));
    let mut tools: Vec<(bool, String)> = Vec::new();
    for tool in listed["result"]["tools"].as_array().unwrap() {
        let is_writing = tool["annotations"]["readOnlyHint"] != true;
        tools.push((is_writing, tool["name"].as_str().unwrap().to_owned()));
    }
    // Reading tools first, then those that write, and deletions last.
    tools.sort_by_key(|(is_writing, name)| (*is_writing, name.contains("delete"), name.clone()));
    assert!(tools.len() > 25);
    let initialize = json!({
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" },
    });
    check_answer(findings, "initialize", &server.request("initialize", initialize));
    check_resources(findings, server);
    let mut succeeded = Vec::new();
    let mut last_errors = BTreeMap::new();
    for (_, tool) in &tools {
        for arguments in tool_calls(tool) {
            let mut answer = server.call(tool, arguments.clone());
            // A notification of changed resources may come first.
            while answer.get("id").is_none() {
                answer = server.answer();
            }
            if answer["result"]["isError"] != true && answer.get("error").is_none() {
                succeeded.push(tool.clone());
            } else {
                last_errors
                    .insert(tool.clone(), answer["result"]["content"][0]["text"].to_string());
            }
            // The text of a section or entity is a body.
            let is_body = ["reqlix_get_requirements", "get_item", "ixchel_show", "ixchel_context"]
                .contains(&tool.as_str())
                && arguments.to_string().contains("Done): x");
            if !is_body {
                check_answer(findings, &format!("{tool} {arguments}"), &answer);
            }
        }
    }
    succeeded.dedup();
    last_errors.retain(|tool, _| !succeeded.contains(tool));
    assert!(last_errors.is_empty(), "no call of these tools succeeded: {last_errors:#?}");
}

fn check_resources(findings: &mut Findings, server: &mut Server) {
    let mut cursor = Value::Null;
    let mut uris = Vec::new();
    loop {
        let params = if cursor.is_null() { json!({}) } else { json!({ "cursor": cursor }) };
        let page = server.request("resources/list", params);
        check_answer(findings, "resources/list", &page);
        for resource in page["result"]["resources"].as_array().unwrap() {
            uris.push(resource["uri"].as_str().unwrap().to_owned());
        }
        cursor = page["result"]["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert!(uris.len() > 8, "{uris:?}");
    for view in ["epic://EP-001/hierarchy", "requirement://REQ-001/relationships"] {
        uris.push(view.to_owned());
    }
    uris.push(hostile());
    for uri in &uris {
        let answer = server.request("resources/read", json!({ "uri": uri }));
        check_answer(findings, uri, &answer);
    }
    let prompts = server.request("prompts/list", json!({}));
    for prompt in prompts["result"]["prompts"].as_array().unwrap() {
        let argument = prompt["arguments"][0]["name"].as_str().unwrap();
        for value in ["EP-001", "US-001", "REQ-001", &hostile()] {
            let params = json!({ "name": prompt["name"], "arguments": { argument: value } });
            check_answer(
                findings,
                &prompt["name"].to_string(),
                &server.request("prompts/get", params),
            );
        }
    }
}

fn local_place(findings: &mut Findings, storage: &str) -> Place {
    let place = Place::new();
    write_repository(&place.at("project"));
    if storage != "fs" {
        let mut copy = || {
            let (code, text, errors) =
                output(command(&place, "fs").args(["copy", "--from", "fs", "--to", storage]));
            findings.check_console("copy", &(text + &errors));
            code
        };
        assert_eq!(copy(), 1, "no storage takes names with control characters");
        let controls = CONTROLS.replace('/', "");
        for file in [
            format!("{DIRECTORY}/{controls}.md"),
            format!(".reqlore/backlog/epics/EP-003-{controls}.md"),
            format!(".ixchel/ideas/{controls}.md"),
        ] {
            fs::remove_file(place.at("project").join(file)).unwrap();
        }
        assert_eq!(copy(), 0);
    }
    place
}

fn command(place: &Place, storage: &str) -> Command {
    let mut command = reqlore();
    command.envs(variables(place)).current_dir(place.at("project"));
    command.args(["--storage", storage]);
    command
}

fn variables(place: &Place) -> [(&'static str, String); 4] {
    let home = place.at("home").to_str().unwrap().to_owned();
    let path = "/usr/local/bin:/usr/bin:/bin".to_owned();
    let user = hostile().replace(['\n', '\r'], " ");
    [("HOME", home), ("PATH", path), ("REQLORE_CACHE", "off".to_owned()), ("GIT_AUTHOR_NAME", user)]
}

#[test]
fn hostile_names_in_tool_answers_forge_no_line() {
    for storage in ["fs", "sqlite", "sled"] {
        let mut findings = Findings::default();
        let place = local_place(&mut findings, storage);
        let log = place.at("log");
        let mut logged = Command::new("sh");
        logged.args(["-c", "exec \"$@\" 2>\"$0\"", log.to_str().unwrap()]);
        let server = command(&place, storage);
        logged.arg(server.get_program()).args(server.get_args());
        logged.current_dir(place.at("project")).envs(variables(&place));
        let mut server = Server::start_as(logged, &place.at("project"));
        check_server(&mut findings, &mut server);
        if storage == "fs" {
            let names = format!("docsets:\n  {0}:\n    version: {0}\n", yaml(&hostile()));
            write(&place.at("project"), ".knowledge/config.yaml", names);
            for arguments in [json!({}), json!({ "docset": "x" })] {
                let answer = server.call("list_docsets", arguments);
                check_answer(&mut findings, "list_docsets", &answer);
            }
        }
        let (_, status) = server.end();
        assert!(status.success());
        findings.check_console("log", &fs::read_to_string(log).unwrap());
        findings.assert_none();
    }
}

/// The names of all commands, from `--help`.
fn command_names() -> Vec<String> {
    let (_, help, _) = output(reqlore().arg("--help"));
    let list = help.split_once("Commands:\n").unwrap().1.split("\n\n").next().unwrap();
    list.lines().map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
}

#[test]
fn hostile_names_in_output_of_commands_are_encoded() {
    for storage in ["fs", "sqlite", "sled"] {
        let mut findings = Findings::default();
        let place = local_place(&mut findings, storage);
        write_audited_reason(&place, storage);
        for name in command_names() {
            for arguments in command_calls(&name) {
                let mut command = command(&place, storage);
                let (_, text, errors) = output(command.args(&arguments));
                let source = format!("{storage}: {arguments:?}");
                findings.check_console(&source, &errors);
                if arguments[0] != "completions" {
                    // RFC 4180 ends lines with CR LF.
                    let is_csv = arguments.iter().any(|argument| argument == "--csv");
                    let text = if is_csv { text.replace("\r\n", "\n") } else { text.clone() };
                    findings.check_console(&source, &text);
                }
                if arguments.iter().any(|argument| argument == "--json") && errors.is_empty() {
                    serde_json::from_str::<Value>(&text).unwrap();
                }
            }
        }
        write(
            &place.at("project"),
            "reqlore.toml",
            format!("x = \"{HIDDEN}\u{9b}\"\n{HIDDEN} = 1"),
        );
        let (code, text, errors) = output(command(&place, storage).arg("check"));
        findings.check_console("reqlore.toml", &(text + &errors));
        assert_eq!(code, 2, "{errors}");
        findings.assert_none();
    }
}

/// Writes an audit row with a hostile reason and the hostile name of the local user.
fn write_audited_reason(place: &Place, storage: &str) {
    let mut server = command(place, storage);
    server.args(["--log", "off"]).env("REQLORE_AUDIT", "on");
    let mut server = Server::start_as(server, &place.at("project"));
    let arguments = json!({
        "section": "general", "index": "7", "text": "x", "operation_description": hostile()
    });
    server.data("reqlix_set_requirements", arguments);
}
