//! Claims of stories by many clients, over stdio and HTTP, and in linked work trees.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::backlog::{create_epic, create_story};
use crate::client::{Server, project, reqlore, text};
use crate::crash::env_number;
use crate::git_merges::run_git;
use crate::http::{self, TestTeam};
use crate::init::output;

/// Clients of each transport; those over HTTP have one token. `REQLORE_CLAIM_CLIENTS` sets another
/// number.
const CLIENTS: u64 = 8;
/// `REQLORE_CLAIM_STORIES` sets another number.
const STORIES: u64 = 40;
/// Time limit for a call over HTTP with its repeats.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Number of calls over HTTP, which makes their keys different.
static CALLS: AtomicUsize = AtomicUsize::new(0);

/// A connection to a server.
enum Client {
    Http(http::Client),
    Stdio(Server),
}

impl Client {
    /// The data of an answer; `None` for a story that another client has claimed.
    fn call(&mut self, tool: &str, arguments: Value) -> Option<Value> {
        let answer = match self {
            Self::Http(client) => call_until_answered(client, tool, &arguments),
            Self::Stdio(server) => server.call(tool, arguments),
        };
        match answer["result"].get("structuredContent") {
            Some(data) if answer["result"]["isError"] != true => Some(data.clone()),
            _ => {
                assert!(answer.to_string().contains(" is claimed by "), "{tool}: {answer}");
                None
            }
        }
    }
}

/// Repeats a call with its idempotency key while the server is down.
fn call_until_answered(client: &mut http::Client, tool: &str, arguments: &Value) -> Value {
    let key = format!("call {}", CALLS.fetch_add(1, Ordering::Relaxed));
    let params = json!({
        "name": tool, "arguments": arguments, "_meta": { "reqlore/idempotency-key": key },
    });
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let deadline = Instant::now() + CALL_TIMEOUT;
    loop {
        let sent = client.send(http::POST, &message.to_string());
        // After an error it drops the connection.
        let received = client.receive();
        match sent.and(received) {
            Ok(answer) => return answer.json(),
            Err(error) => assert!(Instant::now() < deadline, "{tool}: {error}"),
        }
        thread::yield_now();
    }
}

/// Claims ready stories until there are none. Sends their references with the claims.
fn claim_all(
    mut client: Client,
    is_killed: bool,
    start: &dyn Fn() -> Client,
    claimed: &Sender<(String, String)>,
) {
    let mut count = 0;
    loop {
        let page = client.call("list_ready", json!({ "limit": 3 })).unwrap();
        let Some(story) = page["items"].as_array().unwrap().first() else { return };
        let id = story["reference_id"].as_str().unwrap();
        // Another client may have been faster.
        if let Some(answer) = client.call("claim_item", json!({ "id": id })) {
            claimed.send((id.to_owned(), answer["claim"].as_str().unwrap().to_owned())).unwrap();
            count += 1;
        }
        if is_killed && count % 3 == 1 {
            // A claim outlives its server.
            if let Client::Stdio(server) = &mut client {
                server.child.kill().unwrap();
                server.child.wait().unwrap();
            }
            client = start();
        }
    }
}

fn restart_at(team: &TestTeam, address: SocketAddr) -> http::Server {
    let mut command = team.command();
    command.args(["--listen", &address.to_string()]);
    http::Server::start_at(command)
}

