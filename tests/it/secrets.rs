//! Logs, metrics, answers, audit rows and files contain no eight consecutive letters of any secret.

use std::collections::HashSet;
use std::path::Path;

use serde_json::{Value, json};

use crate::http::{Answer, Client, POST, STORAGES, Server, TestTeam, token_id};

/// Number of consecutive letters of a secret that is a leak.
const LEAK_LETTERS: usize = 8;

/// All parts of [`LEAK_LETTERS`] letters of the secrets.
struct SecretParts(HashSet<Vec<u8>>);

impl SecretParts {
    fn of(tokens: &[&str]) -> Self {
        let secrets = tokens.iter().map(|token| token.split('_').nth(3).unwrap().as_bytes());
        Self(secrets.flat_map(|secret| secret.windows(LEAK_LETTERS).map(<[u8]>::to_vec)).collect())
    }

    fn assert_absent(&self, source: &str, bytes: &[u8]) {
        let position = bytes.windows(LEAK_LETTERS).position(|part| self.0.contains(part));
        if let Some(start) = position {
            let excerpt = &bytes[start.saturating_sub(80)..(start + 40).min(bytes.len())];
            panic!("{source} contains part of a secret: {}", String::from_utf8_lossy(excerpt));
        }
    }

    fn assert_absent_below(&self, folder: &Path, searched: &mut usize) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                self.assert_absent_below(&path, searched);
            } else {
                self.assert_absent(&path.display().to_string(), &std::fs::read(&path).unwrap());
                *searched += 1;
            }
        }
    }
}

fn call_message(tool: &str, arguments: &Value) -> String {
    let params = json!({ "name": tool, "arguments": arguments });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string()
}

/// Sends a valid token and invalid ones in every part of a request. Returns all answers.
fn misuse_tokens(server: &Server, token: &str, others: &[&str]) -> Vec<Answer> {
    let mut answers = Vec::new();
    let list = call_message("list_epics", &json!({}));
    let mut valid_client = server.client(token);
    let mut ask = |client: &mut Client, line: &str, body: &str| {
        answers.push(client.ask(line, body));
        answers.last().unwrap().status
    };
    assert_eq!(ask(&mut valid_client, POST, &list), 200);
    for other in others {
        assert_eq!(ask(&mut server.client(other), POST, &list), 401);
    }
    let truncated = &token[..token.len() - 1];
    let repeated = format!("{token}, Bearer {token}");
    for wrong_token in [truncated, &repeated, &token.to_lowercase(), &format!("{token}{token}")] {
        assert_eq!(ask(&mut server.client(wrong_token), POST, &list), 401);
    }
    // A valid token in a wrong header or scheme.
    let client_with = |name: &str, value: &str| {
        let mut client = server.client(token);
        client.headers = vec![(name.to_owned(), value.to_owned())];
        client
    };
    for (name, value) in [
        ("Authorization", format!("Basic {token}")),
        ("Authorization", token.to_owned()),
        ("Cookie", format!("token={token}")),
        ("X-Api-Key", token.to_owned()),
        ("Proxy-Authorization", format!("Bearer {token}")),
    ] {
        assert_eq!(ask(&mut client_with(name, &value), POST, &list), 401, "{name}");
    }
    for (name, value, status) in [
        ("Reqlore-Project", token, 404),
        ("MCP-Protocol-Version", token, 400),
        ("Origin", token, 403),
        ("User-Agent", token, 200),
        ("X-Request-Id", token, 200),
        ("Mcp-Session-Id", token, 200),
        ("Idempotency-Key", token, 200),
    ] {
        assert_eq!(ask(&mut server.client(token).with(name, value), POST, &list), status, "{name}");
    }
    for line in [
        format!("{POST}?token={token}"),
        format!("POST /{token}"),
        format!("GET /api/v1/mcp/{token}"),
    ] {
        assert!([400, 404].contains(&ask(&mut valid_client, &line, &list)), "{line}");
        ask(&mut server.client(others[0]), &line, &list);
    }
    ask(&mut valid_client, POST, "{");
    ask(&mut valid_client, POST, &format!("\"{token}\""));
    ask(&mut valid_client, POST, &format!("{{\"{token}\":1,\"{token}\":2}}"));
    for (method, params) in [
        (token, json!({})),
        ("prompts/get", json!({ "name": token })),
        ("resources/read", json!({ "uri": format!("epic://{token}") })),
        ("tools/list", json!({ "cursor": token })),
        ("tools/call", json!({ "name": token, "arguments": {} })),
        ("tools/call", json!({ "name": "list_epics", "_meta": { "token": token } })),
    ] {
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        ask(&mut valid_client, POST, &message.to_string());
    }
    answers
}

/// Sends a token in arguments that are not stored. Returns the errors and the last answer.
fn send_in_arguments(server: &Server, token: &str, root: &Path) -> Vec<Answer> {
    let mut client = server.client(token);
    let mut answers = Vec::new();
    let sections = |mut arguments: Value| {
        arguments["project_root"] = json!(root);
        arguments["operation_description"] = json!(format!("with {token}"));
        arguments
    };
    for (tool, arguments) in [
        ("get_item", json!({ "reference": token })),
        ("get_item", json!({ token: token })),
        ("ixchel_show", json!({ "id": token })),
        ("ixchel_search", json!({ "query": token })),
        ("search_global", json!({ "query": token })),
        ("reqlix_get_requirements", sections(json!({ "section": token }))),
        (
            "reqlix_set_requirements",
            sections(json!({ "section": "general", "index": "1", "text": "no secret" })),
        ),
        ("reqlix_get_instructions", json!({ "project_root": token, "operation_description": "x" })),
    ] {
        let answer = client.call(tool, arguments);
        // A result may repeat the requested name; an error must not.
        answers.extend(answer.code().map(|_| answer));
    }
    let epic = json!({ "name": "create_epic", "arguments": { "title": "e", "priority": 1 },
                       "_meta": { "reqlore/idempotency-key": token } });
    answers.push(client.request("tools/call", epic));
    assert!(answers.len() > 4 && answers[answers.len() - 1].status == 200, "{answers:?}");
    answers
}

// S5: 4.8, 5.3; catalogue 86, 97
#[test]
fn secrets_are_never_logged_measured_returned_or_stored() {
    for storage in STORAGES {
        for format in ["text", "json"] {
            let team = TestTeam::new(storage);
            let token = team.administrator();
            let revoked = team.token("ada", "");
            team.run(&format!("token revoke {}", token_id(&revoked)));
            let rotated = team.token("ada", "--projects shop");
            let successor = team.run(&format!("token rotate {}", token_id(&rotated)));
            let foreign = TestTeam::new("sqlite").administrator();
            let tokens = [&*token, &revoked, &rotated, successor.trim_end(), &foreign];
            let secrets = SecretParts::of(&tokens);
            let mut command = team.command();
            command.args(["--log", "trace,rmcp=trace"]).env("REQLORE_LOG_FORMAT", format);
            let server = Server::start(command);
            let mut answers = misuse_tokens(&server, &token, &[&revoked, &rotated, &foreign]);
            answers.extend(send_in_arguments(&server, &token, &team.root()));
            let metrics = server.client(&token).get("/metrics");
            assert_eq!(metrics.status, 200);
            secrets.assert_absent("/metrics", metrics.body.as_bytes());
            for answer in &answers {
                let text = format!("{}{}", answer.head, answer.body);
                secrets.assert_absent(&format!("an answer on {storage}"), text.as_bytes());
            }
            let command_line = std::fs::read(format!("/proc/{}/cmdline", server.id())).unwrap();
            secrets.assert_absent("cmdline", &command_line);
            let log = server.end();
            assert!(log.len() > 10_000, "the trace log is too short: {log}");
            secrets.assert_absent(&format!("the log as {format}"), log.as_bytes());
            let rows = team.json("audit list --last 10000 --json").to_string();
            assert!(rows.contains("create_epic") && rows.contains("revoked"), "{rows}");
            secrets.assert_absent("the audit", rows.as_bytes());
            for list in ["token list --json", "user list --json", "token list", "audit list"] {
                secrets.assert_absent(list, team.run(list).as_bytes());
            }
            let mut searched = 0;
            secrets.assert_absent_below(team.folder(), &mut searched);
            assert!(searched > 2, "{searched}");
        }
    }
}