fn check_clients(storage: &'static str) {
    let team = TestTeam::new(storage);
    let token = team.administrator();
    let mut server = team.serve();
    let stories = env_number("REQLORE_CLAIM_STORIES").unwrap_or(STORIES);
    let mut client = server.client(&token);
    client.data("create_epic", json!({ "title": "Epic", "priority": 1 }));
    let story = |number| {
        let title = format!("Story {number}");
        json!({ "create": "user_story", "epic": "EP-001", "title": title, "priority": 2 })
    };
    let changes: Vec<Value> = (1..=stories).map(story).collect();
    for batch in changes.chunks(100) {
        client.data("apply_changes", json!({ "changes": batch }));
    }
    let address = server.address;
    let over_http = || Client::Http(http::Client::new(address, &token));
    let over_stdio = || {
        let mut command = team.command();
        command.env("GIT_AUTHOR_NAME", "ada");
        Client::Stdio(Server::start_as(command, &team.root()))
    };
    let mut claimed: Vec<(String, String)> = Vec::new();
    server = thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        for number in 0..env_number("REQLORE_CLAIM_CLIENTS").unwrap_or(CLIENTS) {
            let own = sender.clone();
            scope.spawn(move || claim_all(over_http(), false, &over_http, &own));
            // Sled has one process.
            if storage != "sled" {
                let own = sender.clone();
                scope.spawn(move || claim_all(over_stdio(), number == 0, &over_stdio, &own));
            }
        }
        drop(sender);
        for claim in receiver {
            claimed.push(claim);
            if claimed.len() % (changes.len() / 3) == 1 {
                server.kill();
                server = restart_at(&team, address);
            }
        }
        server
    });
    let owners: BTreeMap<String, String> = claimed.iter().cloned().collect();
    assert_eq!(owners.len(), claimed.len(), "a story was claimed twice");
    assert_eq!(owners.len(), changes.len());
    // Each claim is the live one.
    let mut client = over_http();
    for (id, claim) in &owners {
        assert_eq!(client.call("claim_item", json!({ "id": id })), None);
        let renew = json!({ "id": id, "claim": claim, "for_minutes": 5 });
        client.call("claim_item", renew).unwrap();
    }
    let id = owners.keys().next().unwrap();
    drop(server.end());
    assert_eq!(team.run(&format!("unclaim {id}")), format!("Released {id}\n"));
    let ready = team.json("list --ready --json");
    assert_eq!(ready["items"].as_array().unwrap().len(), 1, "{ready}");
    let rows = team.rows();
    assert!(rows.iter().any(|row| row["action"] == "claim_item" && row["result"] == "ok"));
    assert_eq!(team.json("audit verify --json")["whole"], true);
}

macro_rules! storages {
    ($($name:ident: $storage:literal;)+) => {$(
        #[test]
        fn $name() {
            check_clients($storage);
        }
    )+};
}

storages! {
    clients_claim_each_story_once_on_files: "fs";
    clients_claim_each_story_once_on_sqlite: "sqlite";
    clients_claim_each_story_once_on_sled: "sled";
    clients_claim_each_story_once_on_postgres: "postgres";
}

const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

fn server(root: &Path) -> Server {
    Server::start_in(root, &[("PATH", Path::new(PATH))])
}

#[test]
fn linked_work_trees_share_claims_and_git_sees_none() {
    let folder = project();
    let folder = folder.path().canonicalize().unwrap();
    let [main, linked, bare] = ["main", "linked", "of-bare"].map(|name| folder.join(name));
    std::fs::create_dir(&main).unwrap();
    run_git(&main, &["init", "--quiet"]);
    let mut first = server(&main);
    let epic = create_epic(&mut first, "Epic");
    for title in ["One", "Two"] {
        create_story(&mut first, &epic, title);
    }
    run_git(&main, &["add", "--all"]);
    run_git(&main, &["commit", "--quiet", "--message", "first"]);
    run_git(&main, &["worktree", "add", "--quiet", linked.to_str().unwrap()]);
    let mut second = server(&linked);
    let claimed = second.data("claim_item", json!({ "id": "US-001" }));
    assert_eq!(claimed["reach"], "this clone");
    let refused = first.call("claim_item", json!({ "id": "US-001" }));
    assert!(text(&refused).contains("US-001 is claimed by "), "{refused}");
    for server in [&mut first, &mut second] {
        let ready = server.data("list_ready", json!({}));
        assert_eq!(ready["items"][0]["reference_id"], "US-002");
        let shown = server.data("get_item", json!({ "reference": "US-001" }));
        assert_eq!(shown["item"]["claim"]["until"], claimed["until"], "{shown}");
    }
    for root in [&main, &linked] {
        assert_eq!(run_git(root, &["status", "--porcelain"]), "");
    }
    let mut unclaim = reqlore();
    unclaim.env("PATH", PATH).current_dir(&main).args(["unclaim", "US-001"]);
    assert_eq!(output(&mut unclaim), (0, "Released US-001\n".to_owned(), String::new()));
    assert_eq!(second.data("list_ready", json!({}))["total"], 2);
    // A bare repository has no main work tree.
    let clone = folder.join("bare.git");
    run_git(&folder, &["clone", "--quiet", "--bare", "main", "bare.git"]);
    run_git(&clone, &["worktree", "add", "--quiet", bare.to_str().unwrap()]);
    let claimed = server(&bare).data("claim_item", json!({ "id": "US-001" }));
    assert_eq!(claimed["reach"], "this work tree only");
}

#[test]
fn copied_project_has_no_claims_and_no_warnings() {
    let folder = project();
    let [original, copy] = ["original", "copy"].map(|name| folder.path().join(name));
    std::fs::create_dir(&original).unwrap();
    let mut first = server(&original);
    let epic = create_epic(&mut first, "Epic");
    create_story(&mut first, &epic, "One");
    let claimed = first.data("claim_item", json!({ "id": "US-001" }));
    assert_eq!(claimed["reach"], "this folder");
    let copied = Command::new("cp").arg("-r").args([&original, &copy]).status().unwrap();
    assert!(copied.success());
    for command in ["list --ready", "show US-001", "check"] {
        let mut command = {
            let mut program = reqlore();
            program.env("PATH", PATH).current_dir(&copy).args(command.split(' '));
            program
        };
        let (code, shown, errors) = output(&mut command);
        assert_eq!((code, &*errors), (0, ""), "{shown}");
        assert!(!shown.contains("claimed"), "{shown}");
    }
    let mut second = server(&copy);
    assert_eq!(second.data("list_ready", json!({}))["total"], 1);
    let answer = second.call("claim_item", json!({ "id": "US-001" }));
    assert!(text(&answer).starts_with("Claimed US-001 until "), "{answer}");
    let renew = json!({ "id": "US-001", "claim": claimed["claim"] });
    assert!(text(&second.call("claim_item", renew.clone())).contains("US-001 is claimed by "));
    assert_eq!(first.data("claim_item", renew)["claim"], claimed["claim"]);
}

#[test]
fn holder_has_the_name_of_the_client_program() {
    let folder = project();
    let mut first = server(folder.path());
    let epic = create_epic(&mut first, "Epic");
    let handshake = |name: &str| {
        json!({
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": { "name": name, "version": "1" },
        })
    };
    let modern = |name: &str| {
        json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": { "name": name, "version": "1" },
        })
    };
    let hostile = format!("a\u{1b}]0;x\u{7}\u{202e}\nb{}", "ж".repeat(1_000_000));
    let long = format!("{}) until never", "n".repeat(100));
    let cut = "n".repeat(60);
    for (number, (shake, meta, suffix)) in [
        (None, None, String::new()),
        (Some("claude-code"), None, " (claude-code)".to_owned()),
        (Some(" \n"), None, String::new()),
        (Some(&*hostile), None, " (a0xb)".to_owned()),
        (Some(&*long), None, format!(" ({cut})")),
        (None, Some("codex"), " (codex)".to_owned()),
        (None, Some(&*hostile), " (a0xb)".to_owned()),
    ]
    .into_iter()
    .enumerate()
    {
        let id = create_story(&mut first, &epic, &format!("Story {number}"));
        let mut client = server(folder.path());
        if let Some(name) = shake {
            client.request("initialize", handshake(name));
        }
        let mut params = json!({ "name": "claim_item", "arguments": { "id": id } });
        if let Some(name) = meta {
            params["_meta"] = modern(name);
        }
        let answer = client.request("tools/call", params);
        assert!(text(&answer).starts_with("Claimed "), "{answer}");
        let refused = first.call("claim_item", json!({ "id": id }));
        let shown = text(&refused).split(" until ").next().unwrap();
        assert_eq!(shown, format!("{id} is claimed by tester{suffix}"));
    }
}
